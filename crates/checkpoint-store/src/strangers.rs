//! Telling a checkpoint from a directory of someone's Parquet files: nothing may be removed from the latter.

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RecordName;
use crate::names::ray_write;
use crate::snapshot::Snapshot;

impl Checkpoint {
    /// As [`Checkpoint::existing`], and an error where nothing but Parquet files is there that nobody can know
    /// to be records: there is no `_meta`, and they are not named as Ray names records. For whoever deletes.
    ///
    /// # Errors
    /// `NoCheckpoint` that names one of the files; or as [`Checkpoint::existing`].
    pub async fn existing_for_sure(&self) -> Result<Snapshot> {
        let snapshot = self.existing().await?;
        snapshot.refuse_strangers(self.url())?;
        Ok(snapshot)
    }
}

impl Snapshot {
    pub(crate) fn refuse_strangers(&self, url: &str) -> Result<()> {
        if self.job.is_some() || self.complete.is_some() || self.has_closed || !self.attempts().is_empty() {
            return Ok(());
        }
        let stranger = self.listing.committed.iter().find_map(|(name, _)| match name {
            RecordName::Foreign(stem) if ray_write(stem).is_none() => Some(stem),
            _ => None,
        });
        let Some(stranger) = stranger else { return Ok(()) };
        Err(Error::new(
            ErrorKind::NoCheckpoint,
            format!("nothing says that the Parquet files here are a checkpoint's: file={stranger}.parquet url={url}"),
        )
        .with_hint("check the path; if these files are to go, delete them with `ckpt fs rm`"))
    }
}
