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
    use super::*;
    use crate::{Environment, ErrorKind, Registry, StorageOptions};

    fn check(error: &Error, feature: &str) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(&format!("feature={feature}")), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains(&format!("`{feature}`"))), "{error:?}");
    }

    #[tokio::test]
    async fn the_feature_is_named() {
        let absent = AbsentScheme { names: &["tclake"], feature: "tclake" };
        let location = Location::parse("tclake://volume/c/s/v").expect("valid");
        let context = OpenContext::default();
        check(&absent.open(&location, &context).await.expect_err("not built in"), "tclake");
        check(&absent.resolve(&location, &context).await.expect_err("not built in"), "tclake");
    }

    #[tokio::test]
    async fn what_this_build_lacks_is_refused() {
        let registry = Registry::with_environment(Environment::default());
        for (feature, built_in, urls) in [
            ("s3", cfg!(feature = "s3"), &["s3://bucket/x", "s3a://bucket/x"][..]),
            ("cos", cfg!(feature = "cos"), &["cos://bucket-1/x", "cosn://bucket-1/x"]),
            ("oss", cfg!(feature = "oss"), &["oss://bucket/x"]),
            ("gs", cfg!(feature = "gs"), &["gs://bucket/x", "gcs://bucket/x"]),
            ("tclake", cfg!(feature = "tclake"), &["tclake://volume/c/s/v"]),
            ("az", cfg!(feature = "az"), &["az://container/x", "abfs://container/x", "abfss://container/x"]),
        ] {
            for url in urls.iter().filter(|_| !built_in) {
                check(&registry.open_dir(url, &StorageOptions::new()).await.expect_err("not built in"), feature);
                let error = registry.resolve(url, &StorageOptions::new()).await.expect_err("not built in");
                check(&error, feature);
            }
        }
    }
}
