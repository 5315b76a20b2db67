//! Reads: whole objects and ranges, in parallel parts where they are long.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use checkpoint_fs::{Error, ErrorKind, ReadOptions, Result, StorageRef, StorageWriter};
use futures::{StreamExt, TryStreamExt, stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{Failure, Outcome};
use crate::session::{Place, Session};

/// Longer reads are parts of this size, several at once.
const PART: u64 = 8 << 20;
/// Parts of one read at once.
const PARTS: usize = 8;
/// Reads at once, where many are asked for.
const READS: usize = 64;

/// What to read: a path, and the first byte and the one after the last.
pub(crate) type Wanted = (String, Option<u64>, Option<u64>);

/// Bytes that were read, in the parts that they came in.
#[derive(Default)]
pub(crate) struct Body(Vec<Bytes>);

impl Body {
    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// What the writer says.
    pub(crate) async fn write_to(self, writer: &mut Box<dyn StorageWriter>) -> Outcome<()> {
        for part in self.0 {
            writer.write(part).await?;
        }
        Ok(())
    }
}

impl<'py> IntoPyObject<'py> for Body {
    type Target = PyBytes;
    type Output = Bound<'py, PyBytes>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        PyBytes::new_with(py, self.len(), |mut rest| {
            for part in &self.0 {
                let (place, after) = rest.split_at_mut(part.len());
                place.copy_from_slice(part);
                rest = after;
            }
            Ok(())
        })
    }
}

/// One of many reads: bytes, or the exception.
pub(crate) enum Piece {
    Read(Body),
    Failed(Failure),
}

impl<'py> IntoPyObject<'py> for Piece {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        match self {
            Self::Read(body) => Ok(body.into_pyobject(py)?.into_any()),
            Self::Failed(failure) => failure.into_pyobject(py).map_err(|never: Infallible| match never {}),
        }
    }
}

impl Session {
    /// Reads an object, or a range of it. With an entity tag it must still be the object of that.
    pub(crate) async fn read(self: Arc<Self>, (path, start, end): Wanted, etag: Option<String>) -> Outcome<Body> {
        let place = self.place(&path)?;
        let storage = self.storage(&place.root).await?;
        let range = start.unwrap_or(0)..end.unwrap_or(u64::MAX);
        if range.start >= range.end {
            return Ok(Body::default());
        }
        let read = Read { place: &place, storage };
        // A directory's files are replaced as a whole, and keep no tag that tells of it: one call, one version.
        if read.storage.capabilities().directories {
            let range = (start.is_some() || end.is_some()).then_some(range);
            return Ok(Body(vec![read.part(range, etag.as_deref()).await?.0]));
        }
        let first_end = range.end.min(range.start.saturating_add(PART));
        let (first, size, etag) = read.part(Some(range.start..first_end), etag.as_deref()).await?;
        let rest = first_end..range.end.min(size);
        let mut parts = vec![first];
        if rest.start < rest.end {
            parts.extend(read.parts(rest, etag.as_deref()).await?);
        }
        Ok(Body(parts))
    }

    /// Reads many, at the same time. The answers are in the order of the questions.
    pub(crate) async fn read_many(self: Arc<Self>, wanted: Vec<Wanted>) -> Outcome<Vec<Piece>> {
        let reads = wanted.into_iter().map(|wanted| {
            let session = Arc::clone(&self);
            async move {
                match session.read(wanted, None).await {
                    Ok(body) => Piece::Read(body),
                    Err(failure) => Piece::Failed(failure),
                }
            }
        });
        Ok(stream::iter(reads).buffered(READS).collect().await)
    }
}

struct Read<'a> {
    place: &'a Place,
    storage: StorageRef,
}

impl Read<'_> {
    /// One request: the bytes, the size of the object, and its tag.
    async fn part(&self, range: Option<Range<u64>>, etag: Option<&str>) -> Result<(Bytes, u64, Option<String>)> {
        let read = self.storage.read(&self.place.path, ReadOptions::new().range(range)).await?;
        match (etag, &read.meta.etag) {
            (Some(wanted), Some(found)) if wanted != found => Err(self.changed()),
            _ => Ok((read.bytes, read.meta.size, read.meta.etag)),
        }
    }

    async fn parts(&self, range: Range<u64>, etag: Option<&str>) -> Result<Vec<Bytes>> {
        let starts = (range.start..range.end).step_by(usize::try_from(PART).unwrap_or(usize::MAX));
        let parts = starts.map(|start| async move {
            let part = start..range.end.min(start + PART);
            let wanted = part.end - part.start;
            let (bytes, ..) = self.part(Some(part), etag).await?;
            if bytes.len() as u64 == wanted { Ok(bytes) } else { Err(self.changed()) }
        });
        stream::iter(parts).buffered(PARTS).try_collect().await
    }

    fn changed(&self) -> Error {
        let error = Error::new(ErrorKind::Conflict, "the object was replaced while it was read").with_operation("read");
        self.place.error(error).with_hint("open it again")
    }
}
