//! Key pairs that stand in files.

use std::path::PathBuf;

use super::files::{self, AwsFiles};
use super::ini::{self, Section, Value};
use super::path;
use crate::credentials::{Credentials, ShownPath};
use crate::error::{Error, Result};
use crate::options::Environment;

const ACCESS_KEY_ID: &str = "aws_access_key_id";
const SECRET_ACCESS_KEY: &str = "aws_secret_access_key";
/// Settings of the session token, in the order they are looked at.
const SESSION_TOKENS: [&str; 2] = ["aws_security_token", "aws_session_token"];

/// What the credentials file holds under a profile's name.
pub(super) const CREDENTIALS_FILE: &str = "shared credentials file";
/// What the config file holds in a profile.
pub(super) const CONFIG_FILE: &str = "config file";
/// The file of the old EC2 tools.
pub(super) const EC2_FILE: &str = "AWS_CREDENTIAL_FILE";
/// The files of boto 2.
pub(super) const BOTO_FILE: &str = "boto config file";

/// Whether a profile holds any part of a key pair.
pub(super) fn has_any(profile: &Section) -> bool {
    profile.contains_key(ACCESS_KEY_ID) || profile.contains_key(SECRET_ACCESS_KEY)
}

/// The keys of a profile in the credentials file.
pub(super) fn of_credentials_file(files: &AwsFiles, profile: &str) -> Result<Option<Credentials>> {
    let Some(section) = files.credentials_sections.get(profile) else { return Ok(None) };
    of_section(section, true).map_err(|what| in_file(what, profile, &files.credentials_path))
}

/// The keys of a profile in the config file.
pub(super) fn of_config_file(files: &AwsFiles, profile: &str) -> Result<Option<Credentials>> {
    let Some(section) = files.config_profiles.get(profile) else { return Ok(None) };
    of_section(section, true).map_err(|what| in_file(what, profile, &files.config_path))
}

/// The keys of the file that `AWS_CREDENTIAL_FILE` names, in lines such as `AWSAccessKeyId=...`.
pub(super) fn of_ec2_file(environment: &Environment) -> Result<Option<Credentials>> {
    let Some(given) = environment.raw(EC2_FILE) else { return Ok(None) };
    let path = path::expand_home(given, environment);
    let wrong = |what: &str| Error::invalid_config(format!("{what}: variable={EC2_FILE} path={}", ShownPath(&path)));
    let text = std::fs::read_to_string(&path).map_err(|e| wrong("the file cannot be read").with_source(e))?;
    let value = |name: &str| {
        // Of several lines the last one counts.
        let mut pairs = text.lines().rev().filter_map(|line| line.split_once('='));
        pairs.find(|(key, _)| ini::strip(key) == name).map(|(_, value)| ini::strip(value).to_owned())
    };
    let Some(key) = value("AWSAccessKeyId") else { return Ok(None) };
    match value("AWSSecretKey") {
        Some(secret) if !key.is_empty() && !secret.is_empty() => Ok(Some(Credentials::new(key, secret))),
        _ => Err(wrong("the file holds an access key ID without its secret, or an empty one")
            .with_hint("write both AWSAccessKeyId=... and AWSSecretKey=...")),
    }
}

/// The keys of boto 2's configuration: the file of `BOTO_CONFIG`, or else the two usual ones.
pub(super) fn of_boto_file(environment: &Environment) -> Result<Option<Credentials>> {
    let paths: Vec<PathBuf> = match environment.raw("BOTO_CONFIG") {
        Some(path) => vec![path::expand(path, environment)],
        None => vec!["/etc/boto.cfg".into(), path::expand("~/.boto", environment)],
    };
    for path in paths {
        for (name, section) in files::read_sections(&path)?.unwrap_or_default() {
            if name == "Credentials"
                && let Some(found) = of_section(&section, false).map_err(|what| in_file(what, &name, &path))?
            {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// The key pair of a section, or what is wrong with it. Without an access key ID it has none.
fn of_section(section: &Section, with_token: bool) -> Result<Option<Credentials>, &'static str> {
    let text = |name: &str| match section.get(name) {
        Some(Value::Text(text)) => Ok(Some(text.as_str())),
        Some(Value::Nested(_)) => Err("a key is an indented block"),
        None => Ok(None),
    };
    let Some(key) = text(ACCESS_KEY_ID)? else { return Ok(None) };
    let secret = text(SECRET_ACCESS_KEY)?.ok_or("an access key ID stands without its secret")?;
    if key.is_empty() || secret.is_empty() {
        return Err("the access key ID or its secret is empty");
    }
    let mut token = None;
    if with_token && let Some(name) = SESSION_TOKENS.into_iter().find(|name| section.contains_key(*name)) {
        token = text(name)?.filter(|token| !token.is_empty()).map(str::to_owned);
    }
    Ok(Some(Credentials::new(key, secret).with_session_token(token)))
}

fn in_file(what: &str, section: &str, path: &std::path::Path) -> Error {
    Error::invalid_config(format!("{what}: section={section:?} path={}", path.display()))
        .with_hint("write both aws_access_key_id and aws_secret_access_key in the section, or neither")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn section(pairs: &[(&str, &str)]) -> Section {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), Value::Text((*v).to_owned()))).collect()
    }

    #[test]
    fn the_access_key_decides_and_the_older_token_counts() {
        let keys = [(ACCESS_KEY_ID, "AK"), (SECRET_ACCESS_KEY, "SK")];
        assert_eq!(of_section(&section(&keys[1..]), true), Ok(None));
        for broken in [&keys[..1], &[keys[0], (SECRET_ACCESS_KEY, "")], &[(ACCESS_KEY_ID, ""), keys[1]]] {
            assert!(of_section(&section(broken), true).is_err(), "{broken:?}");
        }
        let both = section(&[&keys[..], &[("aws_session_token", "new"), ("aws_security_token", "old")]].concat());
        let token = |section: &Section, with| {
            let found = of_section(section, with).expect("valid").expect("found");
            found.session_token().map(|t| t.expose().to_owned())
        };
        assert_eq!(token(&both, true).as_deref(), Some("old"));
        assert_eq!(token(&both, false), None);
        let empty = section(&[&keys[..], &[("aws_session_token", "new"), ("aws_security_token", "")]].concat());
        assert_eq!(token(&empty, true), None);
    }

    #[test]
    fn the_file_of_the_old_tools() {
        let dir = tempfile::tempdir().expect("a directory");
        let read = |text: &str| {
            std::fs::write(dir.path().join("keys"), text).expect("writable");
            let home = dir.path().to_str().expect("UTF-8");
            of_ec2_file(&[("HOME", home), (EC2_FILE, "~/keys")].into_iter().collect())
        };
        let found = read("junk\n AWSAccessKeyId = AK \nAWSSecretKey=S=K\n").expect("valid").expect("found");
        assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("AK", "S=K"));
        assert_eq!(read("AWSSecretKey=SK\n").expect("no key, no error"), None);
        assert_eq!(read("AWSAccessKeyId=AK\n").expect_err("half").kind(), ErrorKind::InvalidConfig);
        assert!(of_ec2_file(&[(EC2_FILE, "/nowhere/keys")].into_iter().collect()).is_err());
        assert_eq!(of_ec2_file(&Environment::default()).expect("not set"), None);
    }

    #[test]
    fn the_files_of_boto() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().to_str().expect("UTF-8");
        let text = "[Credentials]\naws_access_key_id = AK\naws_secret_access_key = SK\naws_session_token = T\n";
        std::fs::write(dir.path().join(".boto"), text).expect("writable");
        let found = of_boto_file(&[("HOME", home)].into_iter().collect()).expect("valid").expect("found");
        assert_eq!((found.access_key_id(), found.session_token()), ("AK", None));
        let elsewhere = [("HOME", home), ("BOTO_CONFIG", "/nowhere/boto")].into_iter().collect();
        assert_eq!(of_boto_file(&elsewhere).expect("not there"), None);
    }
}
