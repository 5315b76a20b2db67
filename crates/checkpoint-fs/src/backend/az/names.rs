//! Which keys Azure holds as they are; all others are refused before anything is sent.

use crate::error::{Error, Result};

/// The longest key, in characters; counted in bytes here, which are never fewer.
pub(super) const MAX_KEY: usize = 1024;
/// The most segments of a key.
const MAX_SEGMENTS: usize = 254;

/// Checks that the service keeps a key exactly: it turns `\` into `/`, drops dots at the end of a segment,
/// and takes no control characters.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) that says what is wrong with it.
pub(super) fn check(key: &str) -> Result<()> {
    if key.len() > MAX_KEY {
        return Err(Error::unsupported(format!("the key is too long: bytes={} most={MAX_KEY}", key.len())));
    }
    let segments = key.split('/').count();
    if segments > MAX_SEGMENTS {
        return Err(Error::unsupported(format!("the key has too many parts: parts={segments} most={MAX_SEGMENTS}")));
    }
    let rule = if key.contains('\\') {
        "a backslash, which Azure turns into a slash"
    } else if key.split('/').any(|segment| segment.ends_with('.')) {
        "a dot at the end of a name, which Azure may drop"
    } else if key.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        "a control character, which Azure refuses"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("the key holds {rule}: key={key:?}")).with_hint("use another name on Azure"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_keys_are_kept_or_refused() {
        for good in ["a b", ".hidden", "..two", "a/.x/y", "%2F", "q?x#y", "é\u{1F980}", " lead", "trail "] {
            check(good).expect(good);
        }
        let deep = vec!["d"; 255].join("/");
        for bad in ["a\\b", "dot.", "...", "a./b", "tab\t", "del\u{7f}", "\u{ffff}", &"n".repeat(1025), &deep] {
            assert_eq!(check(bad).expect_err(bad).kind(), crate::ErrorKind::Unsupported);
        }
    }
}
