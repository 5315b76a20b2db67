//! The options of `tclake`, typed and read once.

use std::time::Duration;

use crate::error::Result;
use crate::options::StorageOptions;

/// The name that options for this backend stand under.
pub(super) const PROTOCOLS: [&str; 1] = ["tclake"];

/// The options as written, before environment and defaults.
#[derive(Default)]
pub(super) struct TclakeOptions {
    /// The secret ID.
    pub(super) sid: Option<String>,
    /// The secret key.
    pub(super) sk: Option<String>,
    /// The session token of temporary keys.
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    /// The catalog's endpoint.
    pub(super) endpoint: Option<String>,
    /// The endpoint of the object store that holds the volume.
    pub(super) cos_endpoint: Option<String>,
    /// The time for a connection, to the catalog and to the object store.
    pub(super) connect_timeout: Option<Duration>,
    /// The time for an answer of the object store.
    pub(super) read_timeout: Option<Duration>,
}

impl TclakeOptions {
    /// Reads the options of `tclake`.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem.
    pub(super) fn read(options: &StorageOptions) -> Result<Self> {
        let mut kw = options.kwargs(&PROTOCOLS);
        let (connect_timeout, read_timeout) =
            kw.nested("config_kwargs", |config| (config.seconds("connect_timeout"), config.seconds("read_timeout")));
        let read = Self {
            sid: kw.text("sid"),
            sk: kw.text("sk"),
            token: kw.text("token"),
            region: kw.text("region"),
            endpoint: kw.text("endpoint"),
            cos_endpoint: kw.text("cos_endpoint"),
            connect_timeout,
            read_timeout,
        };
        kw.ignored(
            &["use_listings_cache", "listings_expiry_time", "max_paths"],
            "listings are kept by the registry that opens a storage, and by nobody else",
        );
        kw.ignored(&["skip_instance_cache", "asynchronous"], "it tunes Python's file systems and changes no request");
        kw.finish()?;
        Ok(read)
    }
}
