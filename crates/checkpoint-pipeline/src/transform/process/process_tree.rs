//! The processes below a child, as Linux shows them under `/proc`.
//!
//! A child is started by a shell, which may have started others. They share our process group, so that a
//! kill of the whole group takes them too; to kill one worker alone, its tree must be walked.

use rustix::process::{Pid, Signal, kill_process};

/// Kills a process and all that it started, as far as they can be seen. Each is stopped before its children
/// are looked for, so that none slips away by starting another.
pub(super) fn kill_tree(root: u32) {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        signal(parent, Signal::STOP);
        found.extend(children(parent));
        next += 1;
    }
    for process in found.into_iter().rev() {
        signal(process, Signal::KILL);
    }
}

/// What a process that owes us output is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Something else than waiting for input, or the system does not tell.
    No,
    /// It waits for input; threads besides the one that does wait for each other, as far as can be seen.
    Likely,
    /// It waits for input, and nothing else runs.
    Surely,
}

/// Whether a process and all that it started wait for input on their standard input, or for each other.
/// What they owe us then lies in a buffer or will never come, and the end of the input brings it out.
pub(super) fn waits_for_input(root: u32) -> Waiting {
    let mut found = vec![root];
    let mut next = 0;
    let mut reads = false;
    let mut threads = false;
    while let Some(&process) = found.get(next) {
        let Some(tasks) = tasks(process) else { return Waiting::No };
        threads |= tasks.len() > 1;
        for (i, task) in tasks.iter().enumerate() {
            match task {
                Activity::ReadsInput => reads = true,
                Activity::WaitsForChildren => {}
                Activity::WaitsForThread if i > 0 => {}
                Activity::WaitsForThread | Activity::Other => return Waiting::No,
            }
        }
        found.extend(children(process));
        next += 1;
    }
    match (reads, threads) {
        (false, _) => Waiting::No,
        (true, true) => Waiting::Likely,
        (true, false) => Waiting::Surely,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Activity {
    ReadsInput,
    WaitsForChildren,
    WaitsForThread,
    Other,
}

/// Numbers of the system calls `read`, `wait4`, `waitid` and `futex`.
#[cfg(target_arch = "x86_64")]
const CALLS: Option<[u64; 4]> = Some([0, 61, 247, 202]);
#[cfg(target_arch = "aarch64")]
const CALLS: Option<[u64; 4]> = Some([63, 260, 95, 98]);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: Option<[u64; 4]> = None;

/// What the threads of a process are doing, its first thread first; none when it has ended. `None` where the
/// system does not tell.
fn tasks(process: u32) -> Option<Vec<Activity>> {
    let calls = CALLS?;
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Some(Vec::new()) };
    let mut threads: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable_by_key(|thread| (*thread != process, *thread));
    let mut activities = Vec::with_capacity(threads.len());
    for thread in threads {
        match std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")) {
            Ok(call) => activities.push(activity(&call, calls)),
            Err(_) if parent_and_state(thread).is_none_or(|(_, state)| state == 'Z') => {}
            Err(_) => return None,
        }
    }
    Some(activities)
}

fn activity(call: &str, [read, wait4, waitid, futex]: [u64; 4]) -> Activity {
    let mut words = call.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse::<u64>().ok());
    match (number, words.next()) {
        (Some(n), Some("0x0")) if n == read => Activity::ReadsInput,
        (Some(n), _) if n == wait4 || n == waitid => Activity::WaitsForChildren,
        (Some(n), _) if n == futex => Activity::WaitsForThread,
        _ => Activity::Other,
    }
}

fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|process| parent_and_state(*process).is_some_and(|(of, _)| of == parent)).collect()
}

fn parent_and_state(process: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before the last `)` may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}

fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // Gone already is as good.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    fn start(command: &str) -> Child {
        Command::new("sh").arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts")
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..500 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(holds(), "never {what}");
    }

    #[test]
    fn a_whole_tree_is_killed() {
        let mut child = start("sleep 1000 & (sleep 1000; true); true");
        until("two children", || children(child.id()).len() == 2);
        let mut below = children(child.id());
        until("a grandchild", || {
            below = children(child.id()).into_iter().flat_map(|c| [vec![c], children(c)].concat()).collect();
            below.len() == 3
        });
        kill_tree(child.id());
        child.wait().expect("ends");
        until("all gone", || below.iter().all(|p| parent_and_state(*p).is_none_or(|(_, state)| state == 'Z')));
    }

    #[test]
    fn processes_that_wait_for_input_are_told_from_busy_ones() {
        let threads = |work: &str| {
            format!(
                "exec python3 -c '\nimport sys, threading, time\n\
                 threading.Thread(target=lambda: {work}, daemon=True).start()\nsys.stdin.read()\n'"
            )
        };
        for (command, waits) in [
            ("exec cat".to_owned(), Waiting::Surely),
            ("cat | cat; true".to_owned(), Waiting::Surely),
            (threads("threading.Event().wait()"), Waiting::Likely),
            ("exec sleep 1000".to_owned(), Waiting::No),
            ("cat | sleep 1000; true".to_owned(), Waiting::No),
            (threads("time.sleep(1000)"), Waiting::No),
        ] {
            let mut child = start(&command);
            if waits == Waiting::No {
                // Python reads files before it does what it is here for.
                std::thread::sleep(Duration::from_millis(300));
                for _ in 0..20 {
                    assert_eq!(waits_for_input(child.id()), Waiting::No, "{command}");
                    std::thread::sleep(Duration::from_millis(10));
                }
            } else {
                until(&command, || waits_for_input(child.id()) == waits);
            }
            kill_tree(child.id());
            child.wait().expect("ends");
        }
    }

    #[test]
    fn a_blocked_writer_is_not_waiting_for_input() {
        let mut child = start("exec cat");
        let mut stdin = child.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || drop(stdin.write_all(&vec![b'x'; 1 << 20])));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(waits_for_input(child.id()), Waiting::No);
        kill_tree(child.id());
        child.wait().expect("ends");
        writer.join().expect("ends");
    }
}
