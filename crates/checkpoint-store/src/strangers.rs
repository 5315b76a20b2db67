//! Telling a checkpoint from a directory of someone's Parquet files: nothing may be removed from the latter.

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RecordName;
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
            RecordName::Foreign(stem) if !is_rays(stem) => Some(stem),
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

/// Whether a record is named as Ray names its own: `<text>_<32 hexadecimal digits>_<number>`.
fn is_rays(stem: &str) -> bool {
    let mut parts = stem.rsplit('_');
    let (number, uuid) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    number.len() >= 6
        && number.bytes().all(|b| b.is_ascii_digit())
        && uuid.len() == 32
        && uuid.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rays_names_are_known_and_data_sets_are_not() {
        assert!(is_rays("428f260a9ad9277e0a3c2f_990ebcd139d8990e5e9cd897a1a4af23_000005"));
        assert!(is_rays("990ebcd139d8990e5e9cd897a1a4af23_1000000"));
        for name in ["a", "part-00001", "part_000001", "data_990ebcd139d8990e5e9cd897a1a4af23", "_000001", ""] {
            assert!(!is_rays(name), "{name}");
        }
    }
}
