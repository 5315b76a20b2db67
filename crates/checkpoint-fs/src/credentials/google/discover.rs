//! Which credentials are used: the option, the variable, gcloud's file, the machine's own identity, or none.

use std::path::{Path, PathBuf};

use super::key::Key;
use super::{GoogleParts, Token};
use crate::credentials::{Secret, ShownPath};
use crate::error::{Error, Result};
use crate::options::Environment;

/// The variable of a credential file.
pub(crate) const KEY_FILE_VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
/// The variable of gcloud's own directory.
pub(crate) const GCLOUD_VARIABLE: &str = "CLOUDSDK_CONFIG";
/// The variable that says that this is no machine of Google's.
pub(crate) const NO_METADATA_VARIABLE: &str = "NO_GCE_CHECK";
/// The file that `gcloud auth application-default login` writes.
const GCLOUD_FILE: &str = "application_default_credentials.json";
/// The largest credential file that is read.
const MAX_FILE: u64 = 1 << 20;

/// Where tokens will come from.
#[derive(Debug)]
pub(super) enum Found {
    Anonymous { source: String },
    Raw { token: Secret, source: String },
    Key { key: Box<Key>, source: String },
    Metadata { is_required: bool },
}

/// Finds it. Reads files, and sends nothing.
pub(super) fn find(parts: &GoogleParts) -> Result<Found> {
    match &parts.token {
        Some((token, source)) => chosen(token, source, &parts.environment),
        None => {
            let metadata = parts.on_google && parts.environment.get(NO_METADATA_VARIABLE) != Some("true");
            let none = if metadata {
                Found::Metadata { is_required: false }
            } else if parts.on_google {
                Found::Anonymous { source: "none found".to_owned() }
            } else {
                Found::Anonymous { source: "default of a configured endpoint".to_owned() }
            };
            Ok(set_up(&parts.environment)?.unwrap_or(none))
        }
    }
}

/// What the option asks for.
fn chosen(token: &Token, source: &str, environment: &Environment) -> Result<Found> {
    let source = source.to_owned();
    match token {
        Token::Anonymous => Ok(Found::Anonymous { source }),
        Token::Raw(token) => Ok(Found::Raw { token: token.clone(), source }),
        Token::Key(key) => Ok(Found::Key { key: key.clone(), source }),
        Token::File(path) => from_file(path, &source),
        Token::Cloud => Ok(Found::Metadata { is_required: true }),
        Token::Default => Ok(set_up(environment)?.unwrap_or(Found::Metadata { is_required: true })),
    }
}

/// What a user set this machine up with.
fn set_up(environment: &Environment) -> Result<Option<Found>> {
    if let Some(path) = environment.get(KEY_FILE_VARIABLE) {
        return from_file(Path::new(path), "environment: GOOGLE_APPLICATION_CREDENTIALS").map(Some);
    }
    let directory = match (environment.get(GCLOUD_VARIABLE), environment.get("HOME")) {
        (Some(directory), _) => PathBuf::from(directory),
        (None, Some(home)) => Path::new(home).join(".config/gcloud"),
        (None, None) => return Ok(None),
    };
    let path = directory.join(GCLOUD_FILE);
    if path.is_file() { from_file(&path, "gcloud's application default").map(Some) } else { Ok(None) }
}

fn from_file(path: &Path, source: &str) -> Result<Found> {
    // Neither the content nor a parser's words about it are repeated.
    let wrong = |why: String| {
        Error::invalid_config(format!("the credential file {why}: path={} source={source}", ShownPath(path)))
            .with_hint("give a file that Google Cloud's console or gcloud made, or unset it")
    };
    let size = std::fs::metadata(path).map_err(|e| wrong(format!("cannot be read ({})", e.kind())))?.len();
    if size > MAX_FILE {
        return Err(wrong("is too large to be one".to_owned()));
    }
    let text = std::fs::read(path).map_err(|e| wrong(format!("cannot be read ({})", e.kind())))?;
    let value = serde_json::from_slice(&text).map_err(|_| wrong("is not JSON".to_owned()))?;
    let key = Key::read(&value).map_err(wrong)?;
    Ok(Found::Key { key: Box::new(key), source: source.to_owned() })
}
