//! The volume's place on COS, opened with the credentials that the catalog hands out.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use super::config::TclakeConfig;
use super::place::Place;
use super::vended::VolumeCredentials;
use crate::backend::bucket::{BucketConfig, BucketStorage};
use crate::backend::cos::CosConfig;
use crate::backend::headers::STRANGER;
use crate::error::{ErrorKind, Result};
use crate::location::Location;
use crate::path::ObjectPath;
use crate::storage::StorageRef;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

/// Opens a path of a volume: COS below the volume's prefix, which messages call by the location's URL.
pub(super) async fn open(
    config: &TclakeConfig,
    place: Place,
    path: ObjectPath,
    location: &Location,
    credentials: VolumeCredentials,
) -> Result<StorageRef> {
    let endpoint = config.cos_endpoint.as_ref().map(|given| &given.value);
    let environment = &config.client.environment;
    let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
    let cos = CosConfig::handed_out(&place.bucket, &config.region.value, endpoint, Arc::new(credentials), environment)
        .map_err(named)?;
    let mut bucket = BucketConfig::from(cos);
    bucket.read_timeout = config.read_timeout.unwrap_or(bucket.read_timeout);
    bucket.client.connect_timeout = config.connect_timeout.unwrap_or(bucket.client.connect_timeout);
    bucket.vendor.dialect = Arc::new(VolumeDialect {
        cos: Arc::clone(&bucket.vendor.dialect),
        place: place.to_string(),
        region: config.region.value.clone(),
    });
    let root = place.prefix.join_path(&path);
    let storage = BucketStorage::open_rooted(bucket, location.to_string(), root).await.map_err(named)?;
    Ok(Arc::new(storage))
}

/// COS's own words, with hints for somebody who knows the volume and not where it lies.
#[derive(Debug)]
struct VolumeDialect {
    cos: Arc<dyn Dialect>,
    place: String,
    region: String,
}

impl Dialect for VolumeDialect {
    fn service_error(&self, headers: &HeaderMap, body: &[u8]) -> ServiceError {
        self.cos.service_error(headers, body)
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, error: &ServiceError, temporary: bool) -> Verdict {
        let mut verdict = self.cos.verdict(status, headers, error, temporary);
        let Self { place, region, .. } = self;
        if error.code == "NoSuchBucket" || status.is_redirection() {
            verdict.hint = Some(format!(
                "the volume lies at {place}: where its bucket is not in {region}, set `cos_endpoint` to \
                 cos.<region>.myqcloud.com"
            ));
        } else if verdict.kind == ErrorKind::PermissionDenied && verdict.hint.as_deref() != Some(STRANGER) {
            verdict.hint = Some(format!(
                "the volume lies at {place}, and the credentials that the catalog gave do not allow this: ask for the \
                 right to read or write the volume"
            ));
        } else if error.code == "InvalidAccessKeyId" {
            // Keys that the catalog gave can be taken back; it has others.
            verdict.again = Again::Renewed;
        }
        verdict
    }

    fn is_own(&self, headers: &HeaderMap) -> bool {
        self.cos.is_own(headers)
    }

    fn check_document(&self, headers: &HeaderMap, body: &[u8]) -> std::result::Result<(), DocumentFault> {
        self.cos.check_document(headers, body)
    }
}
