//! Google Cloud Storage, by its JSON API; many deletes at once by its XML API.
//!
//! All requests are built here: what another library would send for a small write is a session of two
//! requests, where one with its condition, its checksum and its token is enough (see the ADR on own requests).

mod batch;
mod bearer;
mod config;
mod copy;
mod crc32c;
mod delete;
mod dialect;
mod list;
mod options;
mod read;
mod resource;
mod storage;
mod upload;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::GsConfig;
pub use self::storage::GsStorage;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// Opens `gs://bucket/prefix` and `gcs://bucket/prefix`.
#[derive(Debug)]
pub(crate) struct GsScheme;

#[async_trait]
impl Scheme for GsScheme {
    fn names(&self) -> &'static [&'static str] {
        &options::PROTOCOLS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        // The options do not depend on the bucket's name.
        GsConfig::resolve("bucket", context).map(|_| ())
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: crate::Error| error.with_operation("resolve").with_url(location.to_string());
        GsConfig::resolve(location.authority(), context).map_err(named)?.resolution(location).map_err(named)
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let config = GsConfig::resolve(location.authority(), context).map_err(named)?;
        Ok(Arc::new(GsStorage::new(config, location).map_err(named)?))
    }
}
