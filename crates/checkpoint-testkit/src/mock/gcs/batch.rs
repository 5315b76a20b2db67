//! Batches: up to a hundred requests in one body, each with its own answer.

use super::bucket::Buckets;
use super::fault::Fault;
use super::target::Target;
use crate::mock::answer::Answer;
use crate::mock::controls::Controls;
use crate::mock::request::Arrived;

/// Requests that one batch holds.
const MOST: usize = 100;

/// Answers a batch of deletes; nothing else is ever put into one here. `known` says whether its sender is.
pub(crate) fn serve(
    buckets: &Buckets,
    controls: &Controls,
    request: &Arrived,
    known: Result<(), Fault>,
) -> Result<Answer, Fault> {
    let kind = request.header("content-type").unwrap_or_default();
    let boundary = kind.strip_prefix("multipart/mixed; boundary=");
    let boundary = boundary.ok_or_else(|| Fault::invalid("A batch is multipart/mixed"))?;
    let text = std::str::from_utf8(&request.body).map_err(|_| Fault::invalid("Invalid UTF-8"))?;
    let end = format!("--{boundary}--");
    let inside = text.trim_end().strip_suffix(&end).ok_or_else(|| Fault::invalid("The batch has no end"))?;
    let delimiter = format!("--{boundary}\r\n");
    let parts: Vec<&str> = inside.split(&delimiter).skip(1).collect();
    if parts.is_empty() || parts.len() > MOST {
        return Err(Fault::invalid("The batch request contains no or too many calls"));
    }
    let mut said = String::new();
    for part in parts {
        let (id, path, query) = read(part).ok_or_else(|| Fault::invalid("A part is no request"))?;
        let deleted = || delete(buckets, controls, path, query).unwrap_or_else(|fault| fault.answer());
        let answer = known.as_ref().map_or_else(Fault::answer, |()| deleted());
        let reason = http::StatusCode::from_u16(answer.status).ok().and_then(|s| s.canonical_reason()).unwrap_or("");
        let body = String::from_utf8_lossy(&answer.body);
        said.push_str(&format!(
            "--batch_answer\r\nContent-Type: application/http\r\nContent-ID: <response-{id}>\r\n\r\n\
             HTTP/1.1 {} {reason}\r\nContent-Length: {}\r\n\r\n{body}\r\n",
            answer.status,
            body.len(),
        ));
    }
    said.push_str("--batch_answer--\r\n");
    Ok(Answer { body: said.into(), ..Answer::new(200) }.with("Content-Type", "multipart/mixed; boundary=batch_answer"))
}

/// The ID, path and query of a part.
fn read(part: &str) -> Option<(&str, &str, &str)> {
    let (head, request) = part.split_once("\r\n\r\n")?;
    let mut id = None;
    for line in head.split("\r\n") {
        match line.split_once(": ")? {
            ("Content-ID", value) => id = value.strip_prefix('<')?.strip_suffix('>'),
            ("Content-Type", "application/http") => {}
            _ => return None,
        }
    }
    let line = request.split("\r\n").next()?;
    let target = line.strip_prefix("DELETE ")?.strip_suffix(" HTTP/1.1")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some((id?, path, query))
}

fn delete(buckets: &Buckets, controls: &Controls, path: &str, query: &str) -> Result<Answer, Fault> {
    let target = Target::of(path, query)?;
    let key = target.key.as_deref().ok_or_else(|| Fault::invalid("Not an object"))?;
    if let Some(reason) = controls.objects.troubles.keeps(key) {
        return Err(Fault::new(429, reason, "The object exceeded the rate limit for object mutation operations."));
    }
    buckets.delete(&target.bucket, key)
}
