//! Alibaba Cloud's Object Storage Service, by its own protocol and signature.

mod config;
mod credentials;
mod dialect;
mod endpoint;
mod options;
mod vendor;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::OssConfig;
use crate::backend::bucket::BucketStorage;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// The name of the scheme, and of its options.
pub(crate) const PROTOCOLS: [&str; 1] = ["oss"];

/// Opens `oss://bucket/prefix`.
#[derive(Debug)]
pub(crate) struct OssScheme;

#[async_trait]
impl Scheme for OssScheme {
    fn names(&self) -> &'static [&'static str] {
        &PROTOCOLS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        OssConfig::check(context)
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: crate::Error| error.with_operation("resolve").with_url(location.to_string());
        Ok(OssConfig::resolve(location.authority(), context).map_err(named)?.resolution(location))
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let config = OssConfig::resolve(location.authority(), context).map_err(named)?;
        Ok(Arc::new(BucketStorage::open(config, location).await.map_err(named)?))
    }
}
