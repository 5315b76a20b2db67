//! Temporary files: names that say who made them, so that those of dead processes can be recognised.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

const PREFIX: &str = ".ckpt-tmp-";

/// The process that made a temporary file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Maker {
    /// A digest of boot ID, PID namespace and time namespace; 0 where the system does not tell.
    machine: u64,
    pid: u32,
    /// When the process started, in the kernel's ticks since boot; 0 where the system does not tell.
    start: u64,
}

impl Maker {
    /// This process. Looked up once, and again in a forked child.
    pub(super) fn current() -> Self {
        static CURRENT: Mutex<Option<Maker>> = Mutex::new(None);
        let pid = std::process::id();
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        match *current {
            Some(maker) if maker.pid == pid => maker,
            _ => *current.insert(Maker { machine: machine(), pid, start: start_of(pid).unwrap_or(0) }),
        }
    }

    /// Whether the maker ran under this kernel and is gone. Never true on a guess: another machine's,
    /// another container's and a previous boot's processes cannot be looked up from here.
    pub(super) fn is_gone(self) -> bool {
        if self.machine == 0 || self.machine != Self::current().machine {
            return false;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        match test_kill_process(pid) {
            Err(Errno::SRCH) => true,
            // Alive, unless the number has passed to another process since.
            _ => self.start != 0 && start_of(self.pid).is_some_and(|start| start != self.start),
        }
    }

    /// Whether the maker is known to be alive, on this machine.
    pub(super) fn is_alive(self) -> bool {
        self.machine != 0 && self.machine == Self::current().machine && !self.is_gone()
    }
}

fn machine() -> u64 {
    let parts = [
        fs::read_to_string("/proc/sys/kernel/random/boot_id").ok(),
        fs::read_link("/proc/self/ns/pid").ok().map(|p| p.to_string_lossy().into_owned()),
    ];
    let [Some(boot), Some(pids)] = parts else { return 0 };
    // Start times are shifted by the time namespace; kernels without one have no such link.
    let times = fs::read_link("/proc/self/ns/time").map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    digest(&format!("{}|{pids}|{times}", boot.trim()))
}

/// 64-bit FNV-1a: the same in every build, unlike the standard library's hasher.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The 22nd field of `/proc/<pid>/stat`; the second may hold spaces and brackets.
fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A name for a new temporary file of this process.
pub(super) fn new_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    name(Maker::current(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn name(Maker { machine, pid, start }: Maker, number: u64) -> String {
    format!("{PREFIX}{machine:016x}-{pid}-{start}-{number}")
}

/// The maker in a name of exactly the form of [`new_name`]; anything else is somebody's file.
pub(super) fn maker_of(name: &[u8]) -> Option<Maker> {
    let rest = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let mut parts = rest.split('-');
    let machine = parts.next().filter(|m| m.len() == 16).and_then(|m| u64::from_str_radix(m, 16).ok())?;
    let (pid, start) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let _number: u64 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Maker { machine, pid, start })
}

#[cfg(test)]
impl Maker {
    /// A process of this machine that has ended.
    pub(super) fn ended() -> Self {
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        let pid = child.id();
        child.wait().expect("ends");
        Self { pid, ..Self::current() }
    }

    /// This process as another machine would write it.
    pub(super) fn elsewhere() -> Self {
        let me = Self::current();
        Self { machine: me.machine ^ 1, ..me }
    }

    /// A name of a temporary file of this maker.
    pub(super) fn name(self) -> String {
        name(self, 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_tell_their_maker() {
        let (a, b) = (new_name(), new_name());
        assert_ne!(a, b);
        assert_eq!(maker_of(a.as_bytes()), Some(Maker::current()));
        assert_ne!(Maker::current().machine, 0, "Linux tells the boot ID");
        assert_ne!(Maker::current().start, 0);
    }

    #[test]
    fn names_of_others_are_not_ours() {
        for other in [".ckpt-tmp-", ".ckpt-tmp-1-2-3-4", ".ckpt-tmp-0123456789abcdef-1-2-3-4", "a.ckpt-tmp-x", "x"] {
            assert_eq!(maker_of(other.as_bytes()), None, "{other}");
        }
        assert!(maker_of(b".ckpt-tmp-0123456789abcdef-1-2-3").is_some());
        assert_eq!(maker_of(b".ckpt-tmp-0123456789abcdef-1-2-3\xff"), None);
    }

    #[test]
    fn only_the_dead_of_this_machine_are_gone() {
        let me = Maker::current();
        assert!(!me.is_gone() && me.is_alive());
        assert!(Maker::ended().is_gone());
        assert!(Maker { start: me.start + 1, ..me }.is_gone(), "the number passed to another process");
        assert!(!Maker { machine: me.machine ^ 1, ..Maker::ended() }.is_gone(), "another machine");
        assert!(!Maker { machine: 0, ..Maker::ended() }.is_gone(), "an unknown machine");
        assert!(!Maker { pid: 1, start: 0, ..me }.is_gone(), "alive, start unknown");
    }
}
