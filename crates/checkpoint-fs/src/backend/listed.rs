//! From the keys of a listing to paths.

use crate::error::{Error, ErrorKind, Result};
use crate::path::ObjectPath;

/// The path, below `root`, of a key that a listing of `prefix` gave; `None` for the marker of a directory.
/// `prefix` ends in `/`, or is empty; `is_directory` says that the key is a common prefix.
///
/// # Errors
/// `Corrupt` for a key that no such listing has, and `Unsupported` for one that is no path. The caller names
/// the call.
pub(crate) fn listed_path(
    root: &ObjectPath,
    prefix: &str,
    key: &str,
    is_directory: bool,
) -> Result<Option<ObjectPath>> {
    let damaged = |why: &str| Error::new(ErrorKind::Corrupt, format!("the listing is damaged: {why}: key={key:?}"));
    let below = key.strip_prefix(prefix).ok_or_else(|| damaged("a key outside the prefix"))?;
    let below = match (is_directory, below.strip_suffix('/')) {
        (true, Some(name)) => name,
        (true, None) => return Err(damaged("a common prefix without its end")),
        (false, Some(_)) => return Ok(None),
        (false, None) if below.is_empty() => return Ok(None),
        (false, None) => below,
    };
    let directory = ObjectPath::parse(prefix.trim_end_matches('/'))?;
    let full = if below.is_empty() { None } else { directory.join(below).ok() };
    match full.and_then(|path| path.strip_prefix(root)) {
        Some(path) => Ok(Some(path)),
        None => Err(Error::unsupported(format!("the bucket holds a key that is no path here: key={key:?}"))
            .with_hint("a path has no `//`, `.`, `..` or line break: move that object elsewhere")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_paths_below_the_root() {
        let root = ObjectPath::parse("r").expect("valid");
        let path = |key, is_directory| listed_path(&root, "r/d/", key, is_directory);
        let found = |key, is_directory| path(key, is_directory).expect("valid").map(|path| path.to_string());
        assert_eq!(found("r/d/x", false).as_deref(), Some("d/x"));
        assert_eq!(found("r/d/e/", true).as_deref(), Some("d/e"));
        assert_eq!((found("r/d/", false), found("r/d/e/", false)), (None, None));
        assert_eq!(path("other", false).expect_err("outside").kind(), ErrorKind::Corrupt);
        assert_eq!(path("r/d/e", true).expect_err("no end").kind(), ErrorKind::Corrupt);
        for odd in ["r/d/a//b", "r/d/../x", "r/d/a\nb"] {
            assert_eq!(path(odd, false).expect_err(odd).kind(), ErrorKind::Unsupported, "{odd:?}");
        }
        assert_eq!(path("r/d//", true).expect_err("no name").kind(), ErrorKind::Unsupported);
    }
}
