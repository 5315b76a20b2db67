//! The demo's job: this program, started as a process group of its own, so that all of it can be killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::process::{Child, Command};

use super::input::ID_COLUMN;
use crate::exit::Exit;
use crate::failure::{Failure, Result, one_line};

/// A transform that any shell can run: it gives every row back, and takes its time.
const SLOW_COPY: &str = r#"n=0; while IFS= read -r row; do
  n=$((n + 1)); [ $((n % 25)) -ne 0 ] || sleep 0.1
  printf '%s\n' "$row"
done"#;

/// How to start the job.
#[derive(Debug)]
pub(super) struct Job {
    program: PathBuf,
    dir: PathBuf,
}

/// What the demo shows of a finished run.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) skipped_rows: u64,
    pub(super) processed_rows: u64,
    pub(super) seconds: f64,
}

impl Job {
    /// The job in a directory that has its input.
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(Exit::Storage, format!("this program cannot be found: {error}")))?;
        Ok(Self { program, dir: dir.to_owned() })
    }

    /// The command as people would write it.
    pub(super) fn shown(&self) -> String {
        format!("ckpt run --input input --job-dir . --id-column {ID_COLUMN} --rows-per-task 100 --exec '...'")
    }

    /// Starts it, the output of the program in pipes.
    pub(super) fn start(&self) -> Result<Running> {
        let child = Command::new(&self.program)
            .current_dir(&self.dir)
            .args(["--quiet", "run", "--json", "--input", "input", "--job-dir", "."])
            .args(["--id-column", ID_COLUMN, "--rows-per-task", "100", "--batch-size", "50", "--workers", "2"])
            .args(["--exec-format", "jsonl", "--exec", SLOW_COPY])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let program = self.program.display();
                Failure::new(Exit::Storage, format!("the job cannot be started: {error}: program={program}"))
            })?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Running { child: Some(child), group })
    }

    /// Runs it to its end.
    pub(super) async fn finish(&self) -> Result<Report> {
        self.start()?.report().await
    }
}

/// The job at work. Dropped, it is killed with all its workers.
#[derive(Debug)]
pub(super) struct Running {
    child: Option<Child>,
    group: Option<Pid>,
}

impl Running {
    /// Kills the program and its workers with SIGKILL, at once, and answers how it had ended already, if
    /// it had.
    pub(super) async fn kill(mut self) -> Result<Option<Failure>> {
        let Some(child) = self.child.as_mut() else { return Ok(None) };
        let ended = child.try_wait().map_err(|error| lost(&error))?;
        self.kill_group();
        let Some(child) = self.child.take() else { return Ok(None) };
        let output = child.wait_with_output().await.map_err(|error| lost(&error))?;
        self.group = None;
        Ok(ended.map(|status| {
            let said = one_line(&String::from_utf8_lossy(&output.stderr));
            Failure::new(Exit::No, format!("the job ended before it could be killed: {status} {said}"))
                .with_hint("run the demo again")
        }))
    }

    /// Waits for its end and reads what it printed.
    async fn report(mut self) -> Result<Report> {
        let Some(child) = self.child.take() else {
            return Err(Failure::new(Exit::No, "the job has ended already"));
        };
        let output = child.wait_with_output().await.map_err(|error| lost(&error))?;
        self.group = None;
        if !output.status.success() {
            let said = one_line(&String::from_utf8_lossy(&output.stderr));
            return Err(Failure::new(Exit::No, format!("the job failed: {} {said}", output.status)));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|e| Failure::new(Exit::No, "the job's report cannot be read").with_causes(&e))
    }

    fn kill_group(&self) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "the job's processes have gone already");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
    }
}

fn lost(error: &std::io::Error) -> Failure {
    Failure::new(Exit::Storage, format!("the job was lost sight of: {error}"))
}
