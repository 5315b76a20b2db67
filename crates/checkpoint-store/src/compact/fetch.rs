//! Reading a large object by its parts, several at a time.

use std::ops::Range;

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ObjectPath, ReadOptions, StorageExt, StorageRef};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::error::Result;
use crate::id::pages;

/// The bytes of a part. A store gives one connection some 50 to 100 MB a second.
pub(super) const PART: u64 = 16 << 20;
/// Parts that are under way, or wait for those before them.
const CONCURRENCY: usize = 8;

/// Reads an object of so many bytes; `None` where there is none, or one of another size. A request for each part;
/// memory: the object, and the parts that are under way.
///
/// # Errors
/// `Storage`.
pub(super) async fn fetch(storage: &StorageRef, path: &ObjectPath, bytes: u64, part: u64) -> Result<Option<Bytes>> {
    // The first part tells the size before room is made for it.
    let first = storage.read_optional(path, ReadOptions::new().range(Some(0..bytes.min(part)))).await?;
    let Some(first) = first.filter(|first| first.meta.size == bytes) else { return Ok(None) };
    if bytes <= part {
        return Ok(Some(first.bytes));
    }
    let Ok(room) = usize::try_from(bytes) else { return Ok(None) };
    let mut whole = pages(room)?;
    let mut rest: &mut [u8] = &mut whole;
    let mut put = |part: &[u8]| rest.split_off_mut(..part.len()).map(|place| place.copy_from_slice(part)).is_some();
    put(&first.bytes);
    let version = first.meta;
    let ranges: Vec<Range<u64>> = (1..bytes.div_ceil(part)).map(|n| n * part..bytes.min((n + 1) * part)).collect();
    let parts = stream::iter(ranges).map({
        let (storage, path) = (storage.clone(), path.clone());
        move |range| {
            let (storage, path) = (storage.clone(), path.clone());
            async move { storage.read_optional(&path, ReadOptions::new().range(Some(range))).await }
        }
    });
    let mut parts = parts.buffered(CONCURRENCY);
    while let Some(next) = parts.try_next().await? {
        match next.filter(|next| is_same(&next.meta, &version)) {
            Some(next) if put(&next.bytes) => {}
            // Replaced, or deleted, meanwhile.
            _ => return Ok(None),
        }
    }
    let complete = rest.is_empty();
    Ok(complete.then(|| Bytes::from_owner(whole)))
}

fn is_same(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    one.size == other.size && one.etag == other.etag
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use checkpoint_fs::{MemoryStorage, WriteOptions};
    use checkpoint_testkit::{Counters, CountingStorage, Operation};

    use super::*;

    #[tokio::test]
    async fn an_object_is_read_once_by_parts_of_the_wanted_size() {
        let counters = Counters::new();
        let memory = Arc::new(MemoryStorage::new("memory://parts"));
        let storage: StorageRef = Arc::new(CountingStorage::new(memory, counters.clone()));
        let path = ObjectPath::parse("large").unwrap();
        for (size, part, reads) in [(0, 10, 1), (9, 10, 1), (10, 10, 1), (11, 10, 2), (1_003, 10, 101), (40, 10, 4)] {
            let bytes = Bytes::from_iter((0..size).map(|at| (at % 251) as u8));
            let _ = storage.write(&path, bytes.clone(), WriteOptions::new()).await.unwrap();
            counters.reset();
            let read = fetch(&storage, &path, size, part).await.unwrap();
            assert_eq!(read, Some(bytes), "{size}");
            let counts = counters.reset();
            assert_eq!((counts.calls(Operation::Read), counts.bytes_read()), (reads, size), "{size}");
            assert_eq!(counts.total_calls(), reads, "{size}");
            assert_eq!(fetch(&storage, &path, size + 1, part).await.unwrap(), None, "of another size");
            assert_eq!(counters.reset().calls(Operation::Read), 1, "found out by the first part");
        }
        let missing = ObjectPath::parse("missing").unwrap();
        assert_eq!(fetch(&storage, &missing, 25, 10).await.unwrap(), None);
    }
}
