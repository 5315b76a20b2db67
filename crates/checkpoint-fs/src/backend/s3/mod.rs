//! Amazon S3, and the stores that speak its protocol: MinIO, Ceph, and many more.

mod config;
mod endpoint;
mod vendor;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::S3Config;
use crate::backend::bucket::BucketStorage;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::storage::StorageRef;

/// The names of the scheme, and of its options.
pub(crate) const PROTOCOLS: [&str; 2] = ["s3", "s3a"];

/// Opens `s3://bucket/prefix` and `s3a://bucket/prefix`.
#[derive(Debug)]
pub(crate) struct S3Scheme;

#[async_trait]
impl Scheme for S3Scheme {
    fn names(&self) -> &'static [&'static str] {
        &PROTOCOLS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        // The options do not depend on the bucket's name.
        S3Config::resolve("bucket", context).map(|_| ())
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let config = S3Config::resolve(location.authority(), context).map_err(named)?;
        Ok(Arc::new(BucketStorage::open(config, location).await.map_err(named)?))
    }
}
