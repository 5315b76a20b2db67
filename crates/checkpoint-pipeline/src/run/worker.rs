//! A worker: takes batches, transforms them, and commits tasks while it makes the next.

use std::time::Duration;

use tokio::sync::{Mutex, mpsc};

use super::commits::Commits;
use super::failing::{self, Applied};
use super::item::Item;
use super::most_telling;
use super::own_thread::OwnThread;
use super::settings::Shared;
use super::task::{BuiltTask, OpenTask, SharedRef};
use crate::error::Result;

/// One of several that run at once.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    shared: SharedRef,
    items: &'a Mutex<mpsc::Receiver<Item>>,
    thread: OwnThread,
}

/// A task that ended, and why no other follows, if none does.
struct Made {
    task: Option<BuiltTask>,
    end: Option<Result<()>>,
}

impl<'a> Worker<'a> {
    /// # Errors
    /// `Storage` when no thread can be started.
    pub(super) fn new(shared: SharedRef, items: &'a Mutex<mpsc::Receiver<Item>>) -> Result<Self> {
        Ok(Self { shared, items, thread: OwnThread::start()? })
    }

    /// Works until the input ends, the run is halted, or something fails. What is finished is committed in
    /// any case.
    ///
    /// # Errors
    /// The most telling failure, the first of such; every other worker is halted then.
    pub(super) async fn run(self) -> Result<()> {
        let mut commits = Commits::new(&self.shared.halt);
        loop {
            let made = commits.during(Box::pin(self.make_task())).await;
            if let Some(task) = made.task
                && !commits.has_failed()
            {
                let shared: &Shared = &self.shared;
                let room = commits.during(shared.room_for(task.memory())).await;
                let commit = async move {
                    let _room = room;
                    Box::pin(task.commit(shared)).await
                };
                commits.begin(commit).await;
            }
            let end = match made.end {
                None if commits.has_failed() => Ok(()),
                None => continue,
                Some(end) => end,
            };
            if end.is_err() {
                self.shared.halt.cancel();
            }
            let committed = commits.finish().await;
            return most_telling(end.err().into_iter().chain(committed.err())).map_or(Ok(()), Err);
        }
    }

    async fn make_task(&self) -> Made {
        let mut task = OpenTask::new(&self.shared);
        let end = loop {
            if task.is_full(&self.shared) {
                break None;
            }
            let item = match self.next_item(task.patience(&self.shared)).await {
                Next::Item(item) => item,
                Next::Due => break None,
                Next::End => break Some(Ok(())),
            };
            if let Err(error) = task.refuse_repeats(&item) {
                break Some(Err(error));
            }
            let applied = tokio::select! {
                biased;
                applied = failing::apply(&self.shared, &item) => applied,
                () = self.shared.halt.cancelled() => break Some(Ok(())),
            };
            let applied = match applied {
                Ok(applied) => applied,
                Err(error) => break Some(Err(error)),
            };
            match self.take(task, item, applied).await {
                Ok(taken) => task = taken,
                // The batch is half encoded: the whole task is given up, and its rows are done again.
                Err(error) => return Made { task: None, end: Some(Err(error)) },
            }
        };
        if task.is_empty() {
            return Made { task: None, end };
        }
        let shared = self.shared.clone();
        match self.thread.run(move || task.build(&shared)).await {
            Ok(task) => Made { task: Some(task), end },
            Err(error) => Made { task: None, end: Some(end.unwrap_or(Ok(())).and(Err(error))) },
        }
    }

    async fn take(&self, task: OpenTask, item: Item, applied: Applied) -> Result<OpenTask> {
        let shared = self.shared.clone();
        self.thread.run(move || task.take(&shared, &item, applied)).await
    }

    async fn next_item(&self, patience: Option<Duration>) -> Next {
        let next = async {
            let mut items = self.items.lock().await;
            items.recv().await
        };
        let due = async {
            match patience {
                Some(left) => self.shared.runtime.sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shared.halt.cancelled() => Next::End,
            item = next => item.map_or(Next::End, Next::Item),
            () = due => Next::Due,
        }
    }
}

/// What a worker does next.
enum Next {
    Item(Item),
    /// The task has waited long enough.
    Due,
    /// There is no more, or the run is halted.
    End,
}
