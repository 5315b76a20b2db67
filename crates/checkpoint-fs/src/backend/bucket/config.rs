//! Everything that the engine needs to know of one bucket.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::address::BucketAddress;
use super::vendor::Vendor;
use crate::credentials::CredentialProvider;
use crate::transport::{ClientSettings, RetryPolicy};

/// A bucket and how to reach it, resolved by the rules of its store. `Debug` shows no secret.
///
/// Made from a store's own configuration, for example an [`S3Config`](crate::S3Config).
#[derive(Debug, Clone)]
pub struct BucketConfig {
    pub(crate) vendor: Vendor,
    pub(crate) bucket: String,
    pub(crate) address: BucketAddress,
    pub(crate) credentials: Arc<dyn CredentialProvider>,
    /// Headers of every request.
    pub(crate) headers: HeaderMap,
    /// Further headers of requests that make an object: put, copy, and the start of a multipart upload.
    pub(crate) write_headers: HeaderMap,
    /// The time that one attempt may take, besides the transfer of its bytes.
    pub(crate) read_timeout: Duration,
    /// Requests in flight at once.
    pub(crate) concurrency: usize,
    pub(crate) retry: RetryPolicy,
    pub(crate) client: ClientSettings,
}
