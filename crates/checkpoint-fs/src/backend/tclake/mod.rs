//! TCLake: volumes of Tencent's data lake catalog, which hold files on COS.
//!
//! `tclake://volume/<catalog>/<schema>/<volume>/<path>` is opened by asking the catalog three things: what
//! type the catalog is of, where on COS the volume lies, and for temporary credentials that reach there
//! and nowhere else. From then on it is COS below that prefix, and the credentials are replaced ahead of
//! their end for as long as the storage is open. Where the volume lies is asked once, when it is opened:
//! a volume that moves has to be opened again.

mod catalog;
mod config;
mod dialect;
mod options;
mod place;
mod store;
mod tc3;
#[cfg(test)]
mod tests;
mod vended;
mod volume;

use std::sync::Arc;

use async_trait::async_trait;

use self::catalog::Catalog;
use self::config::TclakeConfig;
use self::options::PROTOCOLS;
use self::vended::VolumeCredentials;
use self::volume::VolumeName;
use crate::error::Result;
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::resolution::Resolution;
use crate::storage::StorageRef;
use crate::transport::{RetryPolicy, SystemClock};

/// Where credentials come from that are not there.
const NO_CREDENTIALS: &str =
    "none found: set TENCENTCLOUD_SECRET_ID and TENCENTCLOUD_SECRET_KEY, or give `sid` and `sk`";

/// Opens `tclake://volume/<catalog>/<schema>/<volume>/<path>`.
#[derive(Debug)]
pub(crate) struct TclakeScheme;

#[async_trait]
impl Scheme for TclakeScheme {
    fn names(&self) -> &'static [&'static str] {
        &PROTOCOLS
    }

    fn root_depth(&self) -> usize {
        VolumeName::SEGMENTS
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        TclakeConfig::resolve(context).map(|_| ())
    }

    /// What is known without asking the catalog: not the bucket, and so no URL of an object.
    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        let named = |error: crate::Error| error.with_operation("resolve").with_url(location.to_string());
        let (_, path) = VolumeName::parse(location).map_err(named)?;
        let config = TclakeConfig::resolve(context).map_err(named)?;
        let [backend] = PROTOCOLS;
        let mut resolution = Resolution::plain(backend, location);
        let sources = [
            ("endpoint", Some(config.endpoint.source)),
            ("region", Some(config.region.source)),
            ("cos_endpoint", config.cos_endpoint.map(|given| given.source)),
            (
                "credentials",
                Some(
                    config.credentials.as_ref().map_or_else(|| NO_CREDENTIALS.to_owned(), |found| found.source.clone()),
                ),
            ),
        ];
        let named = sources.into_iter().filter_map(|(setting, source)| Some((setting.to_owned(), source?)));
        resolution.sources = named.collect();
        resolution.key = path.as_str().to_owned();
        resolution.endpoint = Some(config.endpoint.value.trim_end_matches('/').to_owned());
        resolution.region = Some(config.region.value.clone());
        resolution.signing_region = Some(config.region.value);
        if let Some(found) = config.credentials {
            resolution.access_key_id = Some(found.value.access_key_id().to_owned());
            resolution.has_session_token = found.value.session_token().is_some();
        }
        Ok(resolution)
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        let named = |error: crate::Error| error.with_operation("open").with_url(location.to_string());
        let (name, path) = VolumeName::parse(location).map_err(named)?;
        let config = TclakeConfig::resolve(context).map_err(named)?;
        let clock = Arc::new(SystemClock);
        let catalog = Arc::new(Catalog::new(&config, clock, RetryPolicy::default()).map_err(named)?);
        let place = Box::pin(catalog.place(&name)).await?;
        tracing::debug!(url = %location, bucket = place.bucket, prefix = %place.prefix, "the volume was found");
        store::open(&config, place, path, location, VolumeCredentials::new(catalog, name)).await
    }
}
