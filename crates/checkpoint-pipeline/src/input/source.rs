//! One input file, as it was when the job looked.

use checkpoint_fs::{Location, ObjectMeta, ObjectPath, StorageRef};

use crate::format::Format;

/// An input file: where it is, what was known of it when it was discovered, and how to read it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SourceFile {
    /// The storage that holds it.
    pub storage: StorageRef,
    /// Its path in that storage.
    pub path: ObjectPath,
    /// Where it is, whatever storage reaches it. Equal locations are the same file.
    pub location: Location,
    /// Size, entity tag and time of the last change, when it was discovered. A file that differs when it
    /// is read is refused.
    pub meta: ObjectMeta,
    /// Its format.
    pub format: Format,
}

impl SourceFile {
    /// A file from its parts.
    pub fn new(storage: StorageRef, path: ObjectPath, location: Location, meta: ObjectMeta, format: Format) -> Self {
        Self { storage, path, location, meta, format }
    }

    /// The path that row hashes are made of: `bucket/key` or `/abs/path`, as Ray Data knows it.
    pub fn hash_key(&self) -> String {
        self.location.without_scheme()
    }

    /// The compression of the file as a whole, told by its name; text formats only.
    pub(crate) fn compression(&self) -> Compression {
        let name = self.path.name().to_ascii_lowercase();
        match name.rsplit_once('.') {
            Some((_, "gz")) => Compression::Gzip,
            Some((_, "zst")) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// How a text file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}
