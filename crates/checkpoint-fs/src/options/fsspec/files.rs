//! Files in fsspec's config directory: `*.ini` and `*.json`, by name.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Configuration;
use crate::error::{Error, Result};
use crate::ini::{self, Texts};
use crate::options::{Environment, exact};

/// The variable of the directory; `~` in it is a plain character.
pub(crate) const CONFIG_DIR: &str = "FSSPEC_CONFIG_DIR";
/// How deep a reference may lead through others.
const DEPTH: usize = 10;

/// Reads the files of the directory, which need not exist.
pub(super) fn read(environment: &Environment, configuration: &mut Configuration) -> Result<()> {
    let directory = match (environment.raw(CONFIG_DIR), environment.get("HOME")) {
        (Some(directory), _) => PathBuf::from(directory),
        (None, Some(home)) => Path::new(home).join(".config/fsspec"),
        (None, None) => return Ok(()),
    };
    if !directory.is_dir() {
        return Ok(());
    }
    let unreadable = |e: std::io::Error| {
        Error::invalid_config(format!("fsspec's config directory cannot be read: path={}", directory.display()))
            .with_hint(format!("make it readable, or point {CONFIG_DIR} elsewhere"))
            .with_source(e)
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(unreadable)? {
        names.extend(entry.map_err(unreadable)?.file_name().into_string());
    }
    names.sort();
    for name in names {
        let path = directory.join(&name);
        if name.ends_with(".ini") && path.is_file() {
            read_ini(&path, &name, configuration)?;
        } else if name.ends_with(".json") {
            read_json(&path, &name, configuration)?;
        }
    }
    Ok(())
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::invalid_config(format!("fsspec's config file cannot be used: {why}: path={}", path.display()))
        .with_hint("correct the file, or move it out of the directory; fsspec itself fails on it too")
}

fn text_of(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| wrong(path, "it cannot be read").with_source(e))?;
    String::from_utf8(bytes).map_err(|_| wrong(path, "it is not UTF-8"))
}

fn read_ini(path: &Path, name: &str, configuration: &mut Configuration) -> Result<()> {
    let sections =
        ini::parse(&text_of(path)?).map_err(|fault| wrong(path, format_args!("{}: line={}", fault.why, fault.line)))?;
    for (protocol, settings) in sections {
        for (key, text) in &settings {
            let text = interpolated(&text.text, &settings, DEPTH).ok_or_else(|| {
                wrong(path, format_args!("a value refers to nothing: section={protocol} setting={key}"))
                    .with_hint("write %% for a percent sign, or keep the value in a .json file")
            })?;
            configuration.set(&protocol, key, Value::String(text), &source(name));
        }
    }
    Ok(())
}

/// Replaces `%(name)s` by another setting of the section, and `%%` by a percent sign.
fn interpolated(text: &str, settings: &Texts, depth: usize) -> Option<String> {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        done.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            done.push('%');
            rest = after;
        } else {
            let (name, after) = after.strip_prefix('(')?.split_once(")s")?;
            let value = &settings.get(&name.to_lowercase())?.text;
            done.push_str(&interpolated(value, settings, depth.checked_sub(1)?)?);
            rest = after;
        }
    }
    done.push_str(rest);
    Some(done)
}

fn read_json(path: &Path, name: &str, configuration: &mut Configuration) -> Result<()> {
    let value = exact::parse(&text_of(path)?)
        .map_err(|e| wrong(path, format_args!("it is not JSON: line={} column={}", e.line(), e.column())))?;
    let Value::Object(protocols) = value else { return Err(wrong(path, "it is not an object")) };
    for (protocol, kwargs) in protocols {
        let Value::Object(kwargs) = kwargs else {
            return Err(wrong(path, format_args!("a protocol's options are not an object: protocol={protocol}")));
        };
        for (key, value) in kwargs {
            configuration.set(&protocol, &key, value, &source(name));
        }
    }
    Ok(())
}

fn source(name: &str) -> String {
    format!("fsspec config file: {name}")
}
