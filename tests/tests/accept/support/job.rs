//! One job in a directory of its own, run as often as a test likes.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::files::Tree;
use super::program::{self, Ran};

/// A directory with `input`, and room for `output` and `checkpoint`.
#[derive(Debug)]
pub(crate) struct Job {
    dir: TempDir,
    ids: Vec<String>,
}

impl Job {
    /// A job whose IDs are in the column `id`, with an empty input directory.
    pub(crate) fn new() -> Self {
        Self::with_ids(&["--id-column", "id"])
    }

    /// A job that is named by row hashes.
    pub(crate) fn by_row_hash() -> Self {
        Self::with_ids(&["--row-hash"])
    }

    /// A job with these arguments about its IDs.
    pub(crate) fn with_ids(ids: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory is made");
        std::fs::create_dir(dir.path().join("input")).expect("a directory is made");
        Self { dir, ids: ids.iter().map(|&s| s.to_owned()).collect() }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn input(&self) -> PathBuf {
        self.dir.path().join("input")
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.dir.path().join("output")
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.dir.path().join("checkpoint")
    }

    /// The command line of `ckpt run` on the whole input, or of `plan`, ready to start.
    pub(crate) fn command(&self, verb: &str, extra: &[&str]) -> Command {
        let mut command = program::command();
        command.arg(verb).arg("--input").arg(self.input());
        command.arg("--output").arg(self.output()).arg("--checkpoint").arg(self.checkpoint());
        command.args(&self.ids).args(extra);
        command
    }

    /// `ckpt run --json` on the whole input.
    pub(crate) fn run(&self, extra: &[&str]) -> Ran {
        program::run(self.command("run", extra).arg("--json"))
    }

    /// `ckpt run --json` by one worker, in tasks of this many rows, so that what is done is certain.
    pub(crate) fn run_in_tasks(&self, rows: usize, extra: &[&str]) -> Ran {
        let rows = rows.to_string();
        self.run(&[&["--workers", "1", "--batch-size", &rows, "--rows-per-task", &rows], extra].concat())
    }

    /// Commits the first rows in tasks of `task_rows`, and fails after `done` rows.
    #[track_caller]
    pub(crate) fn run_until(&self, done: usize, task_rows: usize, extra: &[&str]) {
        let exec = program::worker(&format!("--fail-after {done}"));
        self.run_in_tasks(task_rows, &[&["--exec", &exec], extra].concat()).exits(1).without_a_crash();
        let committed = self.status().number("committed_rows");
        assert_eq!(committed, done as u64, "the run stopped elsewhere");
    }

    /// Commits `more` rows in tasks of ten, and fails with `done` rows done in all.
    #[track_caller]
    pub(crate) fn run_until_more(&self, more: usize, done: u64) {
        let exec = program::worker(&format!("--fail-after {more}"));
        self.run_in_tasks(10, &["--exec", &exec]).exits(1).without_a_crash();
        assert_eq!(self.status().number("committed_rows"), done, "the run stopped elsewhere");
    }

    /// `ckpt plan --json` on the whole input.
    pub(crate) fn plan(&self, extra: &[&str]) -> Ran {
        program::run(self.command("plan", extra).arg("--json"))
    }

    /// `ckpt status --json`.
    pub(crate) fn status(&self) -> Ran {
        self.on_checkpoint("status", &["--json"]).exits(0)
    }

    /// `ckpt verify --json`.
    pub(crate) fn verify(&self) -> Ran {
        self.on_both("verify", &["--json"])
    }

    /// `ckpt recover --json`.
    pub(crate) fn recover(&self, extra: &[&str]) -> Ran {
        self.on_both("recover", &[&["--json"], extra].concat())
    }

    /// A command on the checkpoint alone.
    pub(crate) fn on_checkpoint(&self, verb: &str, extra: &[&str]) -> Ran {
        program::run(program::command().arg(verb).arg(self.checkpoint()).args(extra))
    }

    /// A command on the checkpoint and the output.
    pub(crate) fn on_both(&self, verb: &str, extra: &[&str]) -> Ran {
        let output = self.output();
        let output = output.to_str().expect("a plain path");
        self.on_checkpoint(verb, &[&["--output", output], extra].concat())
    }

    /// The committed records' names without `.parquet`, sorted.
    pub(crate) fn records(&self) -> Vec<String> {
        let tree = Tree::of(&self.checkpoint());
        let top = tree.files().into_iter().filter(|path| !path.contains('/') && !path.ends_with(".pending.parquet"));
        top.filter_map(|path| path.strip_suffix(".parquet")).map(str::to_owned).collect()
    }

    /// The data files of the output, sorted.
    pub(crate) fn data_files(&self) -> Vec<String> {
        let tree = Tree::of(&self.output());
        tree.files().into_iter().filter(|path| !path.starts_with('_')).map(str::to_owned).collect()
    }
}
