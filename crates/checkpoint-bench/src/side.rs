//! One side of a comparison: a process that is started, watched, and asked what it found.
//!
//! A side says how far it is by a line of JSON with a `mark`, and waits for an empty line before it goes on, so that
//! what lies between two marks is measured and nothing else.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::clock::Stopwatch;
use crate::found::Found;
use crate::process_tree::{self, Use};

/// Time that a side has. One that takes longer hangs, or is not worth the wait.
const LIMIT: f64 = 3600.0;

/// A side that is about to start.
#[derive(Debug)]
pub(crate) struct Side {
    name: String,
    command: Command,
    errors: PathBuf,
}

/// A mark that a side set.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) name: String,
    /// What it found by then.
    pub(crate) found: Found,
    /// Wall seconds since the mark before it, or since the start.
    pub(crate) seconds: f64,
    /// Seconds computed since then, over the whole tree of processes.
    pub(crate) cpu_seconds: f64,
    /// The most memory since then, over what there was then. Of one process as its kernel counted it; of several
    /// what was seen, so it may have been more.
    pub(crate) peak_bytes: u64,
    /// Memory at this mark, over what there was at the first one.
    pub(crate) held_bytes: u64,
    /// The most of each kind of memory that was seen since the mark before, over what there was then.
    pub(crate) peaks: Peaks,
}

/// Kinds of memory of a tree of processes. Each may have been at its most at another moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peaks {
    /// The process that was started.
    pub(crate) first: u64,
    /// Memory that processes share.
    pub(crate) shared: u64,
}

/// A side that came to its end.
#[derive(Debug)]
pub(crate) struct Ended {
    marks: Vec<Mark>,
    /// Its last line that was no mark.
    pub(crate) last_line: String,
    /// From start to end.
    pub(crate) seconds: f64,
    /// Seconds computed from start to end.
    pub(crate) cpu_seconds: f64,
    /// The most memory that was seen.
    pub(crate) peak_bytes: u64,
}

impl Ended {
    /// The mark with this name.
    pub(crate) fn mark(&self, name: &str) -> Result<&Mark> {
        self.marks.iter().find(|mark| mark.name == name).with_context(|| format!("a side set no mark: mark={name}"))
    }

    /// Takes the mark with this name out.
    pub(crate) fn take_mark(&mut self, name: &str) -> Result<Mark> {
        let found = self.marks.iter().position(|mark| mark.name == name);
        found.map(|at| self.marks.remove(at)).with_context(|| format!("a side set no mark: mark={name}"))
    }
}

impl Side {
    /// A side with this name; its errors go to a file in `dir`.
    pub(crate) fn new(name: &str, command: Command, dir: &Path) -> Self {
        Self { name: name.to_owned(), command, errors: dir.join("errors.log") }
    }

    /// Sets variables of its environment.
    pub(crate) fn variables(mut self, variables: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        self.command.envs(variables);
        self
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it fails, with its last words.
    pub(crate) fn run(self) -> Result<Ended> {
        self.run_with(|_| {})
    }

    /// As [`run`](Side::run), with something that is done at each mark while the side waits.
    pub(crate) fn run_with(mut self, mut at_mark: impl FnMut(&str)) -> Result<Ended> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&self.errors)?);
        let (watch, before) = (Stopwatch::start(), process_tree::waited_seconds());
        let mut child = self.command.spawn().with_context(|| format!("a side did not start: side={}", self.name))?;
        let (pid, stdin, stdout) = (child.id(), child.stdin.take(), child.stdout.take());
        let (mut stdin, stdout) = (stdin.context("no standard input")?, stdout.context("no standard output")?);
        let sampler = Sampler::default();
        let watched = thread::scope(|scope| {
            scope.spawn(|| sampler.run(pid));
            let watched = follow(BufReader::new(stdout), &mut stdin, pid, &sampler, &mut at_mark);
            sampler.ended.store(true, Ordering::Release);
            watched
        });
        drop(stdin);
        if watched.is_err() {
            let _ = child.kill();
        }
        let status = child.wait()?;
        let seconds = watch.seconds();
        if !status.success() || watched.is_err() {
            let words = fs::read(&self.errors).unwrap_or_default();
            let words = String::from_utf8_lossy(&words);
            let last: Vec<&str> = words.lines().rev().take(30).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            bail!("a side failed: side={} status={status}\n{}", self.name, last.join("\n"));
        }
        let (marks, last_line) = watched?;
        let cpu_seconds = process_tree::waited_seconds() - before;
        Ok(Ended { marks, last_line, seconds, cpu_seconds, peak_bytes: sampler.whole.load(Ordering::Acquire) })
    }
}

fn follow(
    stdout: impl BufRead,
    stdin: &mut impl Write,
    pid: u32,
    sampler: &Sampler,
    at_mark: &mut impl FnMut(&str),
) -> Result<(Vec<Mark>, String)> {
    let (mut marks, mut last_line) = (Vec::<Mark>::new(), String::new());
    let (mut watch, mut before, mut first) = (Stopwatch::start(), Use::default(), 0);
    let mut before_resident = 0;
    for line in stdout.lines() {
        let line = line?;
        let Some(name) = mark_of(&line) else {
            last_line = line;
            continue;
        };
        let seconds = watch.seconds();
        let now = process_tree::usage(pid);
        let seen = sampler.take().max(now);
        let peak = seen.bytes;
        let (own_peak, resident) = process_tree::peak_and_now(pid).unwrap_or_default();
        let peak_bytes = if now.processes == 1 && before.processes <= 1 {
            own_peak.saturating_sub(before_resident)
        } else {
            peak.saturating_sub(before.bytes)
        };
        if marks.is_empty() {
            first = now.bytes;
        }
        at_mark(&name);
        marks.push(Mark {
            name,
            found: Found::parse(&line)?,
            seconds,
            cpu_seconds: now.cpu_seconds - before.cpu_seconds,
            peak_bytes,
            held_bytes: now.bytes.saturating_sub(first),
            peaks: Peaks {
                first: seen.own_bytes.saturating_sub(before.own_bytes),
                shared: seen.shared_bytes.saturating_sub(before.shared_bytes),
            },
        });
        (before, before_resident) = (now, resident);
        process_tree::forget_peak(pid);
        watch = Stopwatch::start();
        stdin.write_all(b"\n")?;
    }
    Ok((marks, last_line))
}

fn mark_of(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(value.get("mark")?.as_str()?.to_owned())
}

/// Looks again and again at what a tree of processes has in memory.
#[derive(Debug, Default)]
struct Sampler {
    ended: AtomicBool,
    since_mark: Mutex<Use>,
    whole: AtomicU64,
}

impl Sampler {
    fn run(&self, pid: u32) {
        let whole = Stopwatch::start();
        while !self.ended.load(Ordering::Acquire) {
            if whole.seconds() > LIMIT {
                process_tree::end(pid);
                return;
            }
            let watch = Stopwatch::start();
            let now = process_tree::usage(pid);
            self.whole.fetch_max(now.bytes, Ordering::AcqRel);
            let mut seen = self.seen();
            *seen = seen.max(now);
            drop(seen);
            // Looking slows down who is looked at: a twentieth of the time at most.
            thread::sleep(Duration::from_secs_f64((watch.seconds() * 20.0).clamp(0.02, 2.0)));
        }
    }

    fn take(&self) -> Use {
        std::mem::take(&mut *self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, Use> {
        self.since_mark.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
