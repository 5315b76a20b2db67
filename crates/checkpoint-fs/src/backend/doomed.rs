//! Deleting many objects: what is to go, and the way one by one where a store takes no batches.

use std::collections::HashSet;

use futures::stream::{self, StreamExt};

use crate::error::Result;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::Call;

/// Single deletes under way at once.
const SINGLES: usize = 16;

/// An object that is to go.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub(crate) path: ObjectPath,
    /// Names its own failure.
    pub(crate) call: Call,
    pub(crate) key: String,
}

impl Doomed {
    /// One for each path, in order; a path that is named twice goes once.
    ///
    /// # Errors
    /// The first key that the store cannot hold; nothing was sent then.
    pub(crate) fn all(
        paths: Vec<ObjectPath>,
        call: impl Fn(&ObjectPath) -> Call,
        key: impl Fn(&ObjectPath, &Call) -> Result<String>,
    ) -> Result<Vec<Self>> {
        let mut seen = HashSet::with_capacity(paths.len());
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            let call = call(&path);
            let key = key(&path, &call)?;
            if seen.insert(key.clone()) {
                all.push(Self { path, call, key });
            }
        }
        Ok(all)
    }
}

/// Deletes one by one, several at once, and adds what could not be deleted to `failures`.
pub(crate) async fn one_by_one<F, Fut>(doomed: Vec<Doomed>, delete: F, failures: &mut Vec<DeleteFailure>)
where
    F: Fn(Doomed) -> Fut,
    Fut: Future<Output = (Result<()>, ObjectPath)>,
{
    let mut results = stream::iter(doomed).map(delete).buffer_unordered(SINGLES);
    while let Some((result, path)) = results.next().await {
        if let Err(error) = result {
            failures.push(DeleteFailure { path, error });
        }
    }
}
