//! Pending records that have served: deleted a thousand to a request, in the background, never in the way of
//! a commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use checkpoint_fs::{ObjectPath, StorageRef};

use crate::recovery::delete_all;
use crate::runtime::{RuntimeRef, TaskHandle};

/// Records that are deleted by one request, the most that every store takes.
const BATCH: usize = 1000;
/// Records that may wait. Those beyond it are litter, which the end of the job or the next start sweeps.
const MOST_WAITING: usize = 16 * BATCH;

/// The pending records of committed tasks, on their way out.
///
/// A record that stays, since its deletion failed or too many waited, is litter and no error: its twin is
/// committed, and that alone counts.
#[derive(Debug)]
pub(crate) struct Served {
    queue: Arc<Queue>,
    runtime: RuntimeRef,
    deleter: Mutex<Option<TaskHandle>>,
}

#[derive(Debug)]
struct Queue {
    storage: StorageRef,
    waiting: Mutex<Waiting>,
    /// Held while a request is at work, so that the end waits for it.
    deleting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    paths: Vec<ObjectPath>,
    /// Whether the background is at work, or about to be.
    busy: bool,
}

impl Served {
    /// For records on this storage.
    pub(crate) fn new(storage: StorageRef, runtime: RuntimeRef) -> Self {
        let queue = Queue { storage, waiting: Mutex::default(), deleting: tokio::sync::Mutex::default() };
        Self { queue: Arc::new(queue), runtime, deleter: Mutex::default() }
    }

    /// Takes the pending record of a task that is committed. Asks nothing of the storage itself.
    pub(crate) fn push(&self, pending: ObjectPath) {
        {
            let mut waiting = self.queue.waiting();
            if waiting.paths.len() >= MOST_WAITING {
                return;
            }
            waiting.paths.push(pending);
            if waiting.busy || waiting.paths.len() < BATCH {
                return;
            }
            waiting.busy = true;
        }
        // Held around both: no handle may replace, and thereby end, one that was made after it.
        let mut deleter = self.deleter.lock().unwrap_or_else(PoisonError::into_inner);
        *deleter = Some(self.runtime.spawn(Box::pin(Arc::clone(&self.queue).delete_full_batches())));
    }

    /// Waits for the request that is at work, and deletes all that is left.
    pub(crate) async fn flush(&self) {
        let _deleting = self.queue.deleting.lock().await;
        let left = std::mem::take(&mut self.queue.waiting().paths);
        for batch in left.chunks(BATCH) {
            self.queue.delete(batch.to_vec()).await;
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn delete_full_batches(self: Arc<Self>) {
        loop {
            // Records are taken only by who holds this: `flush` never overlooks some that are in hand.
            let _deleting = self.deleting.lock().await;
            let batch: Vec<ObjectPath> = {
                let mut waiting = self.waiting();
                if waiting.paths.len() < BATCH {
                    waiting.busy = false;
                    return;
                }
                waiting.paths.drain(..BATCH).collect()
            };
            self.delete(batch).await;
        }
    }

    async fn delete(&self, batch: Vec<ObjectPath>) {
        if let Err(error) = delete_all(&self.storage, batch).await {
            tracing::info!(%error, "pending records that have served stay until the next sweep");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::SystemRuntime;
    use checkpoint_fs::{MemoryStorage, StorageExt, WriteOptions};

    async fn full(records: usize) -> (StorageRef, Vec<ObjectPath>) {
        let storage: StorageRef = Arc::new(MemoryStorage::new("memory://served"));
        let mut paths = Vec::new();
        for number in 0..records {
            let path = ObjectPath::parse(format!("p/{number}").as_str()).unwrap();
            let written = storage.write(&path, "x".into(), WriteOptions::new()).await.unwrap();
            assert!(matches!(written, checkpoint_fs::WriteOutcome::Done(_)));
            paths.push(path);
        }
        (storage, paths)
    }

    async fn left(storage: &StorageRef) -> usize {
        storage.list_files(&ObjectPath::root(), true).await.unwrap().len()
    }

    #[tokio::test]
    async fn full_batches_go_in_the_background_and_the_rest_when_it_is_flushed() {
        let (storage, paths) = full(2 * BATCH + 1).await;
        let served = Served::new(storage.clone(), SystemRuntime::shared());
        for path in paths {
            served.push(path);
            tokio::task::yield_now().await;
        }
        while served.queue.waiting().busy {
            tokio::task::yield_now().await;
        }
        assert_eq!(left(&storage).await, 1);
        served.flush().await;
        assert_eq!(left(&storage).await, 0);
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_flushed_whoever_holds_it() {
        let (storage, paths) = full(MOST_WAITING + 5).await;
        let served = Served::new(storage.clone(), SystemRuntime::shared());
        // The background gets no turn here.
        paths.into_iter().for_each(|path| served.push(path));
        assert_eq!(served.queue.waiting().paths.len(), MOST_WAITING);
        served.flush().await;
        assert_eq!(left(&storage).await, 5, "litter");
    }
}
