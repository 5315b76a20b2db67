//! One task of an attempt: its record is pending, its files are written, and then it is committed or given up.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use checkpoint_fs::{ObjectPath, StorageExt, StorageRef, StorageWriter, WriteOptions};
use checkpoint_store::{CommitOutcome, Error, ErrorKind, PreparedTask, Result};
use futures::TryFutureExt;
use parquet::file::metadata::ParquetMetaDataReader;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

use crate::attempt::Attempt;
use crate::awaitable::start;
use crate::buffer::bytes_of;
use crate::runtime::run;

/// How much of a local file is read and handed on at once.
const PIECE: usize = 8 << 20;

/// The data of a file: bytes, or a file of this machine.
#[derive(Clone)]
pub(crate) enum Source {
    Bytes(Bytes),
    File(PathBuf),
}

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(path) = object.extract::<PathBuf>() {
            return Ok(Self::File(path));
        }
        bytes_of(&object).map(Self::Bytes)
    }
}

impl Source {
    /// Its size in bytes.
    ///
    /// # Errors
    /// `OSError` when the file cannot be looked at.
    pub(crate) fn size(&self) -> PyResult<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.len() as u64),
            Self::File(path) => std::fs::metadata(path)
                .map(|file| file.len())
                .map_err(|e| PyOSError::new_err(format!("a data file cannot be read: {e}: file={}", path.display()))),
        }
    }
}

/// The rows of a Parquet file, as its footer says.
///
/// # Errors
/// `BadData` when it is none; `Storage` when the file cannot be read.
pub(crate) fn parquet_rows(source: &Source) -> Result<u64> {
    let metadata = match source {
        Source::Bytes(bytes) => ParquetMetaDataReader::new().parse_and_finish(bytes),
        Source::File(path) => {
            let file = File::open(path).map_err(|e| {
                let what = format!("a data file cannot be read: {e}: file={}", path.display());
                Error::new(ErrorKind::Storage, what).with_source(e)
            })?;
            ParquetMetaDataReader::new().parse_and_finish(&file)
        }
    };
    let metadata =
        metadata.map_err(|e| Error::bad_data(format!("a data file is not Parquet as its ending says: {e}")))?;
    Ok(u64::try_from(metadata.file_metadata().num_rows()).unwrap_or_default())
}

/// A prepared task.
#[pyclass(module = "checkpoint_store._native", frozen)]
pub(crate) struct Task {
    process: u32,
    name: String,
    state: Mutex<State>,
}

struct State {
    /// None once it is committed or given up.
    prepared: Option<PreparedTask>,
    /// Files that are not written yet.
    files: Vec<(String, Source)>,
}

impl Task {
    pub(crate) fn new(process: u32, name: String, prepared: PreparedTask, files: Vec<(String, Source)>) -> Self {
        Self { process, name, state: Mutex::new(State { prepared: Some(prepared), files }) }
    }

    fn check_process(&self) -> PyResult<()> {
        if self.process == process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("the task belongs to the process that this one is a fork of"))
    }

    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        self.check_process()?;
        Ok(self.locked())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next file that is not written yet.
    fn first(&self) -> Option<(String, Source)> {
        self.locked().files.first().cloned()
    }

    fn forget(&self, file: &str) {
        self.locked().files.retain(|(name, _)| name != file);
    }

    fn take(&self, written: bool) -> PyResult<PreparedTask> {
        let mut state = self.state()?;
        if written && let Some((name, _)) = state.files.first() {
            return Err(PyRuntimeError::new_err(format!("a task is committed when its data is written: file={name}")));
        }
        state.prepared.take().ok_or_else(|| PyRuntimeError::new_err("the task is committed or given up already"))
    }
}

#[pymethods]
impl Task {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The names of the files that are not written yet.
    #[getter]
    fn unwritten(&self) -> PyResult<Vec<String>> {
        Ok(self.state()?.files.iter().map(|(name, _)| name.clone()).collect())
    }

    /// Writes the next file to the output; false when there is none.
    fn write_next(&self, py: Python<'_>, attempt: &Attempt) -> PyResult<bool> {
        let owner = attempt.owner()?;
        self.check_process()?;
        let Some((name, source)) = self.first() else { return Ok(false) };
        run(py, write(owner.output(), &name, source).err_into())?;
        self.forget(&name);
        Ok(true)
    }

    /// Publishes the task.
    fn commit(&self, py: Python<'_>, attempt: &Attempt) -> PyResult<()> {
        let owner = attempt.owner()?;
        run(py, commit(owner, self.take(true)?).err_into())
    }

    /// Gives the task up.
    fn abort(&self, py: Python<'_>, attempt: &Attempt) -> PyResult<()> {
        let owner = attempt.owner()?;
        run(py, owner.abort(self.take(false)?).err_into())
    }

    /// Writes all files to the output that are not written yet.
    fn write_files_async<'py>(this: Py<Self>, py: Python<'py>, attempt: &Attempt) -> PyResult<Bound<'py, PyAny>> {
        let owner = attempt.owner()?;
        this.get().check_process()?;
        start(py, async move {
            let task = this.get();
            while let Some((name, source)) = task.first() {
                write(owner.output(), &name, source).await?;
                task.forget(&name);
            }
            Ok(())
        })
    }

    /// As ``commit``.
    fn commit_async<'py>(&self, py: Python<'py>, attempt: &Attempt) -> PyResult<Bound<'py, PyAny>> {
        let owner = attempt.owner()?;
        start(py, commit(owner, self.take(true)?).err_into())
    }

    /// As ``abort``.
    fn abort_async<'py>(&self, py: Python<'py>, attempt: &Attempt) -> PyResult<Bound<'py, PyAny>> {
        let owner = attempt.owner()?;
        let task = self.take(false)?;
        start(py, async move { Ok(owner.abort(task).await?) })
    }
}

async fn commit(owner: Arc<checkpoint_store::Attempt>, task: PreparedTask) -> Result<()> {
    match owner.commit(task).await? {
        CommitOutcome::Committed => Ok(()),
        CommitOutcome::Conflict(error) | CommitOutcome::Unknown(error) => Err(error),
    }
}

async fn write(output: &StorageRef, name: &str, source: Source) -> Result<()> {
    let path = ObjectPath::parse(name)?;
    let written = match source {
        Source::Bytes(bytes) => output.write(&path, bytes, WriteOptions::new()).await?,
        Source::File(file) => {
            let mut writer = output.writer(&path, WriteOptions::new()).await?;
            match stream(file, writer.as_mut()).await {
                Ok(()) => writer.finish().await?,
                Err(error) => {
                    let _ = writer.abort().await;
                    return Err(error);
                }
            }
        }
    };
    written.into_result(output.url_of(&path))?;
    Ok(())
}

async fn stream(path: PathBuf, writer: &mut dyn StorageWriter) -> Result<()> {
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| {
        Error::new(ErrorKind::Storage, format!("a data file cannot be read: {e}: file={shown}")).with_source(e)
    };
    let mut file: Option<File> = None;
    loop {
        let (path, opened) = (path.clone(), file.take());
        let read = tokio::task::spawn_blocking(move || {
            let mut file = match opened {
                Some(file) => file,
                None => File::open(path)?,
            };
            let mut piece = Vec::with_capacity(PIECE);
            file.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
            Ok((file, piece))
        });
        let (back, piece) = read.await.map_err(std::io::Error::from).flatten().map_err(failed)?;
        if piece.is_empty() {
            return Ok(());
        }
        file = Some(back);
        writer.write(piece.into()).await?;
    }
}
