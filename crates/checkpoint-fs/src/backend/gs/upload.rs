//! Writing an object in one request: its description and its bytes in one body, under one condition.

use bytes::{Bytes, BytesMut};
use http::Method;
use http::header::CONTENT_TYPE;
use serde_json::json;

use super::batch;
use super::crc32c::{Crc32c, WIDTH};
use super::read::{damaged, describe};
use super::resource::{FIELDS, Resource};
use super::storage::Inner;
use crate::backend::settle::{Mark, WRITE_TOKEN, fresh_token, settle};
use crate::error::{Error, Result};
use crate::storage::{ObjectMeta, WriteMode, WriteOutcome};
use crate::transport::{AnswerForm, Call, Failure};

/// The most that is collected in memory for one request.
const MAX_UPLOAD: u64 = 5 << 30;
/// Stands where the checksum goes once the bytes are known; no checksum is written so.
const NO_CHECKSUM: &str = "????????";

/// An object on its way into one request. The bytes are collected behind their description, so that they
/// are in memory once.
pub(super) struct Upload {
    token: String,
    boundary: String,
    body: BytesMut,
    checksum_at: usize,
    data_at: usize,
    crc: Crc32c,
}

impl Upload {
    /// An upload without bytes.
    pub(super) fn new(key: &str, capacity: usize) -> Self {
        // Bytes that hold this by chance are not to be expected, and nobody can know it beforehand.
        let boundary = format!("checkpoint-{}", fresh_token());
        let token = fresh_token();
        // The checksum is the first value, so that no name of an object is taken for its place.
        let description = json!({
            "crc32c": NO_CHECKSUM,
            "contentType": "application/octet-stream",
            "metadata": { WRITE_TOKEN: token },
            "name": key,
        })
        .to_string();
        let head = format!("--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n");
        let rest = "\r\nContent-Type: application/octet-stream\r\n\r\n";
        let checksum_at = head.len() + description.find(NO_CHECKSUM).unwrap_or_default();
        let mut body = BytesMut::with_capacity(head.len() + description.len() + 3 * boundary.len() + 128 + capacity);
        for text in [&head, &description, "\r\n--", &boundary, rest] {
            body.extend_from_slice(text.as_bytes());
        }
        Self { token, boundary, data_at: body.len(), body, checksum_at, crc: Crc32c::new() }
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        (self.body.len() - self.data_at) as u64
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// `Unsupported` when they are too many for one request; the caller names the call.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let size = self.len() + bytes.len() as u64;
        if size > MAX_UPLOAD {
            let message = format!("the object is too large for one request: bytes={size} most={MAX_UPLOAD}");
            return Err(
                Error::unsupported(message).with_hint("write it in several objects, or let it replace what is there")
            );
        }
        self.crc.update(bytes);
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    /// The whole body, and the checksum in it.
    fn into_body(mut self) -> (Bytes, String) {
        let sum = self.crc.text();
        if let Some(place) = self.body.get_mut(self.checksum_at..self.checksum_at + WIDTH)
            && sum.len() == WIDTH
        {
            place.copy_from_slice(sum.as_bytes());
        }
        self.body.extend_from_slice(format!("\r\n--{}--\r\n", self.boundary).as_bytes());
        (self.body.freeze(), sum)
    }

    /// Sends it, and settles what is left open.
    pub(super) async fn send(self, inner: &Inner, call: &Call, key: &str, mode: WriteMode) -> Result<WriteOutcome> {
        let (size, token) = (self.len(), self.token.clone());
        let mut query = vec![("uploadType", "multipart"), ("fields", FIELDS)];
        if mode == WriteMode::IfAbsent {
            query.push(("ifGenerationMatch", "0"));
        }
        let content_type = batch::content_type("related", &self.boundary)
            .ok_or_else(|| call.named(Error::invalid_config("the boundary is no header")))?;
        let (body, sum) = self.into_body();
        let mut request = inner.request(Method::POST, inner.config.upload_url(&query), body, AnswerForm::Document);
        request.headers.insert(CONTENT_TYPE, content_type);
        let answered = match inner.transport.send(call, &request).await {
            Ok(answer) => published(call, &answer.body, size, &sum),
            Err(failure) => Err(failure),
        };
        drop(request);
        match answered {
            Ok(meta) => Ok(WriteOutcome::Done(meta)),
            Err(failure) => {
                let mark = Mark { token: &token, size };
                settle(failure, mode, mark, Box::pin(stored(inner, call, key, &token, &sum))).await
            }
        }
    }
}

/// Writes an object with a single request.
pub(super) async fn put(inner: &Inner, call: &Call, key: &str, bytes: &[u8], mode: WriteMode) -> Result<WriteOutcome> {
    let mut upload = Upload::new(key, bytes.len());
    upload.push(bytes).map_err(|e| call.named(e))?;
    Box::pin(upload.send(inner, call, key, mode)).await
}

/// Asks what is there now, and who wrote it. What carries our token must have our checksum too.
pub(super) async fn stored(
    inner: &Inner,
    call: &Call,
    key: &str,
    token: &str,
    sum: &str,
) -> Result<(ObjectMeta, Option<String>), Failure> {
    let resource = describe(inner, call, key, FIELDS).await?;
    let meta = resource.meta().map_err(|why| damaged(call, &why))?;
    match (resource.token(), resource.crc32c.as_deref()) {
        (Some(found), Some(got)) if found == token && got != sum => {
            Err(damaged(call, &format!("about other bytes: sent={sum} stored={got}")))
        }
        (found, _) => Ok((meta, found.map(str::to_owned))),
    }
}

/// What the service says of an object that it took: as long as it was, with the same checksum.
pub(super) fn published(call: &Call, body: &[u8], size: u64, sum: &str) -> Result<ObjectMeta, Failure> {
    let resource = Resource::parse(body).map_err(|why| damaged(call, &why))?;
    let meta = resource.meta().map_err(|why| damaged(call, &why))?;
    let got = resource.crc32c.as_deref().unwrap_or(sum);
    if meta.size != size || got != sum {
        let (is, text) = (meta.size, format!("of another object: sent={size},{sum}"));
        return Err(damaged(call, &format!("{text} stored={is},{got}")));
    }
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_holds_the_description_with_its_checksum_and_the_bytes() {
        let mut upload = Upload::new("????????/\"k\"", 0);
        upload.push(b"12345").expect("fits");
        upload.push(b"6789").expect("fits");
        assert_eq!(upload.len(), 9);
        let (token, boundary) = (upload.token.clone(), upload.boundary.clone());
        let (body, sum) = upload.into_body();
        assert_eq!(sum, "4waSgw==");
        let text = std::str::from_utf8(&body).expect("text");
        let delimiter = format!("--{boundary}");
        let parts: Vec<&str> = text.split(delimiter.as_str()).collect();
        let (_, description) = parts[1].split_once("\r\n\r\n").expect("headers");
        let description: serde_json::Value = serde_json::from_str(description).expect("JSON");
        assert_eq!(description["name"], "????????/\"k\"");
        assert_eq!(description["crc32c"], sum.as_str());
        assert_eq!(description["metadata"][WRITE_TOKEN], token.as_str());
        assert_eq!(parts[2], "\r\nContent-Type: application/octet-stream\r\n\r\n123456789\r\n");
        assert_eq!(parts[3], "--\r\n");
    }

    #[test]
    fn what_was_taken_must_be_what_was_sent() {
        let call = Call::new("write", "gs://b/k".to_owned(), None);
        let said = |size: &str, sum: &str| {
            let body = json!({"name": "k", "size": size, "crc32c": sum, "generation": "7"}).to_string();
            published(&call, body.as_bytes(), 9, "4waSgw==").map(|meta| meta.etag)
        };
        assert_eq!(said("9", "4waSgw==").expect("the same"), Some("7".to_owned()));
        for (size, sum) in [("8", "4waSgw=="), ("9", "AAAAAA==")] {
            let failure = said(size, sum).expect_err("another");
            assert_eq!(failure.error.kind(), crate::ErrorKind::Corrupt);
            assert!(failure.maybe_applied);
        }
    }
}
