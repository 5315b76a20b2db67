//! Paths inside a storage: parsed once, never able to leave the root.

use std::fmt;

use crate::error::{Error, Result};

/// A path relative to a storage's root: segments joined by `/`, plain text (nothing is percent-decoded).
///
/// The empty path is the root itself. No segment is empty, `.` or `..`, and none holds a NUL byte or a
/// line break, so a path can neither leave its root nor mean different things to different stores. Keys
/// that break these rules exist in object stores; they cannot be reached through this type, on purpose.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectPath(String);

impl ObjectPath {
    /// The root of the storage.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path. A leading or trailing `/` is refused along with `//`, `.` and `..`.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that quotes the path and says which rule it breaks.
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() {
            return Ok(Self::root());
        }
        for segment in text.split('/') {
            let rule = match segment {
                "" => "an empty segment (`//`, or a `/` at an end)",
                "." | ".." => "a `.` or `..` segment",
                s if s.contains(['\0', '\n', '\r']) => "a NUL byte or line break",
                _ => continue,
            };
            return Err(Error::invalid_config(format!(
                "path has {rule}, which no storage here can hold safely: path={text:?}"
            )));
        }
        Ok(Self(text))
    }

    /// Appends one or more segments.
    ///
    /// # Errors
    /// As [`ObjectPath::parse`].
    pub fn join(&self, child: &str) -> Result<Self> {
        let child = Self::parse(child)?;
        Ok(self.join_path(&child))
    }

    /// Appends an already parsed path.
    #[must_use]
    pub fn join_path(&self, child: &ObjectPath) -> Self {
        match (self.0.is_empty(), child.0.is_empty()) {
            (true, _) => child.clone(),
            (_, true) => self.clone(),
            _ => Self(format!("{}/{}", self.0, child.0)),
        }
    }

    /// The path as text, without a leading `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last segment; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The path without its last segment; `None` for the root.
    pub fn parent(&self) -> Option<ObjectPath> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.rfind('/') {
            Some(i) => Self(self.0[..i].to_owned()),
            None => Self::root(),
        })
    }

    /// The rest of this path below `dir`; `None` where it is not inside `dir`. The root holds everything.
    pub fn strip_prefix(&self, dir: &ObjectPath) -> Option<ObjectPath> {
        if dir.is_root() {
            return Some(self.clone());
        }
        match self.0.strip_prefix(&dir.0) {
            Some("") => Some(Self::root()),
            Some(rest) => rest.strip_prefix('/').map(|r| Self(r.to_owned())),
            None => None,
        }
    }

    /// The segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|s| !s.is_empty())
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::str::FromStr for ObjectPath {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Self::parse(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_could_leave_the_root_or_be_rewritten() {
        for bad in ["/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\0b", "a\nb"] {
            assert!(ObjectPath::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["", "a", "a b/c+d/%41/#?/é", ".hidden", "...", "a/..b"] {
            assert_eq!(ObjectPath::parse(good).expect("valid").as_str(), good);
        }
    }

    #[test]
    fn parents_names_and_prefixes() {
        let p = ObjectPath::parse("a/b/c").expect("valid");
        assert_eq!(p.name(), "c");
        assert_eq!(p.parent().expect("has one").as_str(), "a/b");
        assert_eq!(ObjectPath::parse("a").expect("valid").parent(), Some(ObjectPath::root()));
        let dir = ObjectPath::parse("a/b").expect("valid");
        assert_eq!(p.strip_prefix(&dir).expect("inside").as_str(), "c");
        let other = ObjectPath::parse("a/bc").expect("valid");
        assert_eq!(other.strip_prefix(&dir), None);
    }
}
