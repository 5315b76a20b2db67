//! What every command works with: storages, options, standard output and signals.

use checkpoint_fs::{Location, ObjectPath, Registry, StorageOptions, StorageRef};
use checkpoint_store::{Checkpoint, LeaseOptions, RuntimeRef, SystemRuntime};

use crate::args::{ExclusiveArg, LeaseUrlArg, SharedArgs};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::signals::Signals;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) registry: Registry,
    pub(crate) options: StorageOptions,
    pub(crate) out: Output,
    pub(crate) signals: Signals,
    pub(crate) runtime: RuntimeRef,
    pub(crate) quiet: bool,
}

impl Session {
    /// Reads and checks the storage options, and begins to watch signals.
    ///
    /// # Errors
    /// `Usage` that names what is wrong with the options, never a value.
    pub(crate) fn open(shared: &SharedArgs, registry: Registry) -> Result<Self> {
        let options = match &shared.storage_options {
            Some(given) => read_options(given)?,
            None => StorageOptions::new(),
        };
        registry.check_options(&options)?;
        Ok(Self {
            registry,
            options,
            out: Output::stdout(),
            signals: Signals::watch(),
            runtime: SystemRuntime::shared(),
            quiet: shared.quiet,
        })
    }

    /// Opens a directory.
    pub(crate) async fn open_dir(&self, url: &str) -> Result<StorageRef> {
        Ok(self.registry.open_dir(url, &self.options).await?)
    }

    /// Opens a location as a directory.
    pub(crate) async fn open_location(&self, location: &Location) -> Result<StorageRef> {
        Ok(self.registry.open_location(location, &self.options).await?)
    }

    /// Opens the directory that an object is in; the object's name is empty for a root.
    pub(crate) async fn open_parent(&self, location: &Location) -> Result<(StorageRef, ObjectPath)> {
        Ok(self.registry.open_parent(location, &self.options).await?)
    }

    /// The checkpoint at a URL, its lease perhaps elsewhere.
    pub(crate) async fn checkpoint(&self, url: &str, lease: &LeaseUrlArg) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::new(self.open_dir(url).await?, self.runtime.clone());
        match &lease.lease_url {
            Some(url) => Ok(checkpoint.with_control(self.open_dir(url).await?)),
            None => Ok(checkpoint),
        }
    }
}

/// How a command takes the lease.
pub(crate) fn lease(exclusive: &ExclusiveArg) -> LeaseOptions {
    let mut options = LeaseOptions::default();
    options.assume_exclusive = exclusive.assume_exclusive;
    options
}

fn read_options(given: &str) -> Result<StorageOptions> {
    let Some(file) = given.strip_prefix('@') else { return Ok(StorageOptions::from_json(given)?) };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("the storage options cannot be read: {error}: file={file}"))
            .with_hint("after @ comes the path of a file that holds the JSON")
    })?;
    StorageOptions::from_json(&text).map_err(|error| {
        let hint = error.hint().map(str::to_owned);
        let failure = Failure::usage(format!("{error}: file={file}"));
        hint.into_iter().fold(failure, Failure::with_hint)
    })
}
