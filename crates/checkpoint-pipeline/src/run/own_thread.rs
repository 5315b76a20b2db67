//! A thread for the blocking work of one worker.
//!
//! The pool of the runtime gives each piece of work to whichever of its many threads is idle. An encoder that goes
//! from thread to thread leaves memory behind in the allocator of each, and finds its buffers in no cache.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc;
use std::thread;

use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::panic::message;

type Work = Box<dyn FnOnce() + Send>;

/// Does one piece of work after the other. Ends when this is dropped, after the work that it has begun.
#[derive(Debug)]
pub(super) struct OwnThread(mpsc::Sender<Work>);

impl OwnThread {
    /// Starts it.
    ///
    /// # Errors
    /// `Storage` when there are too many threads.
    pub(super) fn start() -> Result<Self> {
        let (sender, receiver) = mpsc::channel::<Work>();
        let started = thread::Builder::new()
            .name("ckpt-worker".to_owned())
            .spawn(move || receiver.into_iter().for_each(|work| work()));
        started.map_err(|e| {
            Error::new(ErrorKind::Storage, format!("a thread cannot be started: {e}"))
                .with_hint("the limit of processes may be too low; see `ulimit -a`, or use fewer --workers")
        })?;
        Ok(Self(sender))
    }

    /// Does the work there and gives its answer. Dropping the future does not stop work that has begun.
    ///
    /// # Errors
    /// What the work gives; `BadData` when it panics.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (done, answer) = oneshot::channel();
        let work = move || {
            let result =
                std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(died(panic.as_ref())));
            // Nobody waits any more where the run has ended.
            let _ = done.send(result);
        };
        let gone = || Error::new(ErrorKind::BadData, "the thread of a worker has ended");
        self.0.send(Box::new(work)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone()).flatten()
    }
}

fn died(panic: &(dyn Any + Send)) -> Error {
    let said = message(panic).unwrap_or("it panicked");
    Error::new(ErrorKind::BadData, format!("encoding the output failed: {said}"))
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use super::*;

    #[tokio::test]
    async fn all_work_is_done_by_one_thread_also_after_a_panic() {
        let own = OwnThread::start().expect("starts");
        let here = || -> Result<ThreadId> { Ok(thread::current().id()) };
        let first = own.run(here).await.expect("works");
        assert_ne!(first, thread::current().id());
        let refused = own.run(|| -> Result<()> { Err(Error::bad_data("no")) }).await.expect_err("fails");
        assert!(refused.to_string().contains("no"), "{refused}");
        let panicked = own.run(|| -> Result<()> { panic!("a value of {}", 7) }).await.expect_err("panics");
        assert!(panicked.to_string().contains("a value of 7"), "{panicked}");
        assert_eq!(own.run(here).await.expect("works"), first);
    }
}
