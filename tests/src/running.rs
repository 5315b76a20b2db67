//! A child program in a process group of its own.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::stopwatch::{Stopwatch, wait_until};

/// A child that may still run. Dropping it kills its group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    files: [PathBuf; 2],
    trace: PathBuf,
}

/// How a child ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its trace.
    pub trace: PathBuf,
}

impl Running {
    /// Starts a command, its output in files whose names begin with `stem`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, stem: &Path, trace: PathBuf) -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let file = |end| {
            let mut name = stem.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let files = [file(".out"), file(".err")];
        command.stdin(Stdio::null()).stdout(File::create(&files[0])?).stderr(File::create(&files[1])?);
        let child = command.process_group(0).spawn().with_context(|| format!("{command:?} did not start"))?;
        Ok(Self { child, files, trace })
    }

    /// Its process ID, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The file that it traces its effects to.
    pub fn trace(&self) -> &PathBuf {
        &self.trace
    }

    /// What it has written to standard error so far.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn stderr(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.files[1])?)
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// SIGKILL to its whole group, as a lost machine would.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn kill(mut self) -> Result<Ended> {
        self.signal_group(Signal::KILL);
        self.take_end()
    }

    /// SIGCONT to the process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn go_on(&self) -> Result<()> {
        let pid = self.raw_pid().context("no process ID")?;
        Ok(kill_process(pid, Signal::CONT)?)
    }

    /// Waits until SIGSTOP has stopped it.
    ///
    /// # Errors
    /// When it ends instead, or nothing happens for a minute.
    pub fn wait_stopped(&mut self) -> Result<()> {
        let stat = format!("/proc/{}/stat", self.pid());
        wait_until("the process to stop", || {
            let ended = self.has_ended()?;
            ensure!(!ended, "it ended instead of stopping:\n{}", self.stderr()?);
            let text = fs::read_to_string(&stat)?;
            Ok(text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T')).then_some(()))
        })
    }

    /// Waits for its end, up to two minutes.
    ///
    /// # Errors
    /// When it does not end; it is killed then, and what it said is in the error.
    pub fn wait(mut self) -> Result<Ended> {
        const LIMIT: Duration = Duration::from_secs(120);
        let watch = Stopwatch::start();
        while !self.has_ended()? {
            if watch.elapsed() > LIMIT {
                self.signal_group(Signal::KILL);
                anyhow::bail!("it ran for {} s without an end:\n{}", LIMIT.as_secs(), self.stderr()?);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.take_end()
    }

    fn take_end(&mut self) -> Result<Ended> {
        let status = self.child.wait()?;
        let [stdout, stderr] = &self.files;
        let read = |path: &PathBuf| Ok::<_, std::io::Error>(String::from_utf8_lossy(&fs::read(path)?).into_owned());
        Ok(Ended { status, stdout: read(stdout)?, stderr: read(stderr)?, trace: self.trace.clone() })
    }

    fn raw_pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(pid) = self.raw_pid() {
            // An error means that the whole group has ended.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once waited for, the number may be another's.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal_group(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// Whether SIGKILL ended it.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }

    /// Checks the exit code.
    ///
    /// # Errors
    /// What it was instead, and what the program said.
    pub fn expect(self, code: i32) -> Result<Self> {
        ensure!(
            self.status.code() == Some(code),
            "it ended with {} and should have with {code}:\n{}{}",
            self.status,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }
}
