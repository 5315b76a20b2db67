//! What a storage can promise, read once when it is opened.

use std::fmt;

use serde::Serialize;

/// Whether a bucket keeps the old versions of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Versioning {
    /// It does not, and never has.
    Off,
    /// It does.
    Enabled,
    /// It has, and no longer does.
    Suspended,
}

impl Versioning {
    /// The state in a lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Versioning::Off => "off",
            Versioning::Enabled => "enabled",
            Versioning::Suspended => "suspended",
        }
    }
}

impl fmt::Display for Versioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What holds for one opened storage: its backend *and* how this bucket or mount is set up.
///
/// Callers branch on these values and never on the scheme. A capability that is `false` makes the
/// operation that needs it fail with [`Unsupported`](crate::ErrorKind::Unsupported): there is no quiet
/// fallback to something weaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// [`rename`](crate::Storage::rename) is atomic and can refuse to replace. Never copy-and-delete.
    pub atomic_rename: bool,
    /// A write with [`WriteMode::IfAbsent`](crate::WriteMode::IfAbsent) lets exactly one of many racers win.
    pub write_if_absent: bool,
    /// [`copy`](crate::Storage::copy) can refuse to replace its target.
    pub copy_if_absent: bool,
    /// A listing that starts after a write or delete returned shows it.
    pub consistent_list: bool,
    /// Listings come in ascending byte order of the path. Nothing in this workspace relies on it.
    pub ordered_list: bool,
    /// Keys that one request of [`delete_many`](crate::Storage::delete_many) can carry.
    pub max_delete_batch: usize,
    /// The longest path the backend can hold, in bytes (a segment, where `max_segment` is smaller).
    pub max_path: usize,
    /// The longest single segment, in bytes.
    pub max_segment: usize,
    /// Directories exist by themselves, and `a` cannot be both a file and a directory.
    pub directories: bool,
    /// The data survives the end of this process.
    pub durable: bool,
    /// Whether the bucket keeps old versions. Asked when it is opened, of the stores whose conditional
    /// writes depend on it (COS, OSS); `None` where it was not asked, or where the service did not say.
    pub versioning: Option<Versioning>,
}

impl Capabilities {
    /// The weakest storage: nothing but reads, writes, listings and single deletes.
    pub fn none() -> Self {
        Self {
            atomic_rename: false,
            write_if_absent: false,
            copy_if_absent: false,
            consistent_list: false,
            ordered_list: false,
            max_delete_batch: 1,
            max_path: 1024,
            max_segment: 1024,
            directories: false,
            durable: true,
            versioning: None,
        }
    }
}
