//! Running the program, and the small inputs that the tests give it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use checkpoint_testkit::handle_hangups;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// A transform in shell that takes about 4 ms a row and gives it back.
pub const SLOW_COPY: &str = r#"n=0; while IFS= read -r row; do
n=$((n + 1)); [ $((n % 25)) -ne 0 ] || sleep 0.1
printf '%s\n' "$row"; done"#;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    fn new(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Checks the code and shows everything when it is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Checks that it failed with one line that has `text`, at least one hint, and nothing on stdout.
    #[track_caller]
    pub fn complains(self, code: i32, text: &str) -> Self {
        let ended = self.exits(code);
        assert_eq!(ended.out, "", "nothing belongs on stdout");
        let (errors, rest): (Vec<&str>, Vec<&str>) = ended.err.lines().partition(|line| line.starts_with("error: "));
        assert_eq!(errors.len(), 1, "one line: {}", ended.err);
        assert!(errors[0].contains(text), "{}", ended.err);
        assert!(!rest.is_empty() && rest.iter().all(|line| line.starts_with("hint: ")), "hints: {}", ended.err);
        ended
    }

    /// Standard output as one JSON object.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one object: {}", self.out);
        serde_json::from_str(&self.out).expect("JSON")
    }
}

/// The program in a directory, with an environment that tells it nothing.
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ckpt"));
    command.current_dir(dir).stdin(Stdio::null());
    for name in ["COLUMNS", "NO_COLOR", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"] {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
pub fn ckpt(dir: &Path, args: &[&str]) -> Ended {
    Ended::new(command(dir).args(args).output().expect("starts"))
}

/// A run in the background, killed when the test ends early.
#[derive(Debug)]
pub struct Background(Option<Child>);

impl Background {
    /// Starts the program.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        handle_hangups();
        let child = command(dir).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self(Some(child.expect("starts")))
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let child = self.0.as_ref().expect("running");
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).expect("signalled");
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("running").id()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        Ended::new(self.0.take().expect("running").wait_with_output().expect("waits"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something holds.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test waits in real time")]
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a Parquet file with the columns `id` and `text`.
pub fn write_rows(path: &Path, ids: Range<i64>) {
    let texts: StringArray = ids.clone().map(|id| Some(format!("text {id}"))).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    let columns: [(&str, ArrayRef); 2] = [("id", ids), ("text", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).expect("columns agree");
    std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
    let file = File::create(path).expect("created");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("opens");
    writer.write(&batch).expect("writes");
    writer.close().expect("closes");
}

/// The IDs in the Parquet files directly in a directory, sorted.
pub fn read_ids(dir: &Path) -> Vec<i64> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            let file = File::open(&path).expect("opens");
            for batch in ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("reads") {
                let batch = batch.expect("batch");
                ids.extend(batch.column_by_name("id").expect("ids").as_primitive::<Int64Type>().values());
            }
        }
    }
    ids.sort_unstable();
    ids
}
