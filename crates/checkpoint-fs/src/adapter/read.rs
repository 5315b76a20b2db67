//! Reading: one request for what is small, pieces of one and the same object for what is large.

use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, Result as StoreResult};

use super::{generic, meta_at, ours, store_error};
use crate::path::ObjectPath;
use crate::storage::{ReadOptions, StatOptions, StorageRef};

/// Bytes of one request.
const PIECE: u64 = 8 << 20;

/// Reads an object or a range of it under that crate's conditions, which are checked here against the
/// metadata that came with the bytes.
pub(super) async fn get(storage: &StorageRef, location: &Path, options: &GetOptions) -> StoreResult<GetResult> {
    let path = ours(location)?;
    let asked = match (&options.range, options.head) {
        (_, true) | (Some(GetRange::Suffix(_)), _) => None,
        (None, _) => Some(0..u64::MAX),
        (Some(GetRange::Offset(start)), _) => Some(*start..u64::MAX),
        (Some(GetRange::Bounded(range)), _) => Some(range.clone()),
    };
    let (meta, first) = match asked {
        Some(range) => {
            let end = range.end.min(range.start.saturating_add(PIECE));
            let read = storage.read(&path, ReadOptions::new().range(Some(range.start..end))).await;
            let read = read.map_err(|e| store_error(e, location))?;
            (meta_at(location.clone(), &read.meta), Some(read.bytes))
        }
        None => {
            let meta = storage.stat(&path, StatOptions::new()).await.map_err(|e| store_error(e, location))?;
            (meta_at(location.clone(), &meta), None)
        }
    };
    options.check_preconditions(&meta)?;
    let range = match &options.range {
        Some(range) => within(range, &meta)?,
        None => 0..meta.size,
    };
    let payload = if options.head {
        stream::empty().boxed()
    } else {
        pieces(storage.clone(), path, meta.clone(), range.clone(), first)
    };
    Ok(GetResult { payload: GetResultPayload::Stream(payload), meta, range, attributes: Default::default() })
}

/// The range in an object of this size.
fn within(range: &GetRange, meta: &ObjectMeta) -> StoreResult<Range<u64>> {
    let size = meta.size;
    let found = match range {
        GetRange::Bounded(range) => range.start..range.end.min(size),
        GetRange::Offset(start) => *start..size,
        GetRange::Suffix(length) => size.saturating_sub(*length)..size,
    };
    if found.start >= found.end {
        return Err(generic(format!("the range holds no bytes: path={} range={range} size={size}", meta.location)));
    }
    Ok(found)
}

/// The bytes, the first piece of which may be there already.
fn pieces(
    storage: StorageRef,
    path: ObjectPath,
    meta: ObjectMeta,
    range: Range<u64>,
    first: Option<Bytes>,
) -> BoxStream<'static, StoreResult<Bytes>> {
    let at = range.start + first.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let rest = stream::try_unfold(at, move |at| {
        let (storage, path, meta) = (storage.clone(), path.clone(), meta.clone());
        async move {
            if at >= range.end {
                return Ok(None);
            }
            let end = range.end.min(at.saturating_add(PIECE));
            let read = storage.read(&path, ReadOptions::new().range(Some(at..end))).await;
            let read = read.map_err(|e| store_error(e, &meta.location))?;
            if read.meta.etag != meta.e_tag || read.meta.size != meta.size || read.bytes.len() as u64 != end - at {
                return Err(generic(format!("the object changed while it was read: path={}", meta.location)));
            }
            Ok(Some((read.bytes, end)))
        }
    });
    stream::iter(first.map(Ok)).chain(rest).boxed()
}
