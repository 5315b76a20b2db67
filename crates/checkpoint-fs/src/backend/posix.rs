//! A directory of this machine, or a shared mount.
use crate::error::{Error, Result};
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::storage::StorageRef;
use async_trait::async_trait;

/// Opens plain paths and `file://`.
#[derive(Debug)]
pub(crate) struct PosixScheme;

/// To be written.
#[derive(Debug)]
pub struct PosixStorage;

#[async_trait]
impl Scheme for PosixScheme {
    fn names(&self) -> &'static [&'static str] {
        &["file", "local"]
    }
    fn check_options(&self, _context: &OpenContext) -> Result<()> {
        Ok(())
    }
    async fn open(&self, _location: &Location, _context: &OpenContext) -> Result<StorageRef> {
        Err(Error::unsupported("posix is not here yet"))
    }
}
