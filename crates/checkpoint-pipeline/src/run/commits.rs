//! The commits of one worker that are under way while it makes its next task.

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use super::most_telling;
use crate::error::{Error, Result};

/// Commits of one worker at once. One, beside the task that is being made: what a kill or a lost lease leaves in doubt
/// is a single task of each worker.
const MOST: usize = 1;

/// Commits under way. They go on only while something of this is awaited.
pub(super) struct Commits<'a> {
    most: usize,
    halt: &'a CancellationToken,
    running: FuturesUnordered<BoxFuture<'a, Result<()>>>,
    failed: Option<Error>,
}

impl<'a> Commits<'a> {
    /// None yet; the first that fails cancels `halt`.
    pub(super) fn new(halt: &'a CancellationToken) -> Self {
        Self { most: MOST, halt, running: FuturesUnordered::new(), failed: None }
    }

    /// Awaits other work, and goes on with the commits meanwhile.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(done) = self.running.next() => self.note(done),
                result = &mut work => return result,
            }
        }
    }

    /// Begins a commit, once few enough others are under way. After a failure it is given up instead: its
    /// rows are done again.
    pub(super) async fn begin(&mut self, commit: impl Future<Output = Result<()>> + Send + 'a) {
        while self.running.len() >= self.most
            && let Some(done) = self.running.next().await
        {
            self.note(done);
        }
        if self.failed.is_none() {
            self.running.push(Box::pin(commit));
        }
    }

    /// Whether one has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// The most telling failure, the first of such.
    pub(super) async fn finish(mut self) -> Result<()> {
        while let Some(done) = self.running.next().await {
            self.note(done);
        }
        self.failed.map_or(Ok(()), Err)
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.halt.cancel();
            self.failed = most_telling(self.failed.take().into_iter().chain([error]));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_commit_waits_for_the_store_beside_the_work_and_the_next_one_for_it() {
        let (halt, answers) = (CancellationToken::new(), Semaphore::new(0));
        let mut commits = Commits::new(&halt);
        let commit = || async {
            answers.acquire().await.expect("open").forget();
            Ok(())
        };
        for _ in 0..MOST {
            commits.begin(commit()).await;
        }
        assert_eq!(commits.during(ready(1)).await, 1);
        assert_eq!(commits.running.len(), MOST, "none has an answer");
        {
            let mut next = std::pin::pin!(commits.begin(commit()));
            assert!(futures::poll!(&mut next).is_pending());
            answers.add_permits(1);
            next.await;
        }
        answers.add_permits(MOST);
        assert!(commits.finish().await.is_ok());
        assert!(!halt.is_cancelled());
    }

    #[tokio::test]
    async fn a_failure_halts_the_run_and_the_others_go_on_to_their_end() {
        let (halt, ended) = (CancellationToken::new(), std::sync::atomic::AtomicU32::new(0));
        let mut commits = Commits { most: 4, ..Commits::new(&halt) };
        let commit = || async {
            tokio::task::yield_now().await;
            ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        };
        commits.begin(commit()).await;
        commits.begin(async { Err(Error::bad_data("first")) }).await;
        commits.begin(async { Err(Error::bad_data("second")) }).await;
        commits.during(halt.cancelled()).await;
        assert!(commits.has_failed());
        commits.begin(commit()).await;
        assert!(commits.finish().await.is_err_and(|e| e.to_string().contains("first")));
        assert_eq!(ended.into_inner(), 1, "one was given up");
    }

    #[tokio::test]
    async fn a_commit_in_doubt_is_told_of_before_what_failed_for_certain() {
        let halt = CancellationToken::new();
        let mut commits = Commits { most: 4, ..Commits::new(&halt) };
        commits.begin(async { Err(Error::bad_data("certain")) }).await;
        commits.begin(async { Err(Error::new(ErrorKind::OutcomeUnknown, "in doubt")) }).await;
        let error = commits.finish().await.expect_err("two failed");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    }
}
