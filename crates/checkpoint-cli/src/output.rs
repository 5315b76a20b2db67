//! Standard output: where results go. A reader that goes away is no error.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Stdout, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Standard output, buffered. Once its reader has gone, writes do nothing and succeed: the command still
/// ends with the code it would have had.
#[derive(Debug)]
pub(crate) struct Output(Mutex<State>);

#[derive(Debug)]
struct State {
    writer: BufWriter<Stdout>,
    closed: bool,
}

impl State {
    fn attempt(&mut self, write: impl FnOnce(&mut BufWriter<Stdout>) -> io::Result<()>) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.writer) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other,
        }
    }
}

impl Output {
    /// The process's standard output.
    pub(crate) fn stdout() -> Self {
        Self(Mutex::new(State { writer: BufWriter::with_capacity(64 << 10, io::stdout()), closed: false }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the reader has gone, so that the rest need not be computed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Whether somebody looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// Writes bytes; they may stay in the buffer.
    ///
    /// # Errors
    /// Any failure but a closed pipe, such as a full disk.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<()> {
        self.state().attempt(|w| w.write_all(bytes)).map_err(|e| cannot_write(&e))
    }

    /// Writes a line that shows at once.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<()> {
        self.bytes(text.as_ref().as_bytes())?;
        self.bytes(b"\n")?;
        self.flush()
    }

    /// Writes one JSON object on a line of its own.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)
            .map_err(|e| Failure::new(Exit::BadData, "the result cannot be written as JSON").with_causes(&e))?;
        self.line(text)
    }

    /// Hands over what is buffered.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(crate) fn flush(&self) -> Result<()> {
        self.state().attempt(Write::flush).map_err(|e| cannot_write(&e))
    }
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::new(Exit::Storage, format!("standard output cannot be written: {error}"))
}

/// For encoders. A closed pipe takes everything, as in [`Output::bytes`].
impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state().attempt(|w| w.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.state().attempt(Write::flush)
    }
}
