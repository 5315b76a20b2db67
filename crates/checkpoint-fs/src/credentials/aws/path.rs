//! Paths as users write them in variables and files: with `~` and `$NAME`.

use std::path::PathBuf;

use crate::options::Environment;

/// Expands `$NAME` and `${NAME}`, then a leading `~`, from these variables. What is not known stays.
pub(super) fn expand(path: &str, environment: &Environment) -> PathBuf {
    expand_home(&expand_variables(path, environment), environment)
}

/// Expands a leading `~` alone. `~name` stays: it would take this machine's table of users.
pub(super) fn expand_home(path: &str, environment: &Environment) -> PathBuf {
    match (path.strip_prefix('~'), environment.get("HOME")) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            format!("{}{rest}", home.trim_end_matches('/')).into()
        }
        _ => path.into(),
    }
}

fn expand_variables(path: &str, environment: &Environment) -> String {
    let mut expanded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let (name, length) = match tail.strip_prefix('{') {
            Some(braced) => match braced.find('}') {
                Some(end) => (&braced[..end], end + 2),
                None => ("", 0),
            },
            None => {
                let end = tail.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tail.len());
                (&tail[..end], end)
            }
        };
        match environment.raw(name) {
            Some(value) => expanded.push_str(value),
            None => expanded.push_str(&rest[at..=at + length]),
        }
        rest = &tail[length..];
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_and_variables() {
        let environment: Environment = [("HOME", "/home/me/"), ("A", "x"), ("EMPTY", "")].into_iter().collect();
        for (path, expected) in [
            ("~/.aws/config", "/home/me/.aws/config"),
            ("~", "/home/me"),
            ("~other/x", "~other/x"),
            ("/a/~", "/a/~"),
            ("$A/${A}/$B/${B}/$", "x/x/$B/${B}/$"),
            ("${A/$EMPTY-$A-", "${A/-x-"),
        ] {
            assert_eq!(expand(path, &environment), PathBuf::from(expected), "{path}");
        }
        assert_eq!(expand("~/x", &Environment::default()), PathBuf::from("~/x"));
    }
}
