//! Reading records elsewhere: a part of them on each machine of a cluster, which answers with a set of their IDs.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::ObjectMeta;
use futures::future::BoxFuture;
use futures::stream::StreamExt;
use serde::{Deserialize, Serialize};

use super::load::{Loaded, Wanted, class_problem, load_records};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::id::{CompactIdSet, HashKey, IdColumn, IdSetBuilder, IdSetOptions};
use crate::listing::Listing;
use crate::record::RecordFacts;
use crate::runtime::blocking;
use crate::snapshot::Source;

/// A part is not made smaller than this: a task of a cluster costs as much as reading so much.
const SMALLEST: u64 = 16 << 20;

/// Has parts of a checkpoint's records read on other machines.
pub trait PartReader: Send + Sync + fmt::Debug {
    /// Gives each part to [`read_part`] on some machine, with the same checkpoint, and answers what came of them, in
    /// their order. The parts without an answer are read here; the start waits for all of them, so what does not come must
    /// be given up.
    fn read(&self, parts: Vec<String>) -> BoxFuture<'_, Vec<Option<Bytes>>>;
}

/// How records are read elsewhere.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadElsewhere {
    /// Who has them read.
    pub reader: Arc<dyn PartReader>,
    /// How many parts there are at the most.
    pub parts: NonZeroUsize,
    /// With fewer bytes of records all are read here.
    pub at_least: u64,
}

impl ReadElsewhere {
    /// As many parts as are given, where the records have 64 MiB or more.
    pub fn new(reader: Arc<dyn PartReader>, parts: NonZeroUsize) -> Self {
        Self { reader, parts, at_least: 64 << 20 }
    }
}

/// Records of tasks, and what their IDs must be.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    /// The names of the tasks, with the sizes of their records where a listing shows them.
    tasks: Vec<(String, Option<u64>)>,
    id_column: Option<String>,
    id_class: Option<String>,
    row_hash: bool,
    hash_key: [u8; 16],
}

/// What came of a part, before the bytes of the set.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    whole: Vec<Taken>,
}

/// A record that is whole; its IDs are in the set.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) rows: u64,
    pub(super) id_column: String,
    pub(super) facts: Option<RecordFacts>,
}

/// Reads one part of a checkpoint's records, as [`PartReader::read`] was given it.
///
/// # Errors
/// `InvalidConfig` for what is no part; `Storage`.
pub async fn read_part(checkpoint: &Checkpoint, part: &str) -> Result<Bytes> {
    let part: Part = serde_json::from_str(part)
        .map_err(|e| Error::invalid_config(format!("this is no part of a checkpoint's records: {e}")))?;
    let hash_key = Some(HashKey::new(part.hash_key));
    let ids = Arc::new(IdSetBuilder::new(IdSetOptions { row_hash: part.row_hash, hash_key, ..Default::default() }));
    let take = {
        let (ids, class) = (ids.clone(), part.id_class.clone());
        move |name: &str, loaded: Loaded, _: &Bytes| {
            let Loaded::Whole(record) = loaded else { return Ok(None) };
            // What is wrong with a record is said by who asks, who reads it once more.
            if class_problem(&record, class.as_deref()).is_some() {
                return Ok(None);
            }
            if let Some(column) = &record.ids {
                ids.push(column)?;
            }
            let rows = record.ids.as_ref().map_or(0, IdColumn::len) as u64;
            Ok(Some(Taken { name: name.to_owned(), rows, id_column: record.id_column, facts: record.facts }))
        }
    };
    let wanted = part.tasks.into_iter().map(|(name, size)| Wanted::task(name, size)).collect::<Result<Vec<_>>>()?;
    let mut answer = Answer::default();
    {
        let mut records = std::pin::pin!(load_records(checkpoint, wanted, part.id_column, take));
        while let Some(next) = records.next().await {
            answer.whole.extend(next?.1);
        }
    }
    let Some(ids) = Arc::into_inner(ids) else {
        return Err(Error::bad_data("a set of IDs is finished while records are still read"));
    };
    let set = blocking(checkpoint.runtime.as_ref(), move || ids.finish()).await?;
    let head = serde_json::to_vec(&answer).map_err(|e| Error::bad_data(format!("a part has no answer: {e}")))?;
    let mut bytes = Vec::with_capacity(8 + head.len() + set.as_bytes().len());
    bytes.extend((head.len() as u64).to_le_bytes());
    bytes.extend(head);
    bytes.extend(set.as_bytes());
    Ok(bytes.into())
}

/// The answer to a part, taken apart; `None` where it is none.
fn take_apart(bytes: &Bytes) -> Option<(Answer, CompactIdSet)> {
    let length = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let end = usize::try_from(length).ok()?.checked_add(8)?;
    let answer = serde_json::from_slice(bytes.get(8..end)?).ok()?;
    Some((answer, CompactIdSet::from_bytes(bytes.slice(end..)).ok()?))
}

/// What all records of one reading must be.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) id_column: Option<String>,
    pub(super) id_class: Option<String>,
    pub(super) row_hash: bool,
    pub(super) hash_key: HashKey,
}

/// Has the records of tasks read elsewhere, pushes their IDs, and takes out of `sources` those that are done.
///
/// # Errors
/// As [`IdSetBuilder::push_set`], for anything but an answer that does not fit.
pub(super) async fn read_elsewhere(
    how: &ReadElsewhere,
    asked: &Asked,
    sources: &mut Vec<Source>,
    listing: &Listing,
    ids: &IdSetBuilder,
) -> Vec<Taken> {
    let parts = parts_of(how, asked, sources, listing);
    if parts.is_empty() {
        return Vec::new();
    }
    let count = parts.len();
    let mut taken = Vec::new();
    for answer in how.reader.read(parts).await.into_iter().take(count) {
        let Some((answer, set)) = answer.as_ref().and_then(take_apart) else {
            tracing::warn!("a part of the records was not read elsewhere; it is read here");
            continue;
        };
        match ids.push_set(&set) {
            Ok(()) => taken.extend(answer.whole),
            Err(error) => tracing::warn!(%error, "what was read elsewhere does not fit; it is read here"),
        }
    }
    let done: std::collections::HashSet<&str> = taken.iter().map(|one| one.name.as_str()).collect();
    sources.retain(|source| !matches!(source, Source::Task(name) if done.contains(name.as_str())));
    taken
}

/// The records of tasks, in parts of about the same size.
fn parts_of(how: &ReadElsewhere, asked: &Asked, sources: &[Source], listing: &Listing) -> Vec<String> {
    let sizes: std::collections::HashMap<String, &ObjectMeta> =
        listing.committed.iter().map(|(name, meta)| (name.stem(), meta)).collect();
    let tasks: Vec<(String, Option<u64>)> = sources
        .iter()
        .filter_map(|source| match source {
            Source::Task(name) => Some((name.clone(), sizes.get(name).map(|meta| meta.size))),
            Source::Merged(_) => None,
        })
        .collect();
    let bytes: u64 = tasks.iter().filter_map(|(_, size)| *size).sum();
    if tasks.is_empty() || bytes < how.at_least {
        return Vec::new();
    }
    let least = SMALLEST.min(how.at_least.max(1));
    let each = (bytes / how.parts.get() as u64 + 1).max(least);
    let mut parts: Vec<Part> = Vec::new();
    let mut left = 0;
    for (name, size) in tasks {
        let size = size.unwrap_or(0);
        if left == 0 {
            let Asked { id_column, id_class, row_hash, hash_key } = asked.clone();
            parts.push(Part { tasks: Vec::new(), id_column, id_class, row_hash, hash_key: hash_key.to_bytes() });
            left = each;
        }
        left = left.saturating_sub(size.max(1));
        if let Some(part) = parts.last_mut() {
            part.tasks.push((name, Some(size).filter(|size| *size > 0)));
        }
    }
    parts.iter().filter_map(|part| serde_json::to_string(part).ok()).collect()
}
