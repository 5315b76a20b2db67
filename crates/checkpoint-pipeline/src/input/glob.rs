//! Glob patterns over the paths of a storage, matched one directory level at a time where that is possible.

use globset::{GlobBuilder, GlobMatcher};

use crate::error::{Error, Result};

/// A pattern below a directory without wildcards.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The pattern of each level; one for all levels where `**` or braces span them.
    pub(super) levels: Levels,
}

#[derive(Debug)]
pub(super) enum Levels {
    /// One matcher a level.
    Each(Vec<Level>),
    /// One matcher for whole paths.
    Whole(Level),
}

/// What one level, or a whole path, must match.
#[derive(Debug)]
pub(super) struct Level {
    matcher: GlobMatcher,
    /// Whether names that start with `.`, and with `_`, are asked for by name.
    dots: bool,
    underscores: bool,
}

/// Whether a path holds a wildcard: `*`, `?`, `[` or `{`.
pub(super) fn has_wildcard(path: &str) -> bool {
    path.contains(['*', '?', '[', '{'])
}

/// Splits a path into its leading segments without a wildcard, and the rest.
pub(super) fn split_base(path: &str) -> (String, String) {
    let segments: Vec<&str> = path.split('/').collect();
    let plain = segments.iter().take_while(|s| !has_wildcard(s)).count();
    (segments[..plain].join("/"), segments[plain..].join("/"))
}

impl Pattern {
    /// Parses the part of a path that begins with the first wildcard.
    ///
    /// # Errors
    /// `InvalidConfig` for a pattern that cannot be read, such as an open bracket.
    pub(super) fn parse(pattern: &str, url: &str) -> Result<Self> {
        let spans_levels = pattern.contains("**") || slash_in_braces(pattern);
        let levels = if spans_levels {
            Levels::Whole(Level::parse(pattern, url)?)
        } else {
            Levels::Each(pattern.split('/').map(|level| Level::parse(level, url)).collect::<Result<_>>()?)
        };
        Ok(Self { levels })
    }
}

impl Level {
    fn parse(pattern: &str, url: &str) -> Result<Self> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|e| {
            Error::invalid_config(format!("the input is no valid glob pattern, {}: url={url}", e.kind()))
                .with_hint("wildcards are *, ?, [a-z], {a,b} and **; a file that is really named so is read as it is")
        })?;
        let named = |mark: char| pattern.split(['/', '{', ',']).any(|part| part.starts_with(mark));
        Ok(Self { matcher: glob.compile_matcher(), dots: named('.'), underscores: named('_') })
    }

    /// Whether a name, or a whole path, matches. Hidden names match only a pattern that names them.
    pub(super) fn matches(&self, path: &str) -> bool {
        let seen = |name: &str| match name.as_bytes().first() {
            Some(b'.') => self.dots,
            Some(b'_') => self.underscores,
            _ => true,
        };
        path.split('/').all(seen) && self.matcher.is_match(path)
    }
}

fn slash_in_braces(pattern: &str) -> bool {
    let mut depth = 0usize;
    pattern.chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == '/' && depth > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: &str, path: &str) -> bool {
        match Pattern::parse(pattern, "url").expect("valid").levels {
            Levels::Whole(level) => level.matches(path),
            Levels::Each(levels) => {
                let names: Vec<&str> = path.split('/').collect();
                names.len() == levels.len() && levels.iter().zip(names).all(|(level, name)| level.matches(name))
            }
        }
    }

    #[test]
    fn wildcards_stay_within_their_level() {
        assert!(whole("*.parquet", "a.parquet") && !whole("*.parquet", "x/a.parquet"));
        assert!(whole("day=*/h?/[ab].csv", "day=1/h2/b.csv") && !whole("day=*/h?/[ab].csv", "day=1/h22/b.csv"));
        assert!(whole("{a,b}*.csv", "bx.csv") && !whole("{a,b}*.csv", "cx.csv"));
        assert!(whole("**/*.csv", "x/y/a.csv") && whole("**/*.csv", "a.csv") && !whole("**/*.csv", "a.json"));
        assert!(whole("{x/y,z}/*.csv", "x/y/a.csv") && whole("{x/y,z}/*.csv", "z/a.csv"));
    }

    #[test]
    fn hidden_names_match_only_by_name() {
        assert!(!whole("*", ".x") && !whole("*", "_x") && !whole("**", "a/_b/c"));
        assert!(whole(".*", ".x") && whole("_*", "_x") && whole("{_a,b}", "_a") && !whole("_*", ".x"));
    }

    #[test]
    fn the_base_has_no_wildcard() {
        assert_eq!(split_base("a/b/*.csv"), ("a/b".to_owned(), "*.csv".to_owned()));
        assert_eq!(split_base("*/x"), (String::new(), "*/x".to_owned()));
        assert_eq!(split_base("a/{b,c}/d/e"), ("a".to_owned(), "{b,c}/d/e".to_owned()));
        assert!(Pattern::parse("[a", "url").is_err());
    }
}
