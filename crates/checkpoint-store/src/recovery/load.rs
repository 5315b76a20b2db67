//! Reading many records at once.

use checkpoint_fs::{ReadOptions, StorageExt, StorageRef};
use futures::stream::{self, Stream, StreamExt};

use crate::error::Result;
use crate::layout;
use crate::record::{self, Damage, Record};

/// Records in flight at a time.
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

/// Reads and decodes committed records by name, in no particular order.
pub(crate) fn load_records(
    storage: &StorageRef,
    names: Vec<String>,
    id_column: Option<String>,
) -> impl Stream<Item = Result<(String, Loaded)>> + Send + use<> {
    let storage = storage.clone();
    stream::iter(names)
        .map(move |name| {
            let (storage, id_column) = (storage.clone(), id_column.clone());
            async move {
                let path = layout::committed(&name)?;
                let loaded = match storage.read_optional(&path, ReadOptions::new()).await? {
                    None => Loaded::Missing,
                    Some(read) => match record::decode(read.bytes, id_column.as_deref()) {
                        Ok(record) => Loaded::Whole(Box::new(record)),
                        Err(damage) => Loaded::Damaged(damage),
                    },
                };
                Ok((name, loaded))
            }
        })
        .buffer_unordered(CONCURRENCY)
}

/// What is wrong with a record whose IDs are not of the job's class, where that is known.
pub(crate) fn class_problem(record: &Record, wanted: Option<&str>) -> Option<String> {
    let (ids, wanted) = (record.ids.as_ref()?, wanted?);
    let class = ids.class().to_string();
    (class != wanted).then(|| format!("its IDs are {class} and the job's are {wanted}"))
}
