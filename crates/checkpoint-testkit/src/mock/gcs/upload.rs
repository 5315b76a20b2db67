//! Uploads: in one request with their description, or in a session of parts.

use bytes::{Bytes, BytesMut};
use rand::RngExt;
use serde_json::{Map, Value};

use super::bucket::{Buckets, State};
use super::fault::Fault;
use super::target::Target;
use crate::mock::answer::Answer;
use crate::mock::request::Arrived;

/// What every part but the last is a multiple of.
const UNIT: usize = 256 << 10;

/// An upload in parts.
#[derive(Debug)]
pub(crate) struct Session {
    bucket: String,
    key: String,
    described: Map<String, Value>,
    condition: Option<String>,
    bytes: BytesMut,
    end: Option<End>,
}

#[derive(Debug)]
enum End {
    Published(Answer),
    GivenUp,
}

impl Session {
    /// Whether it is neither finished nor given up.
    pub(crate) fn is_open(&self) -> bool {
        self.end.is_none()
    }
}

/// Answers a request to the addresses of uploads.
pub(crate) fn serve(buckets: &Buckets, request: &Arrived, target: &Target, now: i64) -> Result<Answer, Fault> {
    if target.key.is_some() {
        return Err(Fault::invalid("An upload names its object in its description"));
    }
    match (request.method.as_str(), target.get("uploadType"), target.get("upload_id")) {
        ("POST", Some("multipart"), None) => whole(buckets, request, target, now),
        ("POST", Some("resumable"), None) => begin(buckets, request, target),
        ("PUT", Some("resumable"), Some(id)) => buckets.with(|state| part(state, id, request, now)),
        ("DELETE", Some("resumable"), Some(id)) => buckets.with(|state| give_up(state, id)),
        _ => Err(Fault::invalid("Invalid upload request")),
    }
}

fn whole(buckets: &Buckets, request: &Arrived, target: &Target, now: i64) -> Result<Answer, Fault> {
    let kind = request.header("content-type").unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/related; boundary=");
    let boundary = boundary.ok_or_else(|| Fault::invalid("An upload with its description is multipart/related"))?;
    let wrong = || Fault::invalid("Invalid multipart body");
    let start = format!("--{boundary}\r\n");
    let middle = format!("\r\n--{boundary}\r\n");
    let end = format!("\r\n--{boundary}--");
    let body = &request.body[..];
    let body = body.strip_prefix(start.as_bytes()).ok_or_else(wrong)?;
    let at = find(body, middle.as_bytes()).ok_or_else(wrong)?;
    let (description, rest) = (&body[..at], &body[at + middle.len()..]);
    let description = part_body(description, "application/json").ok_or_else(wrong)?;
    let data = part_body(rest, "application/octet-stream").ok_or_else(wrong)?;
    let data = data.strip_suffix(b"\r\n").unwrap_or(data);
    let data = data.strip_suffix(end.as_bytes()).ok_or_else(wrong)?;
    let (key, described) = describe(description)?;
    let condition = target.get("ifGenerationMatch");
    let data = Bytes::copy_from_slice(data);
    buckets.with(|state| state.publish((&target.bucket, &key), data, described, condition, now))
}

fn begin(buckets: &Buckets, request: &Arrived, target: &Target) -> Result<Answer, Fault> {
    let (key, described) = describe(&request.body)?;
    let condition = target.get("ifGenerationMatch").map(str::to_owned);
    let id = format!("session/{:016x}", rand::rng().random::<u64>());
    buckets.with(|state| {
        state.check(&target.bucket, &key, condition.as_deref())?;
        let bytes = BytesMut::new();
        let session = Session { bucket: target.bucket.clone(), key, described, condition, bytes, end: None };
        state.sessions.insert(id.clone(), session);
        Ok(())
    })?;
    let id = crate::mock::request::encode(&id);
    let query = format!("uploadType=resumable&upload_id={id}");
    // The service names an address of its own, whatever the client's way to it was.
    let location = format!("https://storage.googleapis.com{}?{query}", request.path);
    Ok(Answer::new(200).with("Location", location))
}

fn part(state: &mut State, id: &str, request: &Arrived, now: i64) -> Result<Answer, Fault> {
    let shorten = state.shorten.take();
    let session = state.sessions.get_mut(id).ok_or_else(|| Fault::new(404, "notFound", "No such upload"))?;
    match &session.end {
        Some(End::Published(answer)) => return Ok(answer.clone()),
        Some(End::GivenUp) => return Err(Fault::new(499, "cancelled", "The upload was cancelled")),
        None => {}
    }
    let wrong = || Fault::invalid("Invalid Content-Range");
    let range = request.header("content-range").and_then(|range| range.strip_prefix("bytes ")).ok_or_else(wrong)?;
    let (range, total) = range.split_once('/').ok_or_else(wrong)?;
    let total = if total == "*" { None } else { Some(total.parse::<usize>().map_err(|_| wrong())?) };
    if range != "*" {
        let (first, last) = range.split_once('-').ok_or_else(wrong)?;
        let (first, last) = (first.parse::<usize>().map_err(|_| wrong())?, last.parse::<usize>().map_err(|_| wrong())?);
        if last + 1 != first + request.body.len() || first > session.bytes.len() {
            return Err(wrong());
        }
        if total.is_none() && !request.body.len().is_multiple_of(UNIT) {
            return Err(Fault::invalid("A part that is not the last is a multiple of 256 KiB"));
        }
        // What is held already is not looked at again.
        let mut fresh = request.body.slice((session.bytes.len() - first).min(request.body.len())..);
        if let Some(most) = shorten {
            fresh.truncate(most);
        }
        session.bytes.extend_from_slice(&fresh);
    }
    if total != Some(session.bytes.len()) {
        let answer = Answer::new(308);
        return Ok(match session.bytes.len() {
            0 => answer,
            held => answer.with("Range", format!("bytes=0-{}", held - 1)),
        });
    }
    let mut described = session.described.clone();
    if let Some(sum) = request.header("x-goog-hash").and_then(|hash| hash.strip_prefix("crc32c=")) {
        described.insert("crc32c".to_owned(), Value::String(sum.to_owned()));
    }
    let (bucket, key, condition) = (session.bucket.clone(), session.key.clone(), session.condition.clone());
    let bytes = session.bytes.clone().freeze();
    let answer = state.publish((&bucket, &key), bytes, described, condition.as_deref(), now)?;
    if let Some(session) = state.sessions.get_mut(id) {
        session.end = Some(End::Published(answer.clone()));
        session.bytes.clear();
    }
    Ok(answer)
}

fn give_up(state: &mut State, id: &str) -> Result<Answer, Fault> {
    let session = state.sessions.get_mut(id).ok_or_else(|| Fault::new(404, "notFound", "No such upload"))?;
    session.end = Some(End::GivenUp);
    session.bytes.clear();
    Ok(Answer::new(499))
}

/// The name and the rest of a description.
fn describe(text: &[u8]) -> Result<(String, Map<String, Value>), Fault> {
    const KNOWN: [&str; 8] = [
        "name",
        "crc32c",
        "contentType",
        "metadata",
        "cacheControl",
        "contentDisposition",
        "contentEncoding",
        "contentLanguage",
    ];
    let wrong = || Fault::invalid("Parse Error");
    let Ok(Value::Object(described)) = serde_json::from_slice(text) else { return Err(wrong()) };
    if let Some(unknown) = described.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(Fault::invalid(format!("Unknown name \"{unknown}\"")));
    }
    let name = described.get("name").and_then(Value::as_str).ok_or_else(|| Fault::new(400, "required", "Required"))?;
    Ok((name.to_owned(), described.clone()))
}

/// What follows the headers of a part of this kind.
fn part_body<'b>(part: &'b [u8], kind: &str) -> Option<&'b [u8]> {
    let end = find(part, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&part[..end]).ok()?.to_lowercase();
    head.starts_with(&format!("content-type: {kind}")).then(|| &part[end + 4..])
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
