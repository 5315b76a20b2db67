//! What Ray left: records without an attempt in their names, and pending records whose data must be read.

use std::collections::{BTreeSet, HashSet};

use arrow::array::ArrayRef;
use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageRef};
use futures::stream::StreamExt;

use super::load::{Loaded, Wanted, load_records};
use super::pending::is_new;
use super::plan::{Plan, those_committed};
use super::roll_forward::RollForward;
use crate::checkpoint::Checkpoint;
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::id::IdColumn;
use crate::layout::{self, RecordName};
use crate::names::owner;
use crate::record::Record;
use crate::snapshot::{Snapshot, Source};

/// Records of others that no closed list knows, nor any attempt. They have none in their names: those present now are
/// taken in with this closing.
pub(super) async fn newcomers(
    storage: &StorageRef,
    snapshot: &Snapshot,
    known: &[String],
    void: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let is_new = |stem: &str| !known.contains(stem) && !void.contains(stem);
    let mut names = BTreeSet::new();
    for (name, _) in &snapshot.listing.committed {
        if let RecordName::Foreign(stem) = name
            && is_new(stem)
        {
            names.insert(stem.clone());
        }
    }
    let pending = snapshot.listing.ray_pending.iter().map(|(stem, _)| stem);
    let unseen = pending.filter(|stem| is_new(stem) && !names.contains(*stem)).cloned().collect();
    names.extend(those_committed(storage, unseen).await?);
    Ok(names.into_iter().collect())
}

/// Ray's pending records: complete when the IDs in the task's data files are the record's, as multisets.
pub(super) async fn plan_ray_pending(
    plan: &mut Plan,
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    (output, view, reader): (&StorageRef, &OutputView, &dyn DataReader),
    counted: &BTreeSet<String>,
) -> Result<()> {
    let known: BTreeSet<&str> = counted
        .iter()
        .map(String::as_str)
        .chain(snapshot.listing.ray_pending.iter().map(|(stem, _)| stem.as_str()))
        .collect();
    let void: Vec<String> = plan.void.iter().cloned().collect();
    let known: BTreeSet<&str> = known.into_iter().chain(void.iter().map(String::as_str)).collect();
    let pending = snapshot.listing.ray_pending.iter();
    let open = pending.filter(|(stem, _)| !counted.contains(stem) && !plan.void.contains(stem));
    let wanted = open.map(|(stem, meta)| Wanted::ray_pending(stem, meta)).collect::<Result<Vec<_>>>()?;
    let whole = |_: &str, loaded: Loaded, bytes: &Bytes| Ok((loaded, bytes.clone()));
    let mut loaded = std::pin::pin!(load_records(checkpoint, wanted, plan.id_column.clone(), whole));
    while let Some(next) = loaded.next().await {
        let (stem, (loaded, bytes)) = next?;
        let complete = match loaded {
            Loaded::Whole(record) if is_new(plan, &record)? => {
                let files = files_of(view, &known, &stem)?;
                let equal = read_back(output, reader, &files, &record).await? == Data::Equal;
                equal.then_some((record, files))
            }
            _ => None,
        };
        let Some((record, data)) = complete else {
            plan.void.insert(stem);
            continue;
        };
        plan.count_new(checkpoint.runtime.as_ref(), &stem, *record).await?;
        plan.add(snapshot, &stem);
        plan.roll_forward.push(RollForward { name: stem, bytes, data });
    }
    Ok(())
}

/// The data files of a task of Ray's, told from those of every other task that is known.
fn files_of(view: &OutputView, known: &BTreeSet<&str>, stem: &str) -> Result<Vec<ObjectPath>> {
    let is_its = |path: &str| owner(path.rsplit('/').next().unwrap_or(path), |s| known.get(s).copied()) == Some(stem);
    let owned = view.all().map(|(path, _)| path).filter(|path| is_its(path));
    Ok(owned.map(|path| ObjectPath::parse(path.as_str())).collect::<checkpoint_fs::Result<_>>()?)
}

/// Records of others that count and whose data is gone, damaged, or not what they say; for a repair. Data in a
/// format that the reader does not know is left alone.
pub(super) async fn without_data(
    checkpoint: &Checkpoint,
    snapshot: &Snapshot,
    plan: &Plan,
    output: &StorageRef,
    view: &OutputView,
    reader: &dyn DataReader,
) -> Result<Vec<String>> {
    let known: BTreeSet<&str> = plan.records.iter().chain(&plan.void).map(String::as_str).collect();
    let mut sources = snapshot.sources_of(plan.records.iter().cloned().collect());
    sources.retain(|source| !matches!(source, Source::Merged(merged) if merged.records.is_empty()));
    let wanted = Wanted::committed(sources, &snapshot.listing)?;
    let whole = |_: &str, loaded: Loaded, _: &Bytes| Ok(loaded);
    let mut gone = Vec::new();
    // Without a job each record names its own column, and the data tells whether there is one of that name.
    let column = snapshot.fingerprint.as_ref().map(|job| job.id_column.clone());
    let mut records = std::pin::pin!(load_records(checkpoint, wanted, column, whole));
    while let Some(next) = records.next().await {
        let (name, Loaded::Whole(record)) = next? else { continue };
        if !plan.records.contains(&name) {
            continue;
        }
        let files = files_of(view, &known, &name)?;
        let whole = match read_back(output, reader, &files, &record).await? {
            Data::Equal => true,
            Data::Different => false,
            Data::Unreadable => !files.iter().all(|file| file.name().ends_with(layout::RECORD)),
        };
        if !whole {
            gone.push(name);
        }
    }
    Ok(gone)
}

/// What the data files of a task hold, against its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    /// Exactly the record's IDs.
    Equal,
    /// Other IDs, or fewer, or more.
    Different,
    /// They cannot be read, and prove nothing.
    Unreadable,
}

async fn read_back(
    output: &StorageRef,
    reader: &dyn DataReader,
    files: &[ObjectPath],
    record: &Record,
) -> Result<Data> {
    let mut found: Vec<IdColumn> = Vec::new();
    for file in files {
        let mut pieces = match reader.ids(output, file, &record.id_field()).await {
            Ok(pieces) => pieces,
            Err(error) => return unreadable(error),
        };
        while let Some(piece) = pieces.next().await {
            let piece: ArrayRef = match piece {
                Ok(piece) => piece,
                Err(error) => return unreadable(error),
            };
            match IdColumn::try_new(&piece) {
                Ok(Ok(ids)) => found.push(ids),
                _ => return Ok(Data::Different),
            }
        }
    }
    if found.iter().any(|piece| record.ids.as_ref().is_none_or(|ids| ids.class() != piece.class())) {
        return Ok(Data::Different);
    }
    let sorted = |columns: &mut dyn Iterator<Item = &IdColumn>| {
        let mut keys: Vec<Vec<u8>> = columns.flat_map(IdColumn::canonical_keys).collect();
        keys.sort_unstable();
        keys
    };
    let equal = sorted(&mut record.ids.iter()) == sorted(&mut found.iter());
    Ok(if equal { Data::Equal } else { Data::Different })
}

fn unreadable(error: Error) -> Result<Data> {
    if error.kind() == ErrorKind::Storage { Err(error) } else { Ok(Data::Unreadable) }
}
