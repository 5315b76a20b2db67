//! Clock, randomness, tasks and the process's identity, injected so that all of it can be simulated.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::channel::oneshot;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// A runtime, shared.
pub type RuntimeRef = Arc<dyn Runtime>;

/// Which process an attempt belongs to: enough for another process to tell whether it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The host's name, for people.
    pub host: String,
    /// The process ID inside its namespace.
    pub pid: u32,
    /// The kernel's boot ID; `None` where there is none, which means that nobody can tell from outside.
    pub boot_id: Option<String>,
    /// The PID namespace; `None` where there is none.
    pub pid_namespace: Option<String>,
    /// When the process started, in the kernel's ticks: tells a reused PID.
    pub start_ticks: Option<u64>,
}

/// Whether the owner of an attempt still lives, as far as can be told from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Same kernel, same PID namespace, and no such process.
    Gone,
    /// Same kernel, same PID namespace, and it is there (perhaps stopped).
    Alive,
    /// Another host or namespace: only its lease can tell.
    Unknown,
}

/// A background task; it ends when this is dropped.
pub struct TaskHandle(Option<Box<dyn FnOnce() + Send + Sync>>);

impl TaskHandle {
    /// A handle that calls `cancel` when it is dropped.
    pub fn new(cancel: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(cancel)))
    }
}

impl Drop for TaskHandle {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

impl Debug for TaskHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TaskHandle")
    }
}

/// What the store needs from its surroundings.
pub trait Runtime: Debug + Send + Sync + 'static {
    /// Time since some fixed moment; goes on while the machine sleeps or the process is stopped.
    fn elapsed(&self) -> Duration;

    /// The time of day, for people and file names; nothing is decided by it.
    fn now(&self) -> SystemTime;

    /// Resolves after the duration.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Random bits, for names and tokens that must not repeat.
    fn random(&self) -> u64;

    /// Runs a future in the background.
    fn spawn(&self, future: BoxFuture<'static, ()>) -> TaskHandle;

    /// Runs work that keeps a processor busy where it is in nobody's way, and resolves when it is done. The work is
    /// done even if nobody awaits it any more.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()>;

    /// This process.
    fn identity(&self) -> ProcessIdentity;

    /// Whether another process still lives.
    fn liveness(&self, other: &ProcessIdentity) -> Liveness;
}

/// Runs work as [`Runtime::run_blocking`] does, and answers what it answers.
pub(crate) async fn blocking<T: Send + 'static>(
    runtime: &dyn Runtime,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, answer) = oneshot::channel();
    runtime.run_blocking(Box::new(move || drop(done.send(work())))).await;
    let ended = |_| Error::new(ErrorKind::Storage, "the program is ending, and what it was about to do was given up");
    answer.await.unwrap_or_else(|e| Err(ended(e)))
}

/// The real thing: the kernel's clocks, tokio's tasks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemRuntime;

impl SystemRuntime {
    /// Shared, as the store wants it.
    pub fn shared() -> RuntimeRef {
        Arc::new(Self)
    }
}

impl Runtime for SystemRuntime {
    #[cfg(target_os = "linux")]
    fn elapsed(&self) -> Duration {
        // CLOCK_MONOTONIC stands still while a laptop or a virtual machine is suspended; a lease does not.
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(now.tv_sec.max(0) as u64, now.tv_nsec.max(0) as u32)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::disallowed_methods, reason = "this module owns the clock")]
    fn elapsed(&self) -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this module owns the clock")]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    #[expect(clippy::disallowed_methods, reason = "this module owns the randomness")]
    fn random(&self) -> u64 {
        rand::random()
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> TaskHandle {
        let handle = tokio::spawn(future).abort_handle();
        TaskHandle::new(move || handle.abort())
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        let (done, ended) = oneshot::channel();
        crate::work::start(Box::new(move || {
            let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        }));
        Box::pin(async move {
            if let Ok(Err(panic)) = ended.await {
                resume_unwind(panic);
            }
        })
    }

    fn identity(&self) -> ProcessIdentity {
        let pid = std::process::id();
        ProcessIdentity {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid,
            boot_id: boot_id(),
            pid_namespace: pid_namespace(),
            start_ticks: start_ticks(pid),
        }
    }

    fn liveness(&self, other: &ProcessIdentity) -> Liveness {
        let (Some(boot), Some(namespace), Some(started)) = (&other.boot_id, &other.pid_namespace, other.start_ticks)
        else {
            return Liveness::Unknown;
        };
        if boot_id().as_ref() != Some(boot) || pid_namespace().as_ref() != Some(namespace) {
            return Liveness::Unknown;
        }
        match start_ticks(other.pid) {
            Some(ticks) if ticks == started => Liveness::Alive,
            Some(_) => Liveness::Gone,
            None => without_stat(other.pid),
        }
    }
}

/// A process whose state cannot be read: it is gone, or hidden from this user (`hidepid`).
fn without_stat(pid: u32) -> Liveness {
    if std::fs::read(format!("/proc/{pid}/stat")).is_ok() {
        // Dead and not yet collected by its parent.
        return Liveness::Gone;
    }
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    match pid.map(rustix::process::test_kill_process) {
        Some(Err(rustix::io::Errno::SRCH)) => Liveness::Gone,
        _ => Liveness::Unknown,
    }
}

fn boot_id() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn pid_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned())
}

/// Field 22 of `/proc/<pid>/stat`; a zombie (state Z) counts as gone.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_a_reused_pid_is_not_it() {
        let me = SystemRuntime.identity();
        assert_eq!(SystemRuntime.liveness(&me), Liveness::Alive);
        let reused = ProcessIdentity { start_ticks: Some(1), ..me.clone() };
        assert_eq!(SystemRuntime.liveness(&reused), Liveness::Gone);
        let elsewhere = ProcessIdentity { boot_id: Some("other".into()), ..me };
        assert_eq!(SystemRuntime.liveness(&elsewhere), Liveness::Unknown);
    }

    #[tokio::test]
    async fn work_is_done_on_other_threads_and_its_panic_comes_back() {
        let here = std::thread::current().id();
        let there = blocking(&SystemRuntime, || Ok(std::thread::current().id())).await.unwrap();
        assert_ne!(here, there);
        let panics = tokio::spawn(async { SystemRuntime.run_blocking(Box::new(|| panic!("on purpose"))).await });
        assert!(panics.await.unwrap_err().is_panic());
        let many = (0..100).map(|n| async move { blocking(&SystemRuntime, move || Ok(n)).await.unwrap() });
        assert_eq!(futures::future::join_all(many).await, (0..100).collect::<Vec<_>>(), "the threads live on");
    }

    #[test]
    fn a_killed_child_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("starts");
        let identity =
            ProcessIdentity { pid: child.id(), start_ticks: start_ticks(child.id()), ..SystemRuntime.identity() };
        assert_eq!(SystemRuntime.liveness(&identity), Liveness::Alive);
        child.kill().expect("killed");
        while start_ticks(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(SystemRuntime.liveness(&identity), Liveness::Gone, "a zombie counts as gone");
        child.wait().expect("reaped");
        assert_eq!(SystemRuntime.liveness(&identity), Liveness::Gone);
    }
}
