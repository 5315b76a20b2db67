//! The table of schemes: which backend opens which URL. An engine can add its own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::listing_cache::{ListingCache, ListingCacheSettings};
use crate::location::Location;
use crate::options::{Environment, KnownOption, OptionUse, Record, StorageOptions};
use crate::path::ObjectPath;
use crate::resolution::Resolution;
use crate::storage::StorageRef;

/// The name of an object of which nothing is asked but how its directory is listed.
const ANY_NAME: &str = "object";

/// What a scheme needs to open a location: the user's options and the environment.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenContext {
    /// Options of all protocols.
    pub options: StorageOptions,
    /// Environment variables.
    pub environment: Environment,
}

/// A backend, as the registry knows it.
#[async_trait]
pub trait Scheme: Debug + Send + Sync {
    /// The schemes that this opens, in lower case; the first is the name of its options.
    fn names(&self) -> &'static [&'static str];

    /// How many segments of a path name the place itself, and no directory in it: a catalog, a schema and a
    /// volume.
    fn root_depth(&self) -> usize {
        0
    }

    /// Checks this protocol's options without opening anything.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig), as opening would give.
    fn check_options(&self, context: &OpenContext) -> Result<()>;

    /// Says how an object at the location would be reached, without any network call.
    ///
    /// # Errors
    /// As opening would give for options, endpoint or credentials that are wrong.
    async fn resolve(&self, location: &Location, context: &OpenContext) -> Result<Resolution> {
        self.check_options(context)?;
        Ok(Resolution::plain(self.names().first().copied().unwrap_or_default(), location))
    }

    /// Opens a storage rooted at the location, taken as a directory. It need not exist.
    async fn open(&self, location: &Location, context: &OpenContext) -> Result<StorageRef>;
}

/// Schemes by name, with the environment they read. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry {
    schemes: BTreeMap<&'static str, Arc<dyn Scheme>>,
    environment: Environment,
}

impl Registry {
    /// No schemes at all.
    pub fn empty(environment: Environment) -> Self {
        Self { schemes: BTreeMap::new(), environment }
    }

    /// All schemes compiled into this crate, with the variables of this process.
    pub fn from_process() -> Self {
        Self::with_environment(Environment::from_process())
    }

    /// All schemes compiled into this crate, with the given variables.
    pub fn with_environment(environment: Environment) -> Self {
        let mut registry = Self::empty(environment);
        for scheme in crate::backend::all() {
            registry.register(scheme);
        }
        registry
    }

    /// Adds a scheme; a name that is already there goes to the newcomer.
    pub fn register(&mut self, scheme: Arc<dyn Scheme>) {
        for name in scheme.names() {
            self.schemes.insert(name, Arc::clone(&scheme));
        }
    }

    /// The names of all schemes, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.schemes.keys().copied()
    }

    /// How many segments of a path of this scheme name the place itself; see [`Scheme::root_depth`].
    pub fn root_depth(&self, scheme: &str) -> usize {
        self.schemes.get(scheme).map_or(0, |scheme| scheme.root_depth())
    }

    /// The options that a protocol knows, sorted, as its reader tells while it checks that none are given.
    /// A scheme from elsewhere has to read them with [`StorageOptions::kwargs`].
    ///
    /// # Errors
    /// `Unsupported` for an unknown scheme.
    pub fn option_names(&self, protocol: &str) -> Result<Vec<KnownOption>> {
        let scheme = self.scheme(protocol)?;
        let record = Record::new();
        let options = StorageOptions::recording(record.clone());
        // What else a scheme misses is nothing to its options.
        drop(scheme.check_options(&OpenContext { options, environment: Environment::default() }));
        for name in ListingCacheSettings::OPTIONS {
            record.correct(name, OptionUse::Honoured);
        }
        Ok(record.options())
    }

    fn scheme(&self, name: &str) -> Result<&Arc<dyn Scheme>> {
        if let Some(scheme) = self.schemes.get(name) {
            return Ok(scheme);
        }
        let known: Vec<&str> = self.names().collect();
        let error = Error::unsupported(format!("no backend for the scheme `{name}`"));
        Err(match crate::options::nearest(name, self.names()) {
            Some(near) => error.with_hint(format!("did you mean {near}://? known schemes: {}", known.join(", "))),
            None => error.with_hint(format!("known schemes: {}, and plain paths", known.join(", "))),
        })
    }

    /// Opens a directory (or prefix): the storage is rooted there. It need not exist.
    ///
    /// # Errors
    /// `InvalidConfig` for the URL or options, `Unsupported` for an unknown scheme, and what the backend
    /// meets when it connects.
    pub async fn open_dir(&self, url: &str, options: &StorageOptions) -> Result<StorageRef> {
        self.open_location(&Location::parse(url)?, options).await
    }

    /// The directory that an object is in, and its name there; `None` at a root, which is in no directory.
    pub fn split(&self, location: &Location) -> Option<(Location, ObjectPath)> {
        let depth = self.root_depth(location.scheme());
        if depth > 0 && location.path().segments().count() <= depth {
            return None;
        }
        location.split_last()
    }

    /// Opens the directory that an object is in, and gives the object's path there: empty for a root.
    ///
    /// # Errors
    /// As [`Registry::open_dir`].
    pub async fn open(&self, url: &str, options: &StorageOptions) -> Result<(StorageRef, ObjectPath)> {
        self.open_parent(&Location::parse(url)?, options).await
    }

    /// Opens the directory that an object at a parsed location is in; see [`Registry::open`].
    ///
    /// # Errors
    /// As [`Registry::open_dir`].
    pub async fn open_parent(&self, location: &Location, options: &StorageOptions) -> Result<(StorageRef, ObjectPath)> {
        match self.split(location) {
            Some((parent, name)) => Ok((self.open_location(&parent, options).await?, name)),
            None => Ok((self.open_location(location, options).await?, ObjectPath::root())),
        }
    }

    /// Opens a parsed location as a directory.
    ///
    /// # Errors
    /// As [`Registry::open_dir`].
    pub async fn open_location(&self, location: &Location, options: &StorageOptions) -> Result<StorageRef> {
        let scheme = self.scheme(location.scheme())?;
        self.check_options(options)?;
        let (context, cache) = self.context(scheme.as_ref(), location.scheme(), options)?;
        let storage = scheme.open(location, &context).await?;
        Ok(match cache {
            Some(settings) => Arc::new(ListingCache::new(storage, settings)),
            None => storage,
        })
    }

    /// Says how an object at a URL would be reached, without any network call. A URL that ends in a slash names
    /// a directory: the listing is then that of what is in it.
    ///
    /// # Errors
    /// `InvalidConfig` for the URL or options, `Unsupported` for an unknown scheme.
    pub async fn resolve(&self, url: &str, options: &StorageOptions) -> Result<Resolution> {
        let location = Location::parse(url)?;
        let scheme = self.scheme(location.scheme())?;
        self.check_options(options)?;
        let (context, _) = self.context(scheme.as_ref(), location.scheme(), options)?;
        let mut resolution = scheme.resolve(&location, &context).await?;
        if url.ends_with('/') && !location.path().is_root() && resolution.list_url.is_some() {
            let inside = location.join(ANY_NAME)?;
            resolution.list_url = scheme.resolve(&inside, &context).await?.list_url;
        }
        Ok(resolution)
    }

    /// Checks that every protocol that has options is known and that its options are valid.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that names the protocol and the problem.
    pub fn check_options(&self, options: &StorageOptions) -> Result<()> {
        for protocol in options.protocols() {
            let Some(scheme) = self.schemes.get(protocol) else {
                let near = crate::options::nearest(protocol, self.names());
                let near = near.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
                return Err(Error::invalid_config(format!(
                    "storage options name an unknown protocol `{protocol}`{near}"
                )));
            };
            scheme.check_options(&self.context(scheme.as_ref(), protocol, options)?.0)?;
        }
        Ok(())
    }

    /// What a scheme reads: its own options, with those of fsspec's files and variables below them. Those of
    /// the listing cache are the same for all schemes, and come beside.
    fn context(
        &self,
        scheme: &dyn Scheme,
        written: &str,
        options: &StorageOptions,
    ) -> Result<(OpenContext, Option<ListingCacheSettings>)> {
        #[cfg(feature = "_http")]
        let mut options = crate::options::layered(scheme.names(), written, options, &self.environment)?;
        #[cfg(not(feature = "_http"))]
        let mut options = options.narrowed(scheme.names(), written);
        let name = scheme.names().first().copied().unwrap_or_default();
        let cache = options.kwargs_mut(name).map(|kwargs| ListingCacheSettings::take(name, kwargs)).transpose()?;
        Ok((OpenContext { options, environment: self.environment.clone() }, cache.flatten()))
    }
}

/// Opens a directory with all built-in schemes and this process's environment.
///
/// # Errors
/// As [`Registry::open_dir`].
pub async fn open_dir(url: &str, options: &StorageOptions) -> Result<StorageRef> {
    Registry::from_process().open_dir(url, options).await
}

/// Opens the parent of an object with all built-in schemes and this process's environment.
///
/// # Errors
/// As [`Registry::open_dir`].
pub async fn open(url: &str, options: &StorageOptions) -> Result<(StorageRef, ObjectPath)> {
    Registry::from_process().open(url, options).await
}
