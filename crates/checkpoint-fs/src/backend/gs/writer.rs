//! Streamed writes: a session of parts for what may replace, one request for what may not.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::json;

use super::crc32c::Crc32c;
use super::read::damaged;
use super::resource::FIELDS;
use super::storage::Inner;
use super::upload::{Upload, published, put, stored};
use crate::backend::settle::{Mark, WRITE_TOKEN, fresh_token, settle};
use crate::backend::unbroken::Unbroken;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::storage::{StorageWriter, WriteMode, WriteOutcome};
use crate::transport::{Answer, AnswerForm, Call, Failure};

/// The size of every part but the last; what is smaller altogether goes up in one request. The service wants
/// a multiple of 256 KiB.
const PART: usize = 8 << 20;
/// A longer body that may replace goes up in parts too: it need not be sent again as a whole when it is cut short.
pub(super) const LONG_BODY: usize = 8 * PART;
/// The largest object that the service holds.
const MAX_OBJECT: u64 = 5 << 40;
/// How often a part may come back without a byte of it having been kept.
const STANDSTILLS: u32 = 5;

const CHECKSUM: HeaderName = HeaderName::from_static("x-goog-hash");
/// The service's own status for an upload that was given up.
const GIVEN_UP: u16 = 499;

/// Starts a write.
pub(super) fn open(inner: &Arc<Inner>, call: Call, key: String, mode: WriteMode) -> Result<Box<dyn StorageWriter>> {
    Guard::check(call.guard.as_ref()).map_err(|e| call.named(e))?;
    let (inner, named) = (Arc::clone(inner), call.clone());
    Ok(match mode {
        WriteMode::IfAbsent => {
            Box::new(Unbroken::new(OneRequest { upload: Upload::new(&key, 0), inner, call, key }, named))
        }
        WriteMode::Overwrite => Box::new(Unbroken::new(InParts::new(inner, call, key), named)),
    })
}

/// Writes a long body, which may replace, in parts.
pub(super) async fn write_long(inner: &Arc<Inner>, call: Call, key: String, bytes: Bytes) -> Result<WriteOutcome> {
    let mut writer = Box::new(InParts::new(Arc::clone(inner), call, key));
    if let Err(error) = writer.write(bytes).await {
        // The error of the write is what there is to tell.
        let _ = writer.abort().await;
        return Err(error);
    }
    writer.finish().await
}

/// Collects everything for a single conditional request: a session's condition would be looked at when it
/// begins, and a session that ends hours later must still not replace.
struct OneRequest {
    inner: Arc<Inner>,
    call: Call,
    key: String,
    upload: Upload,
}

#[async_trait]
impl StorageWriter for OneRequest {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.upload.push(&bytes).map_err(|e| self.call.named(e))
    }

    async fn finish(self: Box<Self>) -> Result<WriteOutcome> {
        let Self { inner, call, key, upload } = *self;
        Box::pin(upload.send(&inner, &call, &key, WriteMode::IfAbsent)).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for OneRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneRequest").field("url", &self.call.url).field("bytes", &self.upload.len()).finish()
    }
}

/// An upload in parts, which may replace. The session begins with the second part.
///
/// A session takes its parts one after the other. A part whose answer was lost is sent again as it was: the
/// service ignores bytes at offsets that it holds already. The checksum of the whole goes along with the last part.
struct InParts {
    inner: Arc<Inner>,
    call: Call,
    key: String,
    token: String,
    /// The URL of the session, which is a secret; gone once the upload was finished or given up.
    session: Option<String>,
    /// Bytes that the service does not hold yet, at most one part.
    buffer: BytesMut,
    /// Bytes that it holds.
    sent: u64,
    crc: Crc32c,
}

/// What the service made of a part.
enum Progress {
    /// It waits for more.
    Partial,
    /// The object is there, and this describes it.
    Whole(Bytes),
}

impl InParts {
    fn new(inner: Arc<Inner>, call: Call, key: String) -> Self {
        let token = fresh_token();
        Self { inner, call, key, token, session: None, buffer: BytesMut::new(), sent: 0, crc: Crc32c::new() }
    }

    /// The call to free what the service holds, which changes nothing that anybody sees, and has to work when
    /// the right to write is gone.
    fn unguarded(&self) -> Call {
        Call { guard: None, ..self.call.clone() }
    }

    /// Begins the session.
    async fn begin(&self) -> Result<String, Failure> {
        let url = self.inner.config.upload_url(&[("uploadType", "resumable"), ("fields", FIELDS)]);
        let description = json!({
            "name": self.key,
            "contentType": "application/octet-stream",
            "metadata": { WRITE_TOKEN: self.token },
        });
        let mut request =
            self.inner.request(Method::POST, url, Bytes::from(description.to_string()), AnswerForm::Bytes);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
        let answer = self.inner.transport.send(&self.call, &request).await?;
        let location = answer.headers.get(LOCATION).and_then(|url| url.to_str().ok());
        location
            .and_then(|url| self.inner.config.session_url(url))
            .ok_or_else(|| damaged(&self.call, "a session without its address"))
    }

    /// Sends what is buffered; `total` is the size of the whole, once it is known.
    async fn send(&mut self, total: Option<u64>) -> Result<Progress, Failure> {
        let url = match &self.session {
            Some(url) => url.clone(),
            None => {
                let url = Box::pin(self.begin()).await?;
                self.session.insert(url).clone()
            }
        };
        let whole = total.map_or_else(|| "*".to_owned(), |total| total.to_string());
        let end = self.sent + self.buffer.len() as u64;
        let range = if self.buffer.is_empty() {
            format!("bytes */{whole}")
        } else {
            format!("bytes {}-{}/{whole}", self.sent, end - 1)
        };
        // The part is a copy, since the service may keep only its beginning.
        let part = Bytes::copy_from_slice(&self.buffer);
        let mut request = self.inner.request(Method::PUT, url, part, AnswerForm::Progress);
        request.headers.insert(CONTENT_RANGE, header(&self.call, &range)?);
        if total.is_some() {
            request.headers.insert(CHECKSUM, header(&self.call, &format!("crc32c={}", self.crc.text()))?);
        }
        let Answer { status, headers, body } = self.inner.transport.send(&self.call, &request).await?;
        if status != StatusCode::PERMANENT_REDIRECT {
            return Ok(Progress::Whole(body));
        }
        let held = held(&headers).unwrap_or(0);
        let kept = held.checked_sub(self.sent).and_then(|kept| usize::try_from(kept).ok());
        match kept.filter(|kept| *kept <= self.buffer.len()) {
            Some(kept) => {
                let _ = self.buffer.split_to(kept);
                self.sent = held;
                Ok(Progress::Partial)
            }
            None => Err(damaged(&self.call, &format!("about other bytes: held={held} sent={}-{end}", self.sent))),
        }
    }

    /// Sends a part that is not the last, until the service has begun to keep it.
    async fn send_part(&mut self) -> Result<()> {
        for _ in 0..STANDSTILLS {
            let before = self.sent;
            match Box::pin(self.send(None)).await.map_err(|f| f.error)? {
                Progress::Partial if self.sent > before => return Ok(()),
                Progress::Partial => {}
                Progress::Whole(_) => {
                    return Err(damaged(&self.call, "about a whole object, before its last part").error);
                }
            }
        }
        Err(damaged(&self.call, "the same again, as if no byte of the part had arrived").error)
    }

    /// Sends the last part, again as far as the service kept only a beginning.
    async fn send_last(&mut self, total: u64) -> Result<Bytes, Failure> {
        let mut standstills = 0;
        while standstills < STANDSTILLS {
            let before = self.sent;
            match Box::pin(self.send(Some(total))).await? {
                Progress::Whole(body) => return Ok(body),
                Progress::Partial if self.sent > before => standstills = 0,
                Progress::Partial => standstills += 1,
            }
        }
        Err(damaged(&self.call, "the same again, as if no byte of the last part had arrived"))
    }
}

#[async_trait]
impl StorageWriter for InParts {
    async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        let size = self.sent + (self.buffer.len() + bytes.len()) as u64;
        if size > MAX_OBJECT {
            let message = format!("the object is too large: bytes={size} most={MAX_OBJECT}");
            return Err(self.call.named(Error::unsupported(message).with_hint("write it in several objects")));
        }
        while !bytes.is_empty() {
            if self.buffer.len() == PART {
                Box::pin(self.send_part()).await?;
            }
            let piece = bytes.split_to(bytes.len().min(PART - self.buffer.len()));
            self.crc.update(&piece);
            self.buffer.extend_from_slice(&piece);
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<WriteOutcome> {
        if self.session.is_none() {
            return Box::pin(put(&self.inner, &self.call, &self.key, &self.buffer, WriteMode::Overwrite)).await;
        }
        let total = self.sent + self.buffer.len() as u64;
        let sum = self.crc.text();
        let answered = match Box::pin(self.send_last(total)).await {
            Ok(body) => published(&self.call, &body, total, &sum),
            // A session that has ended may have ended with an earlier attempt of this very request.
            Err(failure) if matches!(failure.status, Some(StatusCode::NOT_FOUND | StatusCode::GONE)) => {
                Err(Failure { maybe_applied: true, ..failure })
            }
            Err(failure) => Err(failure),
        };
        let outcome = match answered {
            Ok(meta) => WriteOutcome::Done(meta),
            // What was not published is given up when this is dropped.
            Err(failure) => {
                let read_back = Box::pin(stored(&self.inner, &self.call, &self.key, &self.token, &sum));
                let mark = Mark { token: &self.token, size: total };
                settle(failure, WriteMode::Overwrite, mark, read_back).await?
            }
        };
        if matches!(outcome, WriteOutcome::Done(_)) {
            self.session = None;
        }
        Ok(outcome)
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        Box::pin(give_up(&self.inner, &self.unguarded(), session)).await
    }
}

/// Frees what the service holds of an upload.
async fn give_up(inner: &Inner, call: &Call, session: String) -> Result<()> {
    let request = inner.request(Method::DELETE, session, Bytes::new(), AnswerForm::Bytes);
    match inner.transport.send(call, &request).await {
        Err(failure)
            if failure.status.is_none_or(|s| s.as_u16() != GIVEN_UP && s != StatusCode::GONE)
                && !failure.error.is_not_found() =>
        {
            Err(failure.error)
        }
        _ => Ok(()),
    }
}

impl Drop for InParts {
    /// Gives the session up in the background, as far as that works; the service forgets it after a week.
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (inner, call) = (Arc::clone(&self.inner), self.unguarded());
            runtime.spawn(async move {
                if Box::pin(give_up(&inner, &call, session)).await.is_err() {
                    tracing::debug!(url = call.url, "the parts of an abandoned upload could not be removed");
                }
            });
        }
    }
}

impl fmt::Debug for InParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.sent + self.buffer.len() as u64;
        f.debug_struct("InParts").field("url", &self.call.url).field("bytes", &bytes).finish_non_exhaustive()
    }
}

/// How many bytes the service holds, of `Range: bytes=0-41`; `None` where it says nothing, which means none.
fn held(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    (first == "0").then(|| last.parse::<u64>().ok()?.checked_add(1))?
}

fn header(call: &Call, text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text)
        .map_err(|e| Failure::unsent(call.named(Error::invalid_config("not a header").with_source(e))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_holds_is_read() {
        let range = |text| HeaderMap::from_iter([(RANGE, HeaderValue::from_static(text))]);
        assert_eq!(held(&range("bytes=0-41")), Some(42));
        assert_eq!(held(&HeaderMap::new()), None);
        assert_eq!(held(&range("bytes=5-41")), None);
    }
}
