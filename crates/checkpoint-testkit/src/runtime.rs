//! A runtime under the hands of a test: a clock that moves when it is told, randomness from a seed, and
//! processes that can be stopped and killed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use checkpoint_store::{Liveness, ProcessIdentity, Runtime, TaskHandle};
use futures::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How often other tasks may run after each step of the clock. A task gets further at each, as long as it
/// waits for nothing but this clock.
const YIELDS: usize = 100;

/// The clock of a small world, and the processes in it. Clones share both.
///
/// It stands still until [`advance`](ManualClock::advance) moves it, so a test on tokio's current-thread
/// runtime always runs the same way.
#[derive(Debug, Clone, Default)]
pub struct ManualClock(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    now: Duration,
    next: u64,
    sleepers: BTreeMap<u64, (Duration, Waker)>,
    stopped: HashSet<Process>,
    dead: HashSet<Process>,
}

/// A process: its host and its ID.
type Process = (String, u32);

impl ManualClock {
    /// A clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time since the clock was made.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// Moves the clock, from one sleeper's waking to the next, and lets the woken run in between.
    pub async fn advance(&self, by: Duration) {
        settle().await;
        let end = self.now() + by;
        loop {
            let woken = {
                let mut world = self.lock();
                let now = world.now;
                let due = world.sleepers.values().map(|(at, _)| *at).filter(|at| *at > now).min();
                world.now = due.map_or(end, |due| due.min(end));
                world.wakers()
            };
            // Outside of the lock: a waker may be the last thing that holds a task, and the task a sleep.
            woken.into_iter().for_each(Waker::wake);
            settle().await;
            if self.now() >= end {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn settle() {
    for _ in 0..YIELDS {
        tokio::task::yield_now().await;
    }
}

impl World {
    fn wakers(&self) -> Vec<Waker> {
        self.sleepers.values().map(|(_, waker)| waker.clone()).collect()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("now", &self.now).field("sleepers", &self.sleepers.len()).finish_non_exhaustive()
    }
}

/// One process in the world of a [`ManualClock`], as the store sees its surroundings.
///
/// Background tasks are tokio's. Processes of one host see whether the others live; of other hosts nothing
/// is known.
#[derive(Debug)]
pub struct ManualRuntime {
    clock: ManualClock,
    random: Mutex<StdRng>,
    process: Process,
}

impl ManualRuntime {
    /// A process on a host. The same seed gives the same random numbers.
    pub fn new(clock: &ManualClock, host: &str, pid: u32, seed: u64) -> Self {
        let random = Mutex::new(StdRng::seed_from_u64(seed));
        Self { clock: clock.clone(), random, process: (host.to_owned(), pid) }
    }

    /// Stops the process, as SIGSTOP does: whatever of it sleeps sleeps on, though its time has come. What a
    /// test itself awaits of it must not be awaited meanwhile.
    pub fn stop(&self) {
        self.clock.lock().stopped.insert(self.process.clone());
    }

    /// Lets a stopped process go on.
    pub fn resume(&self) {
        let woken = {
            let mut world = self.clock.lock();
            world.stopped.remove(&self.process);
            world.wakers()
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Kills the process: it never wakes again, and the others of its host see that it is gone.
    pub fn kill(&self) {
        self.stop();
        self.clock.lock().dead.insert(self.process.clone());
    }
}

impl Runtime for ManualRuntime {
    fn elapsed(&self) -> Duration {
        self.clock.now()
    }

    /// The start of 2026, and on from there.
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600) + self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut world = self.clock.lock();
        world.next += 1;
        let (id, at) = (world.next, world.now + duration);
        drop(world);
        Box::pin(Sleep { clock: self.clock.clone(), id, at, process: self.process.clone() })
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    fn spawn(&self, future: BoxFuture<'static, ()>) -> TaskHandle {
        let handle = tokio::spawn(future).abort_handle();
        TaskHandle::new(move || handle.abort())
    }

    /// At once, where it is awaited.
    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { work() })
    }

    fn identity(&self) -> ProcessIdentity {
        let (host, pid) = self.process.clone();
        ProcessIdentity {
            boot_id: Some(format!("boot of {host}")),
            pid_namespace: Some("pid:[1]".to_owned()),
            start_ticks: Some(u64::from(pid)),
            host,
            pid,
        }
    }

    fn liveness(&self, other: &ProcessIdentity) -> Liveness {
        if other.boot_id != self.identity().boot_id {
            Liveness::Unknown
        } else if self.clock.lock().dead.contains(&(other.host.clone(), other.pid)) {
            Liveness::Gone
        } else {
            Liveness::Alive
        }
    }
}

struct Sleep {
    clock: ManualClock,
    id: u64,
    at: Duration,
    process: Process,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut world = self.clock.lock();
        if world.now >= self.at && !world.stopped.contains(&self.process) {
            return Poll::Ready(());
        }
        let before = world.sleepers.insert(self.id, (self.at, context.waker().clone()));
        drop(world);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.clock.lock().sleepers.remove(&self.id);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts the seconds in the background.
    fn ticking(runtime: &Arc<ManualRuntime>) -> (Arc<AtomicU64>, TaskHandle) {
        let ticks = Arc::new(AtomicU64::new(0));
        let handle = runtime.spawn(Box::pin({
            let (runtime, ticks) = (runtime.clone(), ticks.clone());
            async move {
                loop {
                    runtime.sleep(SECOND).await;
                    ticks.fetch_add(1, Ordering::SeqCst);
                }
            }
        }));
        (ticks, handle)
    }

    #[tokio::test]
    async fn time_passes_when_it_is_told() {
        let clock = ManualClock::new();
        let runtime = Arc::new(ManualRuntime::new(&clock, "a", 1, 7));
        let (ticks, handle) = ticking(&runtime);
        clock.advance(SECOND * 10).await;
        assert_eq!(ticks.load(Ordering::SeqCst), 10, "each waking at its own time");
        assert_eq!(runtime.elapsed(), SECOND * 10);
        drop(handle);
        clock.advance(SECOND * 10).await;
        assert_eq!(ticks.load(Ordering::SeqCst), 10, "a dropped task has ended");
        assert!(clock.lock().sleepers.is_empty());
    }

    #[tokio::test]
    async fn a_stopped_process_sleeps_on() {
        let clock = ManualClock::new();
        let (one, other) = (ManualRuntime::new(&clock, "a", 1, 7), ManualRuntime::new(&clock, "a", 2, 7));
        let one = Arc::new(one);
        let (ticks, _handle) = ticking(&one);
        one.stop();
        clock.advance(SECOND * 10).await;
        assert_eq!(ticks.load(Ordering::SeqCst), 0);
        assert_eq!(other.liveness(&one.identity()), Liveness::Alive, "stopped is not gone");
        one.resume();
        clock.advance(SECOND * 2).await;
        assert_eq!(ticks.load(Ordering::SeqCst), 3, "the one that was due, and two more");
        one.kill();
        clock.advance(SECOND * 2).await;
        assert_eq!(ticks.load(Ordering::SeqCst), 3);
        assert_eq!(other.liveness(&one.identity()), Liveness::Gone);
        let elsewhere = ManualRuntime::new(&clock, "b", 1, 7);
        assert_eq!(elsewhere.liveness(&one.identity()), Liveness::Unknown);
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed| ManualRuntime::new(&ManualClock::new(), "a", 1, seed).random();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
