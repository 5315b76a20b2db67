//! What the pages show is run: commands with their output, options as the code reads them, links that lead
//! somewhere.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use checkpoint_fs::{Environment, Registry, StorageOptions};
use serde_json::Value;

use crate::page::{Block, Page, codes, root};

const PAGES: [&str; 2] = ["docs/backends.md", "docs/configuration.md"];
/// Pages whose links are followed.
const LINKED: [&str; 8] = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/backends.md",
    "docs/configuration.md",
    "docs/design.md",
    "docs/exec.md",
    "docs/format.md",
    "docs/operations.md",
];

/// Runs one line in a shell where `ckpt` is the program and no variable names a store.
fn shell(line: &str, dir: &Path) -> Result<String> {
    let bin = dir.join("bin");
    std::fs::create_dir_all(&bin)?;
    if !bin.join("ckpt").exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ckpt-as-shipped"), bin.join("ckpt"))?;
    }
    let path = format!("{}:/usr/bin:/bin", bin.to_str().context("text")?);
    let ran = Command::new("sh")
        .args(["-c", line])
        .current_dir(dir)
        .env_clear()
        .envs([("PATH", path.as_str()), ("NO_COLOR", "1"), ("HOME", dir.to_str().context("text")?)])
        .output()?;
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    ensure!(ran.status.success(), "`{line}` ends with {}:\n{out}{err}", ran.status);
    Ok(out.into_owned())
}

/// A line after `$` is run; those below it are among what it prints.
fn run(block: &Block, dir: &Path) -> Result<usize> {
    let (mut printed, mut commands) = (String::new(), 0);
    for line in &block.lines {
        if let Some(command) = line.strip_prefix("$ ") {
            printed = shell(command, dir)?;
            commands += 1;
        } else {
            // How wide columns are depends on the lines that are left out.
            let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            ensure!(printed.lines().any(|p| words(p) == words(line)), "{line:?} is not in\n{printed}");
        }
    }
    Ok(commands)
}

#[test]
fn commands_run_and_print_what_is_shown() -> Result<()> {
    let mut commands = 0;
    for name in PAGES {
        for block in Page::read(name).blocks().iter().filter(|block| block.language == "console") {
            let dir = tempfile::tempdir()?;
            commands += run(block, dir.path()).with_context(|| name.to_owned())?;
        }
    }
    ensure!(commands > 5, "commands: {commands}");
    Ok(())
}

#[test]
fn options_that_are_shown_are_options() -> Result<()> {
    let registry = Registry::with_environment(Environment::default());
    for name in PAGES {
        for block in Page::read(name).blocks() {
            let text = block.lines.join("\n");
            match block.language.as_str() {
                "console" => {}
                "json" => {
                    let options = StorageOptions::from_json(&text).with_context(|| text.clone())?;
                    for protocol in options.protocols() {
                        let known = registry.option_names(protocol)?;
                        for option in options.get(&[protocol]).into_iter().flatten().map(|(option, _)| option) {
                            let within = format!("{option}.");
                            let is_known = known.iter().any(|k| k.name == *option || k.name.starts_with(&within));
                            ensure!(is_known, "{name}: {protocol} {option}");
                        }
                    }
                }
                other => anyhow::bail!("{name}: a block that nothing looks at: {other:?}"),
            }
        }
    }
    Ok(())
}

/// Every field that `--json` prints is named, in the order of the page.
#[test]
fn fields_of_json_are_the_documented_ones() -> Result<()> {
    let page = Page::read("docs/backends.md").text;
    let (_, section) = page.split_once("## Looking at a URL\n").context("a section")?;
    let named = codes(section.split("\n## ").next().unwrap_or_default());
    let dir = tempfile::tempdir()?;
    let printed = |command: &str| -> Result<Value> { Ok(serde_json::from_str(&shell(command, dir.path())?)?) };
    let resolved = printed("ckpt fs resolve --json ./here")?;
    let examined = printed("ckpt fs doctor --json ./here")?;
    let keys = |value: &Value| value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let start = named.iter().position(|name| *name == "scheme").context("the fields")?;
    let fields = keys(&resolved);
    ensure!(named[start..].iter().take(fields.len()).eq(fields.iter()), "of resolve: {fields:?}");
    let rows = examined["checks"].as_array().context("checks")?;
    for key in keys(&examined).into_iter().chain(rows.iter().flat_map(keys)) {
        ensure!(named.contains(&key.as_str()), "of doctor: {key}");
    }
    Ok(())
}

/// Of a heading, as it is linked to.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn links_lead_somewhere() -> Result<()> {
    for name in LINKED {
        let here = root().join(name);
        for link in Page::read(name).links() {
            let (file, wanted) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { here.clone() } else { here.parent().context("a directory")?.join(file) };
            ensure!(target.exists(), "{name}: nothing is at {link}");
            if !wanted.is_empty() {
                let text = std::fs::read_to_string(&target)?;
                let headings = text.lines().filter(|line| line.starts_with('#'));
                let found = headings.map(|line| anchor(line.trim_start_matches('#').trim())).any(|a| a == wanted);
                ensure!(found, "{name}: no heading for {link}");
            }
        }
    }
    Ok(())
}
