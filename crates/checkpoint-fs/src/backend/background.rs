//! What OpenDAL does beside a call: the requests of several parts of one streamed write.

use std::sync::{Arc, Mutex, PoisonError};

use opendal::Execute;
use opendal::raw::BoxedStaticFuture;
use tokio::task::JoinSet;

/// The tasks of one call.
#[derive(Clone, Default)]
pub(crate) struct Background(Arc<Mutex<JoinSet<()>>>);

impl Background {
    /// Ends all tasks, and waits until none is left: what the store is asked next follows the last request of theirs.
    pub(crate) async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.shutdown().await;
    }
}

impl Execute for Background {
    fn execute(&self, task: BoxedStaticFuture<()>) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that ended are let go of.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}
