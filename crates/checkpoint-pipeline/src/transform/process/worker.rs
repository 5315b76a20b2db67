//! One child process: how it is started, how it ended, how it is put an end to.

use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::process_tree::kill_tree;
use super::stderr_tail::StderrTail;
use crate::transform::TransformError;

/// How long a child that has closed its output may take to end.
const ENDING: Duration = Duration::from_secs(2);
/// Bytes of a broken message that an error quotes.
const QUOTED: usize = 200;

/// What is read of a child's standard output.
pub(super) type Output = BufReader<Counted>;

/// A running child. Dropping it kills it and what it started.
#[derive(Debug)]
pub(super) struct Worker {
    id: usize,
    child: Child,
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Output,
    stderr: StderrTail,
    /// Batches answered.
    pub(super) answered: u64,
}

/// Whether a worker that was left alone can go on.
#[derive(Debug)]
pub(super) enum Idle {
    /// It waits for the next batch.
    Ready,
    /// It has ended, and well: it is to be replaced.
    Ended,
    /// It did what it must not do.
    Broken(TransformError),
}

impl Worker {
    /// Starts `sh -c command` in our own process group, with `CKPT_WORKER` and `PYTHONUNBUFFERED` set.
    pub(super) fn start(id: usize, command: &str) -> Result<Self, TransformError> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("CKPT_WORKER", id.to_string());
        if std::env::var_os("PYTHONUNBUFFERED").is_none() {
            shell.env("PYTHONUNBUFFERED", "1");
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let cannot = |why: String| TransformError::new(format!("cannot start a child process: {why}, worker={id}"));
        let mut child = shell.spawn().map_err(|e| {
            cannot(e.to_string()).with_hint("the command is run by `sh -c`, so a shell must be in the PATH")
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(cannot("no pipes".to_owned()));
        };
        tracing::debug!(worker = id, process = child.id(), "child process started");
        let stdout = Counted { inner: stdout, bytes: Arc::default() };
        Ok(Self {
            id,
            child,
            stdin: Some(stdin),
            stdout: BufReader::with_capacity(256 << 10, stdout),
            stderr: StderrTail::new(id, stderr),
            answered: 0,
        })
    }

    /// The process, until it has been seen to end.
    pub(super) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// The number of bytes read from its output, which grows while others hold the output.
    pub(super) fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.stdout.get_ref().bytes)
    }

    /// Looks whether it is still there and has kept quiet since its last answer.
    pub(super) async fn idle(&mut self) -> Idle {
        let (open, quiet) = match self.stdout.fill_buf().now_or_never() {
            Some(Ok(output)) => (!output.is_empty(), output.is_empty()),
            Some(Err(_)) => (false, true),
            None => (true, true),
        };
        if !quiet {
            return Idle::Broken(self.said_too_much().await);
        }
        if open && self.stdin.is_some() && matches!(self.child.try_wait(), Ok(None)) {
            return Idle::Ready;
        }
        match tokio::time::timeout(ENDING, self.child.wait()).await {
            Ok(Ok(status)) if !status.success() => {
                tracing::warn!(worker = self.id, status = %describe(status), "an idle child process ended and is replaced");
            }
            _ => tracing::debug!(worker = self.id, "an idle child process ended and is replaced"),
        }
        Idle::Ended
    }

    /// The error for output beyond the answer.
    pub(super) async fn said_too_much(&mut self) -> TransformError {
        let more = quote(self.stdout.buffer());
        self.fail(format!("wrote more than its answer: output={more}"), None).await
    }

    /// The error for a child that did `what`: with its last words, and it is killed.
    pub(super) async fn fail(&mut self, what: String, hint: Option<&str>) -> TransformError {
        self.kill().await;
        let comma = if what.contains('=') { "" } else { "," };
        let error = TransformError::new(format!("the child process {what}{comma} worker={}", self.id))
            .with_stderr_tail(self.stderr.last_lines().await);
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }

    /// Waits a little for a child that has closed its output to end. `None` when it stays.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        self.stdin = None;
        tokio::time::timeout(ENDING, self.child.wait()).await.ok()?.ok()
    }

    /// The error for a child whose output ended too early, after it had given `progress`.
    pub(super) async fn fail_ended(&mut self, status: Option<ExitStatus>, progress: &str) -> TransformError {
        let hint = match status.and_then(|s| s.code()) {
            Some(127) => Some("check that the program is installed and in the PATH; the command is run by `sh -c`"),
            Some(126) => Some("check that the file is executable; the command is run by `sh -c`"),
            _ if status.is_some_and(|s| signal_of(s) == Some(9)) => {
                Some("SIGKILL often means that the system ran out of memory: use fewer workers or smaller batches")
            }
            _ => None,
        };
        let what = match status {
            Some(status) => format!("{} {progress}", describe(status)),
            None => format!("closed its standard output {progress}"),
        };
        self.fail(what, hint).await
    }

    /// Ends it: closes its input, waits up to `grace`, kills what is left.
    pub(super) async fn close(mut self, grace: Duration) {
        self.stdin = None;
        // A child that still writes must not block for want of a reader.
        let worker = self.id;
        let drain = async {
            let more = tokio::io::copy_buf(&mut self.stdout, &mut tokio::io::sink()).await;
            if let Ok(bytes @ 1..) = more {
                tracing::warn!(worker, bytes, "a child process wrote more after its last answer");
            }
            std::future::pending::<()>().await;
        };
        let status = tokio::select! {
            status = self.child.wait() => status.ok(),
            () = drain => None,
            () = tokio::time::sleep(grace) => None,
        };
        match status {
            Some(status) if status.success() => {}
            Some(status) => {
                let stderr = self.stderr.last_lines().await;
                tracing::warn!(worker = self.id, status = %describe(status), ?stderr, "a child process ended badly");
            }
            None => {
                tracing::warn!(worker = self.id, "a child process did not end with its input and is killed");
                self.kill().await;
            }
        }
    }

    async fn kill(&mut self) {
        if let Some(process) = self.process() {
            kill_tree(process);
            let _ = self.child.wait().await;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(process) = self.process() {
            kill_tree(process);
        }
    }
}

/// A child's standard output, with the number of bytes that came.
#[derive(Debug)]
pub(super) struct Counted {
    inner: ChildStdout,
    bytes: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.bytes.fetch_add((buf.filled().len() - before) as u64, Ordering::Relaxed);
        result
    }
}

/// The start of a message, on one line.
pub(super) fn quote(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(QUOTED)];
    let more = if bytes.len() > QUOTED { "..." } else { "" };
    format!("\"{}{more}\"", String::from_utf8_lossy(cut).escape_debug())
}

fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), signal_of(status)) {
        (Some(127), _) => "could not start: command not found (status 127)".to_owned(),
        (Some(126), _) => "could not start: command is not executable (status 126)".to_owned(),
        (Some(0), _) => "ended".to_owned(),
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => {
            let name = match signal {
                2 => " (SIGINT)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                13 => " (SIGPIPE)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was killed by signal {signal}{name}")
        }
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quote(b"a\n\"b\"\x00\xff"), "\"a\\n\\\"b\\\"\\0\u{fffd}\"");
        assert_eq!(quote(&[b'x'; 300]), format!("\"{}...\"", "x".repeat(200)));
    }
}
