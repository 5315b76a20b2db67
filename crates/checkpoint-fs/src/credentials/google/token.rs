//! The options `token` and `access`, as gcsfs takes them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::key::Key;
use crate::credentials::Secret;

/// What tokens may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Scope {
    ReadOnly,
    ReadWrite,
    #[default]
    FullControl,
}

impl Scope {
    /// By the word of the option.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "read_only" => Some(Self::ReadOnly),
            "read_write" => Some(Self::ReadWrite),
            "full_control" => Some(Self::FullControl),
            _ => None,
        }
    }

    /// As Google's servers want it.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::ReadOnly => "https://www.googleapis.com/auth/devstorage.read_only",
            Self::ReadWrite => "https://www.googleapis.com/auth/devstorage.read_write",
            Self::FullControl => "https://www.googleapis.com/auth/devstorage.full_control",
        }
    }
}

/// The option `token`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// None at all, on purpose.
    Anonymous,
    /// What the machine is set up with: `google_default`.
    Default,
    /// The machine's metadata server: `cloud`.
    Cloud,
    /// A file of credentials.
    File(PathBuf),
    /// Credentials themselves.
    Key(Box<Key>),
    /// An access token, which nobody can renew.
    Raw(Secret),
}

impl Token {
    /// Reads the option: a method's name, the path of a file, the content of one, or an access token. `None`
    /// for an empty text.
    ///
    /// # Errors
    /// What is wrong, as the end of a sentence that begins with the option's name. No value is repeated.
    pub(crate) fn read(value: &Value) -> Result<Option<Self>, String> {
        let text = match value {
            Value::Object(_) => return Key::read(value).map(|key| Some(Self::Key(Box::new(key)))),
            Value::String(text) => text.trim(),
            _ => return Err(format!("must be {WANTED}")),
        };
        match text {
            "" => return Ok(None),
            "anon" => return Ok(Some(Self::Anonymous)),
            "google_default" => return Ok(Some(Self::Default)),
            "cloud" => return Ok(Some(Self::Cloud)),
            "cache" => {
                return Err(format!("`cache` names Python's own cache of tokens, which is not read: give {WANTED}"));
            }
            "browser" => return Err(format!("`browser` would wait for somebody to sign in: give {WANTED}")),
            "token" => return Err(format!("must be {WANTED}")),
            _ => {}
        }
        if text.starts_with('{') {
            let value = serde_json::from_str(text).map_err(|_| "is not JSON".to_owned())?;
            return Key::read(&value).map(|key| Some(Self::Key(Box::new(key))));
        }
        if Path::new(text).is_file() {
            return Ok(Some(Self::File(text.into())));
        }
        let is_token = text.bytes().all(|b| b.is_ascii_graphic());
        let is_path = text.ends_with(".json") || text.starts_with(['/', '~']) || text.starts_with("./");
        if !is_token || is_path {
            return Err("names a file that is not there".to_owned());
        }
        Ok(Some(Self::Raw(Secret::new(text))))
    }
}

const WANTED: &str =
    "`google_default`, `cloud`, `anon`, the path of a credential file, its content, or an access token";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_is_told_apart() {
        let read = |value: Value| Token::read(&value);
        assert_eq!(read(json!("")), Ok(None));
        assert_eq!(read(json!("anon")), Ok(Some(Token::Anonymous)));
        assert_eq!(read(json!("google_default")), Ok(Some(Token::Default)));
        assert_eq!(read(json!("cloud")), Ok(Some(Token::Cloud)));
        assert_eq!(read(json!("ya29.x/y_z")), Ok(Some(Token::Raw(Secret::new("ya29.x/y_z")))));
        let file = tempfile::NamedTempFile::new().expect("made");
        let path = file.path().to_str().expect("text");
        assert_eq!(read(json!(path)), Ok(Some(Token::File(path.into()))));
        let key = json!({"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"});
        for form in [key.clone(), json!(key.to_string())] {
            assert!(matches!(read(form), Ok(Some(Token::Key(_)))));
        }
        for bad in
            [json!("cache"), json!("browser"), json!("/nowhere/key.json"), json!("two words"), json!(5), json!("{")]
        {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
