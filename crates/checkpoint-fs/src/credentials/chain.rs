//! Providers asked in order.

use std::sync::Arc;

use async_trait::async_trait;

use super::{CredentialProvider, Credentials};
use crate::error::Result;

/// Asks providers in order: the first that has credentials gives them, the first error ends the search.
#[derive(Debug, Clone, Default)]
pub struct ProviderChain {
    providers: Vec<Arc<dyn CredentialProvider>>,
}

impl ProviderChain {
    /// An empty chain.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider at the end.
    #[must_use]
    pub fn then(mut self, provider: Arc<dyn CredentialProvider>) -> Self {
        self.providers.push(provider);
        self
    }
}

#[async_trait]
impl CredentialProvider for ProviderChain {
    fn name(&self) -> &str {
        "chain"
    }

    async fn load(&self) -> Result<Option<Credentials>> {
        for provider in &self.providers {
            if let Some(credentials) = provider.load().await? {
                tracing::debug!(source = provider.name(), "credentials found");
                let named = credentials.source().is_some();
                return Ok(Some(if named { credentials } else { credentials.with_source(provider.name()) }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::credentials::{AwsEnvironment, StaticCredentials};
    use crate::options::Environment;

    fn environment(pairs: &[(&str, &str)]) -> Arc<AwsEnvironment> {
        Arc::new(AwsEnvironment::new(pairs.iter().copied().collect()))
    }

    #[tokio::test]
    async fn the_first_source_wins_and_an_error_ends_the_search() {
        let fixed = Arc::new(StaticCredentials::new(Credentials::new("AKLAST", "SK")));
        let chain = ProviderChain::new().then(environment(&[])).then(fixed.clone());
        let found = chain.load().await.expect("valid").expect("found");
        assert_eq!((found.access_key_id(), found.source()), ("AKLAST", Some("options")));

        let broken = ProviderChain::new().then(environment(&[("AWS_ACCESS_KEY_ID", "AK")])).then(fixed);
        assert_eq!(broken.load().await.expect_err("half a pair").kind(), ErrorKind::InvalidConfig);

        let empty = ProviderChain::new().then(Arc::new(AwsEnvironment::new(Environment::default())));
        assert_eq!(empty.load().await.expect("valid"), None);
    }
}
