//! A job: its directories, and the commands over them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::orders::Orders;
use crate::place::Place;
use crate::rows::Rows;
use crate::running::{Ended, Running};

/// A job in a place, run by a program.
#[derive(Debug)]
pub struct Job<'a> {
    /// Where it lives.
    pub place: &'a Place,
    /// Its directory; `output` and `checkpoint` are in it.
    pub name: String,
    /// The rows of its input.
    pub rows: Rows,
    /// Whether it keeps its checkpoint at the end.
    pub keep: bool,
    /// Batches at a time.
    pub workers: usize,
    /// Rows of a task.
    pub task_rows: u64,
    /// The program that runs a pipeline, and the number of small records above which its runs merge them at their
    /// start; `None` runs `ckpt`.
    pub merging: Option<(&'static str, u64)>,
    /// The pause on each side of each effect of its runs.
    pub delay: Duration,
    /// More arguments of its runs.
    pub extra: Vec<String>,
    program: &'static str,
    input: String,
}

impl<'a> Job<'a> {
    /// A job over the input directory `input`; `program` is the path of `ckpt-under-test`.
    pub fn new(program: &'static str, place: &'a Place, name: impl Into<String>, input: &str, rows: Rows) -> Self {
        Self {
            place,
            name: name.into(),
            rows,
            keep: false,
            workers: 2,
            task_rows: 20,
            merging: None,
            delay: Duration::ZERO,
            extra: Vec::new(),
            program,
            input: input.to_owned(),
        }
    }

    /// A path below its output.
    pub fn output(&self, file: &str) -> String {
        format!("{}/output/{file}", self.name)
    }

    /// A path below its checkpoint.
    pub fn checkpoint(&self, file: &str) -> String {
        format!("{}/checkpoint/{file}", self.name)
    }

    /// The URLs of its input, output and checkpoint.
    pub fn urls(&self) -> [String; 3] {
        let dir = |name| self.place.url(&format!("{}/{name}", self.name));
        [self.place.url(&self.input), dir("output"), dir("checkpoint")]
    }

    /// Starts a run, with a trace and a strike, if any.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, strike: Option<crate::Strike>) -> Result<Running> {
        let [input, output, checkpoint] = self.urls();
        let (workers, task_rows) = (self.workers.to_string(), self.task_rows.to_string());
        if let Some((program, above)) = self.merging {
            let settings = [
                format!("compact-above={above}"),
                format!("workers={workers}"),
                format!("rows-per-task={task_rows}"),
                format!("keep={}", self.keep),
            ];
            let args: Vec<String> = [input, output, checkpoint].into_iter().chain(settings).collect();
            return self.start_program(program, &args, strike);
        }
        let mut args: Vec<String> =
            ["run", "--input", &input, "--output", &output, "--checkpoint", &checkpoint].map(str::to_owned).to_vec();
        args.extend(["--id-column", "id", "--batch-size", "10"].map(str::to_owned));
        args.extend(["--rows-per-task".to_owned(), task_rows, "--workers".to_owned(), workers]);
        if self.keep {
            args.push("--keep-checkpoint".to_owned());
        }
        args.extend(self.extra.iter().cloned());
        self.start_program(self.program, &args, strike)
    }

    /// Starts `ckpt compact`, with a trace and a strike, if any.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_compact(&self, strike: Option<crate::Strike>) -> Result<Running> {
        let [_, _, checkpoint] = self.urls();
        self.start_program(self.program, &["compact".to_owned(), checkpoint], strike)
    }

    /// Starts any program, with the orders of this job's runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_program(&self, program: &str, args: &[String], strike: Option<crate::Strike>) -> Result<Running> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let stem = self.place.scratch(&format!("run-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let trace: PathBuf = stem.with_extension("trace");
        let orders = Orders { trace: Some(trace.clone()), delay: self.delay, strike };
        let mut command = Command::new(program);
        command.args(args).envs(orders.variables()).envs(self.place.variables().iter().cloned());
        Running::start(command, &stem, trace)
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it does not end.
    pub fn run(&self) -> Result<Ended> {
        self.start(None)?.wait()
    }

    /// Runs `ckpt verify` and answers its exit code and what it said.
    ///
    /// # Errors
    /// When it does not end, or with neither yes nor no.
    pub fn verify(&self) -> Result<(bool, String)> {
        let [_, output, checkpoint] = self.urls();
        let args = ["verify", &checkpoint, "--output", &output].map(str::to_owned);
        let ended = self.start_program(self.program, &args, None)?.wait()?;
        match ended.status.code() {
            Some(0) => Ok((true, ended.stdout)),
            Some(1) => Ok((false, ended.stdout)),
            _ => anyhow::bail!("verify ended with {}: {}", ended.status, ended.stderr),
        }
    }
}
