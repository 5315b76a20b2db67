//! How far an input reaches, told from its text alone: which directories it would read files of.

use checkpoint_fs::{Location, ObjectPath};

use super::glob::{Levels, Pattern, has_wildcard, split_base};
use crate::error::Result;

/// What an input may read.
#[derive(Debug)]
pub(crate) enum Reach {
    /// A file, or everything below a directory.
    Place(Location),
    /// What matches a pattern below a directory.
    Glob {
        /// The directory before the first wildcard.
        base: Location,
        /// The rest.
        pattern: Pattern,
    },
}

impl Reach {
    /// Reads the input as `discover` does, looking at no storage.
    ///
    /// # Errors
    /// `InvalidConfig` for what is no URL, or no pattern.
    pub(crate) fn of(input: &str) -> Result<Self> {
        let at = Location::parse(input)?;
        if !has_wildcard(at.path().as_str()) {
            return Ok(Self::Place(at));
        }
        let (base, pattern) = split_base(at.path().as_str());
        let base = Location::from_parts(at.scheme(), at.authority(), ObjectPath::parse(base)?);
        Ok(Self::Glob { base, pattern: Pattern::parse(&pattern, input)? })
    }

    /// Whether a file of a task, under one of these extensions, would be read if it lay in the directory.
    pub(crate) fn takes_any_in(&self, dir: &Location, extensions: &[&str]) -> bool {
        match self {
            Self::Place(at) => at.contains(dir),
            Self::Glob { base, pattern } => {
                let inside = base.contains(dir).then(|| dir.path().strip_prefix(base.path())).flatten();
                inside.is_some_and(|inside| pattern.takes_any_in(&inside, extensions))
            }
        }
    }
}

impl Pattern {
    fn takes_any_in(&self, dir: &ObjectPath, extensions: &[&str]) -> bool {
        let Levels::Each(levels) = &self.levels else { return true }; // `**` may match anything
        let depth = dir.segments().count();
        let dir_matches = dir.segments().zip(levels).all(|(name, level)| level.matches(name));
        match levels.get(depth) {
            Some(level) if levels.len() == depth + 1 => {
                dir_matches
                    && extensions.iter().any(|extension| {
                        ('a'..='z').any(|first| level.matches(&format!("{first}aaaaaaaaaaaaaaa-1-000001.{extension}")))
                    })
            }
            _ => dir_matches,
        }
    }
}
