//! Schemes that this build was made without: known by name, refused with the way to get them.

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::location::Location;
use crate::registry::{OpenContext, Scheme};
use crate::storage::StorageRef;

/// A scheme whose feature is off.
#[derive(Debug)]
pub(crate) struct AbsentScheme {
    pub(crate) names: &'static [&'static str],
    pub(crate) feature: &'static str,
}

impl AbsentScheme {
    fn error(&self) -> Error {
        let scheme = self.names.first().copied().unwrap_or_default();
        Error::unsupported(format!("this build has no backend for {scheme}://: feature={}", self.feature))
            .with_hint(format!("build checkpoint-fs with the feature `{}`, which is on by default", self.feature))
    }
}

#[async_trait]
impl Scheme for AbsentScheme {
    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn check_options(&self, _context: &OpenContext) -> Result<()> {
        Err(self.error())
    }

    async fn open(&self, location: &Location, _context: &OpenContext) -> Result<StorageRef> {
        Err(self.error().with_operation("open").with_url(location.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Environment, ErrorKind, Registry, StorageOptions};

    #[tokio::test]
    async fn the_feature_is_named() {
        let registry = Registry::with_environment(Environment::default());
        let error = registry.open_dir("s3://bucket/x", &StorageOptions::new()).await.expect_err("not built in");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("feature=s3"), "{error}");
    }
}
