//! Reading many records at once.

use checkpoint_fs::{ReadOptions, StorageExt, StorageRef};
use futures::future::join_all;
use futures::stream::{self, Stream, StreamExt};

use crate::error::Result;
use crate::layout;
use crate::record::{self, Damage, Record};

/// Records that are read at a time.
const CONCURRENCY: usize = 32;

/// A record that was looked for.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// It is whole.
    Whole(Box<Record>),
    /// It is there, and damaged.
    Damaged(Damage),
    /// It is not there.
    Missing,
}

/// Reads and decodes committed records by name, in order.
///
/// A batch is read to its end before its first record is handed out, so no request is left in the air while
/// the caller is busy with a record: it would run into its time limit, or hold a place that the caller's own
/// requests wait for.
pub(crate) fn load_records(
    storage: &StorageRef,
    names: Vec<String>,
    id_column: Option<String>,
) -> impl Stream<Item = Result<(String, Loaded)>> + Send + use<> {
    let storage = storage.clone();
    let batches: Vec<Vec<String>> = names.chunks(CONCURRENCY).map(<[String]>::to_vec).collect();
    stream::iter(batches)
        .then(move |names| {
            let (storage, id_column) = (storage.clone(), id_column.clone());
            async move { join_all(names.into_iter().map(|name| load(&storage, name, id_column.as_deref()))).await }
        })
        .flat_map(stream::iter)
}

async fn load(storage: &StorageRef, name: String, id_column: Option<&str>) -> Result<(String, Loaded)> {
    let loaded = match storage.read_optional(&layout::committed(&name)?, ReadOptions::new()).await? {
        None => Loaded::Missing,
        Some(read) => match record::decode_named(&name, read.bytes, id_column) {
            Ok(record) => Loaded::Whole(Box::new(record)),
            Err(damage) => Loaded::Damaged(damage),
        },
    };
    Ok((name, loaded))
}

/// What is wrong with a record whose IDs are not of the job's class, where that is known.
pub(crate) fn class_problem(record: &Record, wanted: Option<&str>) -> Option<String> {
    let (ids, wanted) = (record.ids.as_ref()?, wanted?);
    let class = ids.class().to_string();
    (class != wanted).then(|| format!("its IDs are {class} and the job's are {wanted}"))
}
