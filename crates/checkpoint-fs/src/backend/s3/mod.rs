//! Amazon S3, and the stores that speak its protocol: MinIO, Ceph, and many more.

mod aws;
mod client;
mod config;
mod endpoint;
mod region;
mod resolve;
mod settings;
mod vendor;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::config::S3Config;
use crate::backend::bucket::BucketStorage;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// The names of the scheme, and of its options.
pub(crate) const PROTOCOLS: [&str; 2] = ["s3", "s3a"];

/// How s3fs names an old version of an object.
const VERSION: &str = "?versionId=";

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

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: Error| error.with_operation("resolve").with_url(location.to_string());
        let config = configure(location, context).map_err(named)?;
        resolve::resolution(&config, location).map_err(named)
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: Error| error.with_operation("open").with_url(location.to_string());
        let config = configure(location, context).map_err(named)?;
        Ok(Arc::new(BucketStorage::open(config, location).await.map_err(named)?))
    }
}

fn configure(location: &Location, context: &OpenContext) -> Result<S3Config> {
    if location.path().as_str().contains(VERSION) {
        return Err(Error::unsupported("the URL names an old version of an object")
            .with_hint("only the newest version is read: take ?versionId= out of the URL"));
    }
    S3Config::resolve(location.authority(), context)
}
