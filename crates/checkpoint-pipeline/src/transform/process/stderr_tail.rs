//! The last lines of a child's standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// Lines kept.
const LINES: usize = 20;
/// Bytes kept of a line.
const LINE_BYTES: usize = 1000;
/// How long to wait for the last words of a child that has ended: others may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Reads a child's standard error to its end, passes the lines on to the log, and keeps the last ones.
#[derive(Debug)]
pub(super) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl StderrTail {
    pub(super) fn new(worker: usize, mut stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&lines);
        let reader = tokio::spawn(async move {
            let mut cutter = LineCutter::default();
            let mut buffer = vec![0; 8192];
            let mut keep = |line: String| {
                tracing::debug!(worker, line, "standard error");
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == LINES {
                    kept.pop_front();
                }
                kept.push_back(line);
            };
            while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
                cutter.push(&buffer[..n], &mut keep);
            }
            cutter.finish(&mut keep);
        });
        Self { lines, reader }
    }

    /// The last lines, oldest first; all of them when the child has ended and nobody else holds its pipe.
    pub(super) async fn last_lines(&mut self) -> Vec<String> {
        if !self.reader.is_finished() {
            let _ = tokio::time::timeout(LAST_WORDS, &mut self.reader).await;
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Cuts bytes into lines as a terminal shows them: a carriage return starts the line again, as progress
/// bars do. Holds no more than one shortened line.
#[derive(Debug, Default)]
struct LineCutter {
    line: Vec<u8>,
    returned: bool,
}

impl LineCutter {
    fn push(&mut self, bytes: &[u8], keep: &mut impl FnMut(String)) {
        for &byte in bytes {
            match byte {
                b'\n' => self.finish(keep),
                b'\r' => self.returned = true,
                _ => {
                    if std::mem::take(&mut self.returned) {
                        self.line.clear();
                    }
                    if self.line.len() < LINE_BYTES {
                        self.line.push(byte);
                    }
                }
            }
        }
    }

    fn finish(&mut self, keep: &mut impl FnMut(String)) {
        self.returned = false;
        if !self.line.is_empty() {
            keep(String::from_utf8_lossy(&self.line).into_owned());
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_twenty_lines_are_kept_and_long_ones_cut() {
        let mut text: String = (0..30).map(|i| format!("line {i}\n\n")).collect();
        text.push_str(&"x".repeat(5000));
        let mut tail = StderrTail::new(0, std::io::Cursor::new(text.into_bytes()));
        let lines = tail.last_lines().await;
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[0], "line 11");
        assert_eq!(lines[19], "x".repeat(1000));
    }

    #[test]
    fn carriage_returns_start_the_line_again() {
        for step in [1, 3, 100] {
            let mut lines = Vec::new();
            let mut cutter = LineCutter::default();
            for part in b" 1%\r 50%\r100%\r\nwindows\r\n\xff\xfe\nlast".chunks(step) {
                cutter.push(part, &mut |line| lines.push(line));
            }
            cutter.finish(&mut |line| lines.push(line));
            assert_eq!(lines, ["100%", "windows", "\u{fffd}\u{fffd}", "last"]);
        }
    }

    #[tokio::test]
    async fn a_pipe_that_others_hold_open_does_not_hold_up_the_error() {
        let (mut keep_open, read) = tokio::io::duplex(100);
        tokio::io::AsyncWriteExt::write_all(&mut keep_open, b"so far\n").await.expect("writes");
        let mut tail = StderrTail::new(0, read);
        assert_eq!(tail.last_lines().await, ["so far"]);
    }
}
