//! The saved set: the IDs of all records that a closed list counts, so that the next start need not read those.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ObjectPath, StorageExt, StorageRef, WriteOptions};

use super::fetch::{PART, fetch};
use super::merge::{MergedNames, create_new};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{CompactIdSet, IdSet, IdSetOptions, KeyMap};
use crate::layout;
use crate::merged::{Covered, MergedRecord, SavedIds, SavedRecord};
use crate::recovery::Plan;
use crate::runtime::blocking;
use crate::snapshot::{Snapshot, Source};

/// With more records than this a set is not saved: a list of them all is no small thing either.
const MOST_RECORDS: usize = 20_000;
/// A larger set is written in parts: one request could outlast the lease, or be more than a store takes.
const AT_ONCE: usize = 64 << 20;
/// The bytes of such a part.
const WRITTEN_PART: usize = 8 << 20;
/// The checksum at the end of a set's buffer.
const CHECKSUM: usize = 8;

/// A saved set that is exactly what a closed list says, with the records that it stands for.
pub(crate) struct Restored {
    pub(crate) saved: SavedIds,
    pub(crate) set: CompactIdSet,
    /// The records whose IDs are in it, which need not be read.
    pub(crate) sources: Vec<Source>,
}

/// The records that a plan and its merged records leave.
fn sources_of(snapshot: &Snapshot, plan: &Plan, merged: &[MergedRecord]) -> Vec<String> {
    let covered = Covered::by(merged);
    let own = plan.counting(snapshot.job_id()).filter(|name| !covered.name(name, snapshot.job_id()));
    own.chain(merged.iter().map(|one| one.name.to_string())).collect()
}

/// What the next closed list says of a saved set: one that is saved now, or the one that there was, as long as each of
/// its records counts as it did. A set that cannot be written is not saved: the records say the same.
///
/// # Errors
/// `Conflict` when the lease is lost; `Storage` when the records cannot be listed. Two listings and a write, where it
/// saves.
pub(crate) async fn keep_ids(
    c: &Checkpoint,
    snapshot: &Snapshot,
    plan: &mut Plan,
    merged: &[MergedRecord],
    names: &mut MergedNames,
    anew: bool,
) -> Result<Option<SavedIds>> {
    let sources = sources_of(snapshot, plan, merged);
    let current: HashSet<&str> = sources.iter().map(String::as_str).collect();
    let old = snapshot.closed.saved.clone().filter(|_| !plan.saved_is_useless);
    let old = old.filter(|old| old.records.iter().all(|record| current.contains(record.name.as_str())));
    let complete = old.as_ref().is_some_and(|old| old.records.len() == sources.len());
    let Some(job) = snapshot.job_id().filter(|_| anew && !complete && sources.len() <= MOST_RECORDS) else {
        return Ok(old);
    };
    let set = plan.ids.pack(c.runtime.as_ref()).await?;
    if set.is_empty() {
        return Ok(None);
    }
    let name = names.take(job);
    // Listed anew: what was merged is there now, and is known from now on as listings show it.
    let records = listed(&c.storage, &ObjectPath::root()).await?;
    let beside = listed(&c.storage, &layout::merged_dir()?).await?;
    let merged: HashMap<String, &MergedRecord> = merged.iter().map(|one| (one.name.to_string(), one)).collect();
    let rolled: HashMap<&str, u64> =
        plan.roll_forward.iter().map(|task| (task.name.as_str(), task.bytes.len() as u64)).collect();
    let record = |name: String| {
        if let Some(bytes) = rolled.get(name.as_str()) {
            return Some(SavedRecord { name, bytes: *bytes, etag: None, facts_etag: None });
        }
        let meta = records.get(&name)?;
        let facts_etag = match merged.contains_key(&name) {
            true => beside.get(&name)?.etag.clone(),
            false => None,
        };
        Some(SavedRecord { name, bytes: meta.size, etag: meta.etag.clone(), facts_etag })
    };
    // A record that no listing shows has no size to know it by.
    let Some(records) = sources.into_iter().map(record).collect::<Option<Vec<_>>>() else { return Ok(old) };
    let bytes = set.as_bytes().clone();
    let saved = SavedIds {
        name,
        bytes: bytes.len() as u64,
        checksum: checksum(&bytes),
        rows: plan.rows,
        failed_rows: plan.failed_rows,
        output_schema: plan.output_schema.clone(),
        records,
    };
    match save(&c.storage, &layout::saved_ids(&saved.name)?, bytes, AT_ONCE).await {
        Ok(()) => Ok(Some(saved)),
        Err(error) if error.kind() == ErrorKind::Conflict => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the set of IDs could not be saved; the next start reads the records");
            Ok(old)
        }
    }
}

/// Writes a set under a name that nothing else has. What counts is its checksum: a writer need not be create-only.
async fn save(storage: &StorageRef, path: &ObjectPath, bytes: Bytes, at_once: usize) -> Result<()> {
    if bytes.len() <= at_once {
        return create_new(storage, path, bytes).await;
    }
    let mut writer = storage.writer(path, WriteOptions::new()).await?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let part = rest.split_to(WRITTEN_PART.min(rest.len()));
        if let Err(error) = writer.write(part).await {
            if let Err(left) = writer.abort().await {
                tracing::info!(error = %left, "parts of a set of IDs stay");
            }
            return Err(error.into());
        }
    }
    writer.finish().await?.into_result(storage.url_of(path)).map(drop).map_err(Error::from)
}

/// The Parquet files in a directory, by their names without the ending.
async fn listed(storage: &StorageRef, dir: &ObjectPath) -> Result<HashMap<String, ObjectMeta>> {
    let files = storage.list_files(dir, false).await?.into_iter();
    let name = |path: &ObjectPath| path.name().strip_suffix(layout::RECORD).map(str::to_owned);
    Ok(files.filter_map(|(path, meta)| Some((name(&path)?, meta))).collect())
}

/// Whether a file is as it was. A store without entity tags tells by the size alone.
fn is_same(meta: Option<&ObjectMeta>, bytes: u64, etag: Option<&String>) -> bool {
    meta.is_some_and(|meta| meta.size == bytes && etag.zip(meta.etag.as_ref()).is_none_or(|(was, is)| was == is))
}

fn checksum(bytes: &[u8]) -> String {
    bytes[bytes.len().saturating_sub(CHECKSUM)..].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the saved set of the newest closed list, where it is whole and exactly of the records that count. Anything
/// else is no error: the records are read then. A listing, and a read for every 16 MiB.
///
/// # Errors
/// `Storage`.
pub(crate) async fn restore(
    c: &Checkpoint,
    snapshot: &Snapshot,
    sources: &[Source],
    class: Option<&str>,
    options: &IdSetOptions,
) -> Result<Option<Restored>> {
    let Some(saved) = snapshot.closed.saved.clone() else { return Ok(None) };
    let records = snapshot.listing.committed.iter();
    let records: HashMap<String, &ObjectMeta> = records.map(|(name, meta)| (name.stem(), meta)).collect();
    let beside = listed(&c.storage, &layout::merged_dir()?).await?;
    let mut by_name: HashMap<String, &Source> = sources.iter().map(|source| (source.name(), source)).collect();
    let mut covered = Vec::with_capacity(saved.records.len());
    for record in &saved.records {
        let source = by_name.remove(&record.name);
        let whole = match source {
            Some(Source::Merged(merged)) => {
                is_same(beside.get(&record.name), merged.facts.bytes, record.facts_etag.as_ref())
            }
            _ => true,
        };
        let same = whole && is_same(records.get(&record.name).copied(), record.bytes, record.etag.as_ref());
        match source.filter(|_| same) {
            Some(source) => covered.push(source.clone()),
            None => {
                tracing::info!(record = record.name, "a record is not as it was when its IDs were saved; all are read");
                return Ok(None);
            }
        }
    }
    let bytes = fetch(&c.storage, &layout::saved_ids(&saved.name)?, saved.bytes, PART).await?;
    let bytes = bytes.filter(|bytes| checksum(bytes) == saved.checksum);
    let Some(bytes) = bytes else { return Ok(useless(&saved, "it is gone, or another")) };
    let set = blocking(c.runtime.as_ref(), move || Ok(CompactIdSet::from_bytes(bytes))).await?;
    let set = match set {
        Ok(set) => set,
        Err(error) => return Ok(useless(&saved, &error.to_string())),
    };
    if !fits(&set, class, options) {
        return Ok(useless(&saved, "it is of other IDs"));
    }
    Ok(Some(Restored { saved, set, sources: covered }))
}

fn useless(saved: &SavedIds, why: &str) -> Option<Restored> {
    tracing::warn!(set = %saved.name, why, "the saved set of IDs is of no use; all records are read");
    None
}

/// Whether the IDs are the job's, and their keys made as those that come later will be.
fn fits(set: &CompactIdSet, class: Option<&str>, options: &IdSetOptions) -> bool {
    let (Some(map), Some(found)) = (set.map(), set.class()) else { return false };
    let hash_key = set.hash_key();
    let wanted = KeyMap::new(found.clone(), options.row_hash, hash_key.unwrap_or_default());
    class.is_none_or(|class| class == found.to_string())
        && wanted.is_ok_and(|wanted| wanted == *map)
        && !hash_key.zip(options.hash_key).is_some_and(|(one, other)| one != other)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use checkpoint_fs::{MemoryStorage, ReadOptions};

    use super::*;

    #[tokio::test]
    async fn a_large_set_is_written_in_parts_and_is_the_same() {
        let storage: StorageRef = Arc::new(MemoryStorage::new("memory://saved"));
        let path = ObjectPath::parse("large.ids").unwrap();
        let bytes = Bytes::from_iter((0..WRITTEN_PART * 2 + 5).map(|at| (at % 251) as u8));
        save(&storage, &path, bytes.clone(), WRITTEN_PART).await.unwrap();
        let read = storage.read_optional(&path, ReadOptions::new()).await.unwrap();
        assert!(read.is_some_and(|read| read.bytes == bytes));
    }
}
