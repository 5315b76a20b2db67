//! Threads for work that keeps a processor busy: as many as there are processors, shared by the whole process.
//!
//! tokio's own pool has a thread for everything that blocks at the same time, and hands work to all of them in turn,
//! so that each comes to hold the buffers of a decoder.

use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Work that does not panic.
type Job = Box<dyn FnOnce() + Send>;

/// The threads, and the process that they are of: a forked child has none of them.
static POOL: Mutex<Option<(u32, Sender<Job>)>> = Mutex::new(None);

/// Starts work on one of the threads; on this one, should there be none.
pub(crate) fn start(job: Job) {
    let process = std::process::id();
    let mut pool = lock(&POOL);
    if pool.as_ref().is_none_or(|(of, _)| *of != process) {
        *pool = threads().map(|jobs| (process, jobs));
    }
    let left = match pool.as_ref() {
        Some((_, jobs)) => jobs.send(job).err().map(|unsent| unsent.0),
        None => Some(job),
    };
    drop(pool);
    if let Some(job) = left {
        job();
    }
}

fn threads() -> Option<Sender<Job>> {
    let (jobs, waiting) = mpsc::channel();
    let waiting = Arc::new(Mutex::new(waiting));
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let started = (0..cores).filter(|_| {
        let waiting = waiting.clone();
        thread::Builder::new().name("checkpoint-work".to_owned()).spawn(move || work(&waiting)).is_ok()
    });
    (started.count() > 0).then_some(jobs)
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let next = lock(waiting).recv();
        match next {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
