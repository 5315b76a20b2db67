//! URLs of storages: `scheme://authority/path`, and plain paths of this machine.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::path::ObjectPath;

/// Where a storage or an object is. Made by [`Location::parse`].
///
/// Nothing is percent-decoded and `?` and `#` are plain characters, as in fsspec: what is written is the
/// key. A trailing `/` is dropped.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location {
    scheme: String,
    authority: String,
    path: ObjectPath,
}

impl Location {
    /// Parses a URL or a plain path. Plain and `file://` paths become absolute.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for an empty URL, a missing bucket, user
    /// information before `@` (it is not repeated in the message; Azure's URLs may have their container
    /// there), a path with `//`, `.` or `..`, or one slash after a scheme or a `~`, which would silently be a
    /// directory of this machine.
    pub fn parse(url: &str) -> Result<Self> {
        if url.is_empty() {
            return Err(Error::invalid_config("the URL is empty")
                .with_hint("give a path such as ./out, or a URL such as s3://bucket/prefix"));
        }
        let Some((scheme, rest)) = split_scheme(url) else {
            if let Some((scheme, path)) = url.split_once(":/").filter(|(scheme, _)| is_scheme(scheme)) {
                let path = path.rsplit('@').next().unwrap_or(path); // what stands before it may be a secret
                let path = if scheme == "file" { format!("/{path}") } else { path.to_owned() };
                return Err(Error::invalid_config(format!("the URL has one slash after its scheme: scheme={scheme}"))
                    .with_hint(format!("write {scheme}://{path}, or ./{scheme}:/{path} for a path of this machine")));
            }
            if names_a_home(url) {
                return Err(Error::invalid_config(format!(
                    "`~` is a shell's word, and is not expanded here: path={url:?}"
                ))
                .with_hint(format!("write the whole path, or ./{url} for a directory that is called so")));
            }
            return Self::local(Path::new(url), url);
        };
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "file" || scheme == "local" {
            let path = rest.strip_prefix("localhost/").map_or_else(|| rest.to_owned(), |r| format!("/{r}"));
            if !path.starts_with('/') {
                let shown = url.rsplit('@').next().unwrap_or(url); // what stands before it may be a secret
                return Err(Error::invalid_config(format!("a file URL names a host or a relative path: {shown:?}"))
                    .with_hint("write file:///abs/path, or the plain path"));
            }
            return Self::local(Path::new(&path), url);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') && !names_a_container(&scheme, authority) {
            return Err(Error::invalid_config(format!("the {scheme} URL holds user information before '@'"))
                .with_hint("credentials go into storage options or the environment, never into the URL"));
        }
        if authority.is_empty() && scheme != "memory" {
            return Err(Error::invalid_config(format!("the URL names no bucket: url={url:?}"))
                .with_hint(format!("write {scheme}://bucket/path")));
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let path = ObjectPath::parse(path).map_err(|e| e.with_url(url))?;
        Ok(Self { scheme, authority: authority.to_owned(), path })
    }

    fn local(path: &Path, shown: &str) -> Result<Self> {
        let absolute = std::path::absolute(path)
            .map_err(|e| Error::invalid_config("the path cannot be made absolute").with_url(shown).with_source(e))?;
        let absolute = resolve_parents(&absolute).map_err(|e| {
            Error::invalid_config("the path holds `..` and cannot be resolved").with_url(shown).with_source(e)
        })?;
        let text = absolute
            .to_str()
            .ok_or_else(|| Error::invalid_config("the path is not valid UTF-8").with_url(absolute.to_string_lossy()))?;
        let segments: Vec<&str> = text.split('/').filter(|s| !s.is_empty()).collect();
        let path = ObjectPath::parse(segments.join("/")).map_err(|e| e.with_url(shown))?;
        Ok(Self { scheme: "file".to_owned(), authority: String::new(), path })
    }

    /// A location from its parts; for schemes that are registered from outside.
    pub fn from_parts(scheme: impl Into<String>, authority: impl Into<String>, path: ObjectPath) -> Self {
        Self { scheme: scheme.into(), authority: authority.into(), path }
    }

    /// The scheme in lower case; `file` for plain paths.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The bucket, container or volume part; empty for `file`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path below the authority (below `/` for `file`).
    pub fn path(&self) -> &ObjectPath {
        &self.path
    }

    /// The absolute path of a `file` location.
    pub fn local_path(&self) -> Option<PathBuf> {
        (self.scheme == "file").then(|| PathBuf::from(format!("/{}", self.path)))
    }

    /// The location one level up, and the last segment; `None` at the root.
    pub fn split_last(&self) -> Option<(Location, ObjectPath)> {
        let parent = self.path.parent()?;
        let name = ObjectPath::parse(self.path.name()).ok()?;
        Some((Self { path: parent, ..self.clone() }, name))
    }

    /// This location with more segments.
    ///
    /// # Errors
    /// As [`ObjectPath::parse`].
    pub fn join(&self, child: &str) -> Result<Self> {
        Ok(Self { path: self.path.join(child)?, ..self.clone() })
    }

    /// Whether `other` is this location or lies inside it.
    pub fn contains(&self, other: &Location) -> bool {
        self.scheme == other.scheme
            && self.authority == other.authority
            && other.path.strip_prefix(&self.path).is_some()
    }

    /// The path as Ray and pyarrow know it, without the scheme: `/abs/path`, or `bucket/key`.
    pub fn without_scheme(&self) -> String {
        match (self.scheme == "file", self.path.is_root()) {
            (true, _) => format!("/{}", self.path),
            (false, true) => self.authority.clone(),
            (false, false) => format!("{}/{}", self.authority, self.path),
        }
    }
}

/// Whether what stands before `@` is a container: `container@account.dfs.core.windows.net`.
fn names_a_container(scheme: &str, authority: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '$';
    matches!(scheme, "az" | "abfs" | "abfss")
        && authority.split_once('@').is_some_and(|(container, host)| {
            !container.is_empty() && container.chars().all(plain) && !host.contains('@')
        })
}

/// Whether a shell would read the first segment as somebody's home directory: `~` or `~user`.
fn names_a_home(path: &str) -> bool {
    let Some((user, _)) = path.strip_prefix('~').map(|rest| rest.split_once('/').unwrap_or((rest, ""))) else {
        return false;
    };
    // A plain name such as `~backup` is more likely to be a file's.
    let is_below = path.contains('/');
    user.is_empty() || is_below && user.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Splits `scheme://rest`.
fn split_scheme(url: &str) -> Option<(&str, &str)> {
    url.split_once("://").filter(|(scheme, _)| is_scheme(scheme))
}

/// A scheme is letters, digits, `+`, `-`, `.` after a first letter.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Resolves `..` as the kernel would: what comes before it must exist.
fn resolve_parents(path: &Path) -> std::io::Result<PathBuf> {
    let components: Vec<Component<'_>> = path.components().collect();
    let Some(last) = components.iter().rposition(|c| *c == Component::ParentDir) else {
        return Ok(path.to_owned());
    };
    let head: PathBuf = components[..=last].iter().collect();
    Ok(components[last + 1..].iter().fold(std::fs::canonicalize(head)?, |p, c| p.join(c)))
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.scheme == "file", self.path.is_root()) {
            (true, _) => write!(f, "/{}", self.path),
            (false, true) => write!(f, "{}://{}", self.scheme, self.authority),
            (false, false) => write!(f, "{}://{}/{}", self.scheme, self.authority, self.path),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_as_written() {
        let l = Location::parse("s3://bkt/a b/c%20d?x#y/").expect("valid");
        assert_eq!((l.scheme(), l.authority(), l.path().as_str()), ("s3", "bkt", "a b/c%20d?x#y"));
        assert_eq!(l.to_string(), "s3://bkt/a b/c%20d?x#y");
        assert_eq!(l.without_scheme(), "bkt/a b/c%20d?x#y");
    }

    #[test]
    fn plain_and_file_paths_are_absolute() {
        assert_eq!(Location::parse("/a//b/").expect("valid").to_string(), "/a/b");
        assert_eq!(Location::parse("file:///a/b").expect("valid").to_string(), "/a/b");
        let cwd = std::env::current_dir().expect("has one");
        assert_eq!(Location::parse("./x").expect("valid").local_path(), Some(cwd.join("x")));
        assert_eq!(Location::parse("/tmp/../a").expect("valid").to_string(), "/a");
    }

    #[test]
    fn refuses_what_is_ambiguous_and_never_repeats_credentials() {
        for bad in [
            "",
            "s3://",
            "s3:///key",
            "s3://b/a//b",
            "s3://b/../c",
            "file://host/x",
            "s3:/b/x",
            "file:/x",
            "~",
            "~/x",
            "~root/x",
        ] {
            assert!(Location::parse(bad).is_err(), "{bad}");
        }
        for path in ["./s3:/b/x", "a:b", "12:/x", "dir/s3:/x", "./~/x", "~backup", "~$a/x", "a/~/x"] {
            assert_eq!(Location::parse(path).expect("a plain path").scheme(), "file", "{path}");
        }
        for bad in ["s3://AKID:hunter2@bkt/x", "s3:/AKID:hunter2@bkt/x", "file://me:hunter2@host/x"] {
            let error = Location::parse(bad).expect_err("refused");
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }

    #[test]
    fn a_container_may_stand_before_the_account() {
        let l = Location::parse("abfss://data@acct.dfs.core.windows.net/a/b").expect("valid");
        assert_eq!((l.authority(), l.path().as_str()), ("data@acct.dfs.core.windows.net", "a/b"));
        assert_eq!(l.to_string(), "abfss://data@acct.dfs.core.windows.net/a/b");
        for bad in ["az://user:hunter2@acct/x", "az://@acct/x", "az://a@hunter2@acct/x", "s3://data@acct/x"] {
            let error = Location::parse(bad).expect_err(bad);
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn containment_respects_segments() {
        let dir = Location::parse("s3://b/a").expect("valid");
        assert!(dir.contains(&Location::parse("s3://b/a/x").expect("valid")));
        assert!(dir.contains(&dir));
        assert!(!dir.contains(&Location::parse("s3://b/ab").expect("valid")));
    }
}
