//! The help of every command, compared with the file that reviewers see. `UPDATE_HELP=1` writes it anew.

mod program;

use std::path::Path;

use program::ckpt;

const COMMANDS: [&[&str]; 19] = [
    &[],
    &["run"],
    &["plan"],
    &["status"],
    &["ids"],
    &["verify"],
    &["recover"],
    &["compact"],
    &["rm"],
    &["gc"],
    &["demo"],
    &["fs"],
    &["fs", "ls"],
    &["fs", "cat"],
    &["fs", "cp"],
    &["fs", "stat"],
    &["fs", "resolve"],
    &["fs", "rm"],
    &["fs", "doctor"],
];

#[test]
fn help_is_as_it_was_reviewed() {
    let mut text = String::new();
    for command in COMMANDS {
        let ended = ckpt(Path::new("."), &[command, &["--help"]].concat()).exits(0);
        assert_eq!(ended.err, "", "help goes to stdout");
        let name = [&["ckpt"], command].concat().join(" ");
        text.push_str(&format!("$ {name} --help\n{}\n", ended.out));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help.txt");
    if std::env::var_os("UPDATE_HELP").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let reviewed = std::fs::read_to_string(&path).expect("the reviewed help");
    assert!(text == reviewed, "the help changed; look at it, and write it with UPDATE_HELP=1:\n{text}");
}

#[test]
fn the_version_is_the_packages() {
    let ended = ckpt(Path::new("."), &["--version"]).exits(0);
    assert_eq!(ended.out, format!("ckpt {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn without_a_command_the_help_is_an_error() {
    let ended = ckpt(Path::new("."), &[]).exits(2);
    assert_eq!(ended.out, "");
    assert!(ended.err.contains("Usage: ckpt"), "{}", ended.err);
}
