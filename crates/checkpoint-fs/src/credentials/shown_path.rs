//! Paths of secret files in messages.

use std::fmt;
use std::path::Path;

/// The longest name that a file can have; longer texts are no paths.
const LONGEST_NAME: usize = 255;

/// A path as messages show it. Where a setting that should name a file holds the file's content instead, as
/// happens to variables of CI systems, that is said and not shown.
#[derive(Debug)]
pub(crate) struct ShownPath<'p>(pub(crate) &'p Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_content(&self.0.to_string_lossy()) {
            f.write_str("(not shown, as it looks like the content of the file: give its path)")
        } else {
            self.0.display().fmt(f)
        }
    }
}

/// Whether a text is JSON, lines, or a token rather than a path. Tokens and JSON in base64 begin with `eyJ`.
fn is_content(text: &str) -> bool {
    text.starts_with("eyJ")
        || text.contains(|c: char| c.is_control() || matches!(c, '{' | '"'))
        || text.split('/').any(|name| name.len() > LONGEST_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_and_content_is_not() {
        let shown = |text: &str| ShownPath(Path::new(text)).to_string();
        for path in ["/etc/keys/reader.json", "key file.json", "~/é", "C:\\keys\\x"] {
            assert_eq!(shown(path), path);
        }
        let long = format!("/{}", "s".repeat(300));
        for content in ["{\"private_key\":\"hunter2\"}", "[default]\nsecret=hunter2", "eyJhbGciOi.hunter2.x", &long] {
            let shown = shown(content);
            assert!(shown.contains("give its path") && !shown.contains("hunter2"), "{shown}");
        }
    }
}
