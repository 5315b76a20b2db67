//! The options of plain paths, and the scheme that reads them.

use std::path::PathBuf;

use async_trait::async_trait;

use super::PosixStorage;
use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// How a directory is used; the defaults are the safe ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PosixOptions {
    /// Follow symbolic links that leave the root. Off, such a link is an error and never followed; links
    /// that stay inside are followed either way.
    pub follow_symlinks: bool,
    /// Wait for the disk: fsync of files and directories. Off, atomicity stays and durability goes: after
    /// a power failure an object reported as written may be gone or empty. For tests and scratch data.
    pub fsync: bool,
}

impl Default for PosixOptions {
    fn default() -> Self {
        Self { follow_symlinks: false, fsync: true }
    }
}

impl PosixOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `follow_symlinks`.
    #[must_use]
    pub fn follow_symlinks(mut self, follow: bool) -> Self {
        self.follow_symlinks = follow;
        self
    }

    /// Sets `fsync`.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    fn read(context: &OpenContext) -> Result<Self> {
        let mut kwargs = context.options.kwargs(&["file", "local"]);
        let mut options = Self::new();
        if let Some(follow) = kwargs.flag("follow_symlinks") {
            options.follow_symlinks = follow;
        }
        if let Some(fsync) = kwargs.flag("fsync") {
            options.fsync = fsync;
        }
        kwargs.ignored(&["auto_mkdir"], "directories are always made");
        kwargs.finish()?;
        Ok(options)
    }
}

/// Opens plain paths, `file://` and `local://`.
#[derive(Debug)]
pub(crate) struct PosixScheme;

#[async_trait]
impl Scheme for PosixScheme {
    fn names(&self) -> &'static [&'static str] {
        &["file", "local"]
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        PosixOptions::read(context).map(|_| ())
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        self.check_options(context)?;
        Ok(Resolution { key: format!("/{}", location.path()), ..Resolution::plain("file", location) })
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let options = PosixOptions::read(context)?;
        let root = PathBuf::from(format!("/{}", location.path()));
        let opened = tokio::task::spawn_blocking(move || PosixStorage::open(&root, options)).await;
        let storage = opened.map_err(|e| {
            Error::new(ErrorKind::Io, "the runtime is shutting down").with_operation("open").with_source(e)
        })??;
        Ok(std::sync::Arc::new(storage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StorageOptions;

    fn read(json: &str) -> Result<PosixOptions> {
        let options = StorageOptions::from_json(json).expect("JSON");
        PosixOptions::read(&OpenContext { options, ..OpenContext::default() })
    }

    #[test]
    fn options_are_read_under_either_name() {
        assert_eq!(read("{}").expect("valid"), PosixOptions::new());
        let given = read(r#"{"file": {"follow_symlinks": true, "fsync": "false", "auto_mkdir": true}}"#);
        assert_eq!(given.expect("valid"), PosixOptions::new().follow_symlinks(true).fsync(false));
        let local = read(r#"{"local": {"fsync": false}}"#).expect("valid");
        assert_eq!(local, PosixOptions::new().fsync(false));
    }

    #[test]
    fn unknown_options_are_errors() {
        let error = read(r#"{"file": {"follow_symlink": true}}"#).expect_err("unknown");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.message().contains("`follow_symlinks`"), "{error}");
    }
}
