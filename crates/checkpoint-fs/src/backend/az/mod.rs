//! Azure Blob Storage, and the emulators that speak its protocol.

mod access;
mod batch;
mod config;
mod connection;
mod copy;
mod delete;
mod dialect;
mod found;
mod list;
mod names;
mod options;
mod place;
mod signer;
mod storage;
mod wire;
mod write;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::AzConfig;
pub use self::storage::AzStorage;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// The URL schemes, and the names that options may stand under.
pub(crate) use self::options::PROTOCOLS;

/// Opens `az://container/path`, `abfs://container/path`, and both with the account in the URL.
#[derive(Debug)]
pub(crate) struct AzScheme;

#[async_trait]
impl Scheme for AzScheme {
    fn names(&self) -> &'static [&'static str] {
        &PROTOCOLS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        AzConfig::check(context)
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: crate::Error| error.with_operation("resolve").with_url(location.to_string());
        Ok(AzConfig::resolve(location, context).map_err(named)?.resolution(location))
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let config = AzConfig::resolve(location, context).map_err(named)?;
        Ok(Arc::new(AzStorage::new(config, location).map_err(named)?))
    }
}
