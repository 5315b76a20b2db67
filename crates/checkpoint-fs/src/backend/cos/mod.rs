//! Tencent Cloud Object Storage, over its S3 interface.
//!
//! What differs from S3: the bucket's name stands in the host, always; `x-cos-forbid-overwrite` is what keeps
//! a write from replacing, on buckets that never had versioning; multi-deletes need `Content-MD5`; settings
//! come from options of its own and from `COS_*` variables, never from `AWS_*`.

mod config;
mod credentials;
mod endpoint;
mod parameters;
mod vendor;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::CosConfig;
#[cfg(feature = "tclake")]
pub(crate) use self::endpoint::CosEndpoint;
use crate::backend::bucket::BucketStorage;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// The names of the scheme, and of its options.
pub(crate) const PROTOCOLS: [&str; 2] = ["cos", "cosn"];

/// Opens `cos://bucket-appid/prefix` and `cosn://bucket-appid/prefix`.
#[derive(Debug)]
pub(crate) struct CosScheme;

#[async_trait]
impl Scheme for CosScheme {
    fn names(&self) -> &'static [&'static str] {
        &PROTOCOLS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        CosConfig::check(context)
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: crate::Error| error.with_operation("resolve").with_url(location.to_string());
        let config = CosConfig::resolve(location.authority(), context).map_err(named)?;
        config.resolution(location).await.map_err(named)
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let config = CosConfig::resolve(location.authority(), context).map_err(named)?;
        Ok(Arc::new(BucketStorage::open(config, location).await.map_err(named)?))
    }
}
