//! Registries whose storages are wrapped: the whole program runs over faults, counts or hooks.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use checkpoint_fs::{Location, OpenContext, Registry, Resolution, Result, Scheme, StorageRef};

type Wrap = Arc<dyn Fn(StorageRef) -> StorageRef + Send + Sync>;

/// One scheme of a registry, whose storages all pass through a closure.
pub struct WrappedScheme {
    real: Registry,
    names: &'static [&'static str],
    wrap: Wrap,
}

impl WrappedScheme {
    /// The scheme `name` of `real`, wrapped. Register it over the real one. The name lives as long as the
    /// process: make few.
    pub fn new(
        real: &Registry,
        name: &'static str,
        wrap: impl Fn(StorageRef) -> StorageRef + Send + Sync + 'static,
    ) -> Self {
        Self { real: real.clone(), names: vec![name].leak(), wrap: Arc::new(wrap) }
    }
}

/// The registry with every scheme wrapped.
pub fn wrap_all(real: &Registry, wrap: impl Fn(StorageRef) -> StorageRef + Send + Sync + 'static) -> Registry {
    let wrap: Wrap = Arc::new(wrap);
    let mut wrapped = real.clone();
    for name in real.names() {
        let wrap = Arc::clone(&wrap);
        wrapped.register(Arc::new(WrappedScheme::new(real, name, move |storage| wrap(storage))));
    }
    wrapped
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Scheme for WrappedScheme {
    fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn root_depth(&self) -> usize {
        self.real.root_depth(self.names.first().copied().unwrap_or_default())
    }

    fn check_options(&self, context: &OpenContext) -> Result<()> {
        self.real.check_options(&context.options)
    }

    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        self.real.resolve(&location.to_string(), &context.options).await
    }

    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef> {
        Ok((self.wrap)(self.real.open_location(location, &context.options).await?))
    }
}

impl fmt::Debug for WrappedScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrappedScheme").field("names", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::{Environment, ObjectPath, ReadOptions, StorageOptions, WriteOptions};

    use super::*;
    use crate::{Counters, CountingStorage, Operation};

    #[tokio::test]
    async fn every_storage_that_is_opened_is_wrapped() {
        let real = Registry::with_environment(Environment::default());
        let counters = Counters::new();
        let registry = wrap_all(&real, {
            let counters = counters.clone();
            move |storage| Arc::new(CountingStorage::new(storage, counters.clone()))
        });
        assert!(registry.names().eq(real.names()));
        let dir = tempfile::tempdir().expect("temp dir");
        let options = StorageOptions::new();
        let path = ObjectPath::parse("x").expect("valid");
        for url in ["memory://wrapped/dir", dir.path().to_str().expect("text")] {
            let storage = registry.open_dir(url, &options).await.expect("opens");
            let _ = storage.write(&path, "1".into(), WriteOptions::new()).await.expect("writes");
            let plain = real.open_dir(url, &options).await.expect("opens");
            assert_eq!(&plain.read(&path, ReadOptions::new()).await.expect("the same store").bytes[..], b"1");
        }
        assert_eq!(counters.snapshot().calls(Operation::Write), 2);
        assert_eq!(counters.snapshot().calls(Operation::Read), 0);
        let wrong = StorageOptions::from_json(r#"{"file": {"nonsense": 1}}"#).expect("JSON");
        assert!(registry.open_dir("memory://wrapped", &wrong).await.is_err(), "options are checked as ever");
    }
}
