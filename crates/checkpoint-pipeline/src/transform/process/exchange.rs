//! One batch to a worker and its answer back, written and read at the same time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::chunk_writer::ChunkWriter;
use super::json_answer::BadAnswer;
use super::json_lines::Lines;
use super::output_schema::OutputSchema;
use super::process_tree::{Waiting, waits_for_input};
use super::watch::Watch;
use super::worker::{Output, Worker};
use super::{arrow_stream, json_answer, json_lines};
use crate::error::Error;
use crate::transform::{Batch, TransformError};

/// How batches travel to a child process and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExecFormat {
    /// For each batch one complete Arrow IPC stream, whose schema metadata has `ckpt.idempotency_key`;
    /// the answer is one complete stream with any number of batches and rows. `cat` is the identity.
    Arrow,
    /// For each row one line: an object of its columns and `_ckpt`, which has `idempotency_key`, `row` and
    /// `rows`. The answer is one line for each, in order: an object, an array of objects, or `null` to drop
    /// the row. `cat` is the identity.
    JsonLines,
}

impl ExecFormat {
    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            ExecFormat::Arrow => "arrow",
            ExecFormat::JsonLines => "jsonl",
        }
    }

    /// Reads a name: `arrow`, or `jsonl` (`json`, `ndjson`).
    ///
    /// # Errors
    /// `InvalidConfig` that lists the names.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            "arrow" | "ipc" => Ok(ExecFormat::Arrow),
            "jsonl" | "json" | "ndjson" => Ok(ExecFormat::JsonLines),
            _ => Err(Error::invalid_config(format!("unknown exec format: format={name}"))
                .with_hint("known formats: arrow, jsonl")),
        }
    }
}

impl std::fmt::Display for ExecFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why an answer was not read whole.
#[derive(Debug)]
pub(super) enum Early {
    /// The output ended.
    Ended {
        /// Whether any of the answer had come.
        any: bool,
        /// How far it had come.
        progress: String,
    },
    /// It wrote what is no answer.
    Broken(String),
    /// The batch has no form in which it could be sent.
    Unsendable(TransformError),
}

impl From<io::Error> for Early {
    fn from(error: io::Error) -> Self {
        Early::Broken(format!("has an output that cannot be read: {error}"))
    }
}

/// How a batch ended that was not answered.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The batch failed.
    Failed(TransformError),
    /// The worker had ended well after an earlier batch, before it took this one.
    Retired,
}

/// An answer as it was read.
enum Raw {
    Arrow(Vec<Vec<u8>>),
    Lines(Lines),
}

/// Everything that workers of one pool share.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) format: ExecFormat,
    pub(super) output: OutputSchema,
    /// Children of this command keep their answers until their input ends.
    ends_each_batch: AtomicBool,
}

/// How long a child may leave input unread after it has answered, and live on after its input ended.
const GRACE: Duration = Duration::from_secs(10);

impl Exchange {
    pub(super) fn new(format: ExecFormat) -> Self {
        Self { format, output: OutputSchema::default(), ends_each_batch: AtomicBool::new(false) }
    }

    /// Gives a batch to a worker. The worker comes back when it can take another.
    pub(super) async fn run(
        &self,
        mut worker: Worker,
        batch: &Batch,
    ) -> Result<(Vec<RecordBatch>, Option<Worker>), Unanswered> {
        let Some(stdin) = worker.stdin.take() else { return Err(Unanswered::Retired) };
        let (chunks, received) = mpsc::channel(4);
        let (format, sent) = (self.format, batch.clone());
        let encoder = tokio::task::spawn_blocking(move || encode(format, &sent, ChunkWriter::new(chunks)));
        let at_end = self.ends_each_batch.load(Ordering::Relaxed);
        let process = worker.process();
        let bytes_read = worker.bytes_read();
        let end = converse(
            write(stdin, received, encoder, at_end),
            read(self.format, batch.records.num_rows(), &mut worker.stdout),
            process,
            &bytes_read,
        )
        .await;
        let raw = match end.answer {
            Ok(raw) => raw,
            Err(early) => return Err(early_end(worker, early).await),
        };
        let open = match end.written {
            Some(Ok(open)) => open,
            // It answered and went without reading the last of its input.
            Some(Err(_)) => None,
            None => {
                let what = "answered without reading its input".to_owned();
                return Err(Unanswered::Failed(worker.fail(what, None).await));
            }
        };
        let lives = open.is_some();
        worker.stdin = open;
        worker.answered += 1;
        if end.held_back {
            self.end_each_batch();
        }
        ends_well(&mut worker, &raw, batch, lives).await.map_err(Unanswered::Failed)?;
        match self.decode(raw, batch).await {
            Ok(batches) if lives => Ok((batches, Some(worker))),
            Ok(batches) => {
                worker.close(GRACE).await;
                Ok((batches, None))
            }
            Err(bad) => Err(Unanswered::Failed(worker.fail(bad.what, bad.hint).await)),
        }
    }

    fn end_each_batch(&self) {
        if !self.ends_each_batch.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the command keeps its answers back until its input ends, so it is started anew for each batch; \
                 make it flush each line (jq --unbuffered, sed -u, stdbuf -oL) to keep it running"
            );
        }
    }

    async fn decode(&self, raw: Raw, batch: &Batch) -> Result<Vec<RecordBatch>, BadAnswer> {
        match raw {
            Raw::Arrow(messages) => {
                let decoded = tokio::task::spawn_blocking(move || arrow_stream::decode(messages)).await;
                let why = match decoded {
                    Ok(Ok(batches)) => return Ok(batches),
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                Err(BadAnswer::new(format!("wrote a damaged Arrow IPC stream: {why}")))
            }
            Raw::Lines(lines) => {
                let (batch, output) = (batch.clone(), self.output.clone());
                tokio::task::spawn_blocking(move || json_answer::decode(&lines, &batch, &output))
                    .await
                    .unwrap_or_else(|error| Err(BadAnswer::new(format!("gave an answer that cannot be read: {error}"))))
            }
        }
    }
}

/// Sees to it that nothing follows a whole answer, and that an unfinished last line was the child's last.
async fn ends_well(worker: &mut Worker, raw: &Raw, batch: &Batch, lives: bool) -> Result<(), TransformError> {
    let unterminated = matches!(raw, Raw::Lines(lines) if lines.unterminated);
    let mut more = !worker.stdout.buffer().is_empty();
    if !more && !lives && !unterminated {
        let rest = tokio::time::timeout(GRACE, worker.stdout.fill_buf()).await;
        more = rest.is_ok_and(|rest| rest.is_ok_and(|rest| !rest.is_empty()));
    }
    if more {
        // A line that does not belong there is the likely cause, and says more.
        if let Raw::Lines(lines) = raw
            && let Err(bad) = json_answer::parse(lines, batch)
        {
            return Err(worker.fail(bad.what, bad.hint).await);
        }
        return Err(worker.said_too_much().await);
    }
    if unterminated {
        let status = worker.ended().await;
        if !status.is_some_and(|status| status.success()) {
            return Err(worker.fail_ended(status, "in the middle of a line").await);
        }
    }
    Ok(())
}

fn encode(format: ExecFormat, batch: &Batch, out: ChunkWriter) -> Result<(), TransformError> {
    match format {
        ExecFormat::Arrow => arrow_stream::encode(batch, out),
        ExecFormat::JsonLines => json_lines::encode(batch, out),
    }
}

/// The input of a child after it was written: open, or at its end; or closed by the child.
type Written = io::Result<Option<ChildStdin>>;

/// Writes what the encoder gives, and gives the pipe back unless the input is to end here.
///
/// # Errors
/// The encoder's own.
async fn write(
    mut stdin: ChildStdin,
    mut chunks: mpsc::Receiver<Bytes>,
    encoder: JoinHandle<Result<(), TransformError>>,
    end: bool,
) -> Result<Written, TransformError> {
    while let Some(chunk) = chunks.recv().await {
        if let Err(error) = stdin.write_all(&chunk).await {
            return Ok(Err(error));
        }
    }
    encoder.await.unwrap_or_else(|e| Err(TransformError::new(format!("a batch could not be sent: {e}"))))?;
    Ok(match stdin.flush().await {
        Ok(()) => Ok((!end).then_some(stdin)),
        Err(error) => Err(error),
    })
}

async fn read(format: ExecFormat, rows: usize, stdout: &mut Output) -> Result<Raw, Early> {
    match format {
        ExecFormat::Arrow => arrow_stream::read(stdout).await.map(Raw::Arrow),
        ExecFormat::JsonLines => json_lines::read(stdout, rows).await.map(Raw::Lines),
    }
}

/// The end of a conversation.
struct End {
    answer: Result<Raw, Early>,
    /// `None` when the input was never read to its end.
    written: Option<Written>,
    /// The answer came only when the input ended.
    held_back: bool,
}

/// Writes and reads until the answer is there or cannot come any more.
///
/// A child that has read all its input, owes an answer and waits for more input will not answer while the
/// input stays open: it buffers, or it has skipped a row. Ending its input makes it say what it has to say.
async fn converse(
    write: impl Future<Output = Result<Written, TransformError>>,
    read: impl Future<Output = Result<Raw, Early>>,
    process: Option<u32>,
    bytes_read: &AtomicU64,
) -> End {
    tokio::pin!(write, read);
    let mut written = None;
    let mut ended_at = None;
    let mut watch = Watch::default();
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut read => break answer,
            end = &mut write, if written.is_none() => match end {
                Ok(end) => written = Some(end),
                Err(error) => break Err(Early::Unsendable(error)),
            },
            () = tokio::time::sleep(watch.pause()), if matches!(written, Some(Ok(Some(_)))) => {
                let waiting = match process {
                    Some(process) => tokio::task::spawn_blocking(move || waits_for_input(process)).await,
                    None => Ok(Waiting::No),
                };
                let waiting = waiting.unwrap_or(Waiting::No);
                let bytes = bytes_read.load(Ordering::Relaxed);
                if watch.look(waiting, bytes) {
                    written = Some(Ok(None));
                    ended_at = (waiting == Waiting::Surely).then_some(bytes);
                }
            }
        }
    };
    if answer.is_ok() && written.is_none() {
        written = tokio::time::timeout(GRACE, &mut write).await.ok().and_then(Result::ok);
    }
    let held_back = answer.is_ok() && ended_at.is_some_and(|bytes| bytes_read.load(Ordering::Relaxed) > bytes);
    End { answer, written, held_back }
}

async fn early_end(mut worker: Worker, early: Early) -> Unanswered {
    match early {
        Early::Ended { any, progress } => {
            let status = worker.ended().await;
            if !any && worker.answered > 0 && status.is_some_and(|status| status.success()) {
                return Unanswered::Retired;
            }
            Unanswered::Failed(worker.fail_ended(status, &progress).await)
        }
        Early::Broken(what) => Unanswered::Failed(worker.fail(what, None).await),
        Early::Unsendable(error) => Unanswered::Failed(error),
    }
}
