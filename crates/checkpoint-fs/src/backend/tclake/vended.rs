//! Credentials that the catalog hands out for one volume.

use std::sync::Arc;

use async_trait::async_trait;

use super::catalog::Catalog;
use super::volume::VolumeName;
use crate::credentials::{CredentialProvider, Credentials};
use crate::error::Result;

/// Asks the catalog each time; the cache above it keeps the answer until shortly before its end.
#[derive(Debug)]
pub(super) struct VolumeCredentials {
    catalog: Arc<Catalog>,
    name: VolumeName,
}

impl VolumeCredentials {
    pub(super) fn new(catalog: Arc<Catalog>, name: VolumeName) -> Self {
        Self { catalog, name }
    }
}

#[async_trait]
impl CredentialProvider for VolumeCredentials {
    fn name(&self) -> &str {
        "tclake catalog"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        let credentials = Box::pin(self.catalog.credentials(&self.name)).await?;
        Ok(Some(credentials.with_source(self.name())))
    }
}
