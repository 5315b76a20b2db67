//! A wrong command line in our own voice: one line, hints, and no value that may hold a secret.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::Cli;
use crate::failure::Failure;

/// Turns what the parser found in `args` (the program's name first) into a failure of one line with hints.
pub(crate) fn complain(error: &clap::Error, args: &[OsString]) -> Failure {
    let rendered = error.render().to_string();
    let mut message: Vec<&str> = Vec::new();
    let mut hints: Vec<&str> = Vec::new();
    for line in rendered.lines().map(str::trim) {
        if line.starts_with("Usage: ") || line.starts_with("For more information") {
            break;
        }
        if let Some(tip) = line.strip_prefix("tip: ") {
            hints.push(tip);
        } else if line.starts_with("[possible values:") {
            hints.push(line.trim_matches(['[', ']']));
        } else if !line.is_empty() {
            message.push(line.strip_prefix("error: ").unwrap_or(line));
        }
    }
    let mut text = match message.split_first() {
        Some((first, [])) => (*first).to_owned(),
        Some((first, rest)) if first.ends_with(':') => format!("{first} {}", rest.join(", ")),
        Some((first, rest)) => format!("{first}, {}", rest.join(", ")),
        None => "the command line cannot be read".to_owned(),
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    if is_missing {
        text = text.replace("the following required arguments were not provided:", "missing options:");
    }
    if is_missing && text.contains("--checkpoint <URL>") {
        hints.push("--job-dir stands for --output and --checkpoint");
    }
    if is_missing && text.contains("--id-column <NAME>") {
        hints.push("where no column names a row, give --row-hash instead of --id-column");
    }
    let failure = hints.iter().fold(Failure::usage(mask(&text)), |failure, hint| failure.with_hint(mask(hint)));
    failure.with_hint(format!("see `{} --help`", command_of(args)))
}

/// The command that the arguments begin with, as far as there is one of that name.
fn command_of(args: &[OsString]) -> String {
    let cli = Cli::command();
    let (mut known, mut name) = (&cli, String::from("ckpt"));
    for word in args.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(command) = known.find_subcommand(word) else { break };
        known = command;
        name = format!("{name} {word}");
    }
    name
}

/// Hides what may be storage options or credentials in a URL: the parser quotes what it was given.
fn mask(text: &str) -> String {
    let text = match (text.find('{'), text.rfind('}')) {
        (Some(open), Some(close)) if open < close => format!("{}{{...}}{}", &text[..open], &text[close + 1..]),
        (Some(open), _) => format!("{}{{...", &text[..open]),
        _ => text.to_owned(),
    };
    let Some(scheme) = text.find("://") else { return text };
    let authority = scheme + "://".len();
    let end = text[authority..].find(['/', '\'', ' ']).map_or(text.len(), |at| authority + at);
    match text[authority..end].rfind('@') {
        Some(at) => format!("{}...{}", &text[..authority], &text[authority + at..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn lines(args: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = std::iter::once("ckpt").chain(args.iter().copied()).map(Into::into).collect();
        match Cli::try_parse_from(&words) {
            Ok(_) => Vec::new(),
            Err(error) => complain(&error, &words).lines(false),
        }
    }

    #[test]
    fn a_missing_option_is_one_line() {
        let said = lines(&["run", "--input", "x", "--output", "y", "--id-column", "id"]);
        assert_eq!(said[0], "error: missing options: --checkpoint <URL>");
        assert_eq!(said[1], "hint: --job-dir stands for --output and --checkpoint");
        assert_eq!(said[2], "hint: see `ckpt run --help`");
        assert!(lines(&["plan", "--input", "x"]).iter().any(|line| line.contains("--row-hash")));
    }

    #[test]
    fn the_nearest_option_is_a_hint() {
        let said = lines(&["verify", "c", "--outptu", "o"]);
        assert_eq!(said[0], "error: unexpected argument '--outptu' found");
        assert_eq!(said[1], "hint: a similar argument exists: '--output'");
    }

    #[test]
    fn wrong_values_say_what_to_write() {
        let base = ["run", "--input", "x", "--job-dir", "j", "--row-hash"];
        let with = |extra: &[&str]| lines(&[&base[..], extra].concat());
        assert_eq!(with(&[]), Vec::<String>::new());
        let said = with(&["--workers", "0"]);
        assert_eq!(said[0], "error: invalid value '0' for '--workers <N>': must be a whole number from 1 to 4096");
        let said = with(&["--progress", "loud"]);
        assert_eq!(
            said[..2],
            [
                "error: invalid value 'loud' for '--progress <HOW>'".to_owned(),
                "hint: possible values: auto, plain, none".to_owned(),
            ]
        );
        assert!(with(&["--exec-format", "jsonl"])[0].contains("--exec <CMD>"));
        assert!(with(&["--output", "o"])[0].contains("cannot be used with"));
        assert!(with(&["--id-column", "id"])[0].contains("cannot be used with"));
    }

    #[test]
    fn nothing_that_may_be_a_secret_is_repeated() {
        let options = r#"{"s3": {"secret": "hunter2"}}"#;
        let glued = format!("--storage-option={options}");
        for args in [
            vec!["status", "c", options],
            vec!["status", "c", glued.as_str()],
            vec!["rm", "c", "s3://AKID:hunter2@bucket/x"],
            vec!["s3://hunter2@bucket"],
            vec![options],
        ] {
            let said = lines(&args).join("\n");
            assert!(said.starts_with("error: ") && !said.contains("hunter2"), "{said}");
        }
    }
}
