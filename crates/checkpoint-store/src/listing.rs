//! The record files of a checkpoint, by their names.

use checkpoint_fs::{ObjectMeta, ObjectPath, StorageExt};

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::layout::{self, RecordName};
use crate::names::TaskName;

/// Record files by what their names say. Names alone; nothing is read yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    pub(crate) committed: Vec<(RecordName, ObjectMeta)>,
    pub(crate) ray_pending: Vec<(String, ObjectMeta)>,
    pub(crate) pending: Vec<(TaskName, ObjectMeta)>,
}

impl Listing {
    /// Whether there is no record of any kind.
    pub(crate) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.ray_pending.is_empty() && self.pending.is_empty()
    }
}

impl Checkpoint {
    /// Lists the records: two listings. Pending ones first, so that a task which is committed meanwhile is
    /// seen at least once.
    pub(crate) async fn listing(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        for (path, meta) in self.storage.list_files(&layout::pending_dir()?, false).await? {
            if let Some(task) = path.name().strip_suffix(layout::RECORD).and_then(TaskName::parse) {
                listing.pending.push((task, meta));
            }
        }
        for (path, meta) in self.storage.list_files(&ObjectPath::root(), false).await? {
            let Some(name) = RecordName::parse(path.name()) else { continue };
            match name {
                RecordName::RayPending(task) => listing.ray_pending.push((task, meta)),
                name => listing.committed.push((name, meta)),
            }
        }
        listing.pending.sort_by(|a, b| a.0.cmp(&b.0));
        listing.ray_pending.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(listing)
    }
}

impl RecordName {
    /// The name without `.parquet`.
    pub(crate) fn stem(&self) -> String {
        match self {
            Self::Own(task) => task.to_string(),
            Self::Merged(name) => name.to_string(),
            Self::Foreign(stem) | Self::RayPending(stem) => stem.clone(),
        }
    }
}
