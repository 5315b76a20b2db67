//! What a process and all that it started use: memory and processor time, as the kernel counts them.

use std::collections::BTreeMap;
use std::fs;

/// Clock ticks of a second in `/proc`, on every Linux.
const TICKS: f64 = 100.0;

/// What a tree of processes uses at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Use {
    /// Bytes in memory; those that several processes share count once.
    pub(crate) bytes: u64,
    /// Seconds computed so far, by those that still run and those that were waited for.
    pub(crate) cpu_seconds: f64,
    /// How many processes there are.
    pub(crate) processes: usize,
    /// Of the memory, what only the process itself has.
    pub(crate) own_bytes: u64,
    /// Of the memory, what lies in segments and files of memory that processes share: Ray's object store.
    pub(crate) shared_bytes: u64,
}

impl Use {
    /// The larger of each of two.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            cpu_seconds: self.cpu_seconds.max(other.cpu_seconds),
            processes: self.processes.max(other.processes),
            own_bytes: self.own_bytes.max(other.own_bytes),
            shared_bytes: self.shared_bytes.max(other.shared_bytes),
        }
    }
}

/// What the process with this ID, and its descendants, use now.
pub(crate) fn usage(root: u32) -> Use {
    let mut stats = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some(stat) = Stat::read(pid)
        {
            stats.insert(pid, stat);
        }
    }
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    let mut sum = Use::default();
    for pid in tree {
        let Some(stat) = stats.get(&pid) else { continue };
        sum.processes += 1;
        sum.cpu_seconds += stat.ticks as f64 / TICKS;
        let Some(memory) = Memory::of(pid) else { continue };
        sum.bytes += memory.share;
        sum.shared_bytes += memory.shared;
        if pid == root {
            sum.own_bytes = memory.share.saturating_sub(memory.shared);
        }
    }
    sum
}

/// Seconds that the children of this process computed that it has waited for, and theirs.
pub(crate) fn waited_seconds() -> f64 {
    Stat::read(std::process::id()).map_or(0.0, |stat| stat.waited as f64 / TICKS)
}

/// The most that one process had in memory since [`forget_peak`], and what it has now.
pub(crate) fn peak_and_now(pid: u32) -> Option<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((kilobytes(&status, "VmHWM:")?, kilobytes(&status, "VmRSS:")?))
}

/// Lets the peak of a process begin anew.
pub(crate) fn forget_peak(pid: u32) {
    // Where this may not be written the peak is that of the whole life, which only harms the process itself.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// Ends a process of this program's own.
pub(crate) fn end(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // One that has ended needs no end.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// What a process has in memory; what several share, by its share.
struct Memory {
    share: u64,
    shared: u64,
}

impl Memory {
    fn of(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        Some(Self { share: kilobytes(&text, "Pss:")?, shared: kilobytes(&text, "Pss_Shmem:").unwrap_or(0) })
    }
}

fn kilobytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

struct Stat {
    parent: u32,
    /// User and system time, of itself and of its children that were waited for.
    ticks: u64,
    /// That of the children alone.
    waited: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let (own, waited) = (number(11)? + number(12)?, number(13)? + number(14)?);
        Some(Self { parent: u32::try_from(number(1)?).ok()?, ticks: own + waited, waited })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let pid = std::process::id();
        let used = usage(pid);
        assert!(used.bytes > 1 << 20 && used.processes >= 1, "{used:?}");
        assert!(used.own_bytes > 1 << 20 && used.own_bytes + used.shared_bytes <= used.bytes, "{used:?}");
        let (peak, now) = peak_and_now(pid).unwrap();
        assert!(peak >= now, "{peak} {now}");
    }
}
