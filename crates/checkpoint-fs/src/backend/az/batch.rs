//! Many deletes in one request: a body of several parts, each of them a request, and the answer likewise.

use std::collections::HashMap;
use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::wire::{DELETE_SNAPSHOTS, INCLUDE};
use crate::error::{Error, ErrorKind, Result};

/// Blobs that one request can name.
pub(super) const LIMIT: usize = 256;

const KIND: &str = "multipart/mixed; boundary=";
const VERB: &str = "DELETE ";
const PROTOCOL: &str = " HTTP/1.1";

/// The type of a batch's body.
pub(super) fn content_type(boundary: &str) -> String {
    format!("{KIND}{boundary}")
}

/// Whether a request or an answer is a batch.
pub(super) fn is_batch(headers: &HeaderMap) -> bool {
    boundary(headers).is_some()
}

fn boundary(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (media, rest) = kind.split_once(';')?;
    let boundary = rest.split(';').find_map(|p| p.trim().strip_prefix("boundary="))?.trim_matches('"');
    (media.trim().eq_ignore_ascii_case("multipart/mixed") && !boundary.is_empty()).then_some(boundary)
}

/// The body that asks for these blobs, by their encoded paths, to be deleted; nothing in it is authorized yet.
pub(super) fn body(boundary: &str, paths: &[String]) -> Bytes {
    let mut body = String::new();
    for (id, path) in paths.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "--{boundary}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\
             Content-ID: {id}\r\n\r\n{VERB}{path}{PROTOCOL}\r\nContent-Length: 0\r\n\r\n"
        );
    }
    let _ = write!(body, "--{boundary}--\r\n");
    body.into()
}

/// Authorizes each request of a body made by [`body`]: `with` gets its path and its headers.
///
/// # Errors
/// What `with` meets, and a body of another make.
pub(super) fn authorize(body: &[u8], mut with: impl FnMut(&mut String, &mut HeaderMap) -> Result<()>) -> Result<Bytes> {
    let strange = || Error::new(ErrorKind::InvalidConfig, "the batch's body was changed on the way");
    let text = std::str::from_utf8(body).map_err(|_| strange())?;
    let mut authorized = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive("\r\n") {
        let Some(rest) = line.strip_prefix(VERB) else {
            authorized.push_str(line);
            continue;
        };
        let mut path = rest.trim_end().strip_suffix(PROTOCOL).ok_or_else(strange)?.to_owned();
        let mut headers = HeaderMap::from_iter([(DELETE_SNAPSHOTS, INCLUDE)]);
        with(&mut path, &mut headers)?;
        let _ = write!(authorized, "{VERB}{path}{PROTOCOL}\r\n");
        for (name, value) in &headers {
            let value = value.to_str().map_err(|_| strange())?;
            let _ = write!(authorized, "{name}: {value}\r\n");
        }
    }
    Ok(authorized.into())
}

/// How one request of a batch ended.
#[derive(Debug)]
pub(super) struct Part {
    /// Which one, from 0; `None` where the service answers for the whole batch.
    pub(super) id: Option<usize>,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

/// Takes an answer apart.
///
/// # Errors
/// Why it is not a whole answer.
pub(super) fn parts(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Part>, String> {
    let boundary = boundary(headers).ok_or("it has no parts")?;
    let text = std::str::from_utf8(body).map_err(|_| "it is no text")?;
    let delimiter = format!("--{boundary}");
    let mut parts = Vec::new();
    for piece in text.split(&delimiter).skip(1) {
        if piece.starts_with("--") {
            return Ok(parts);
        }
        parts.push(part(piece)?);
    }
    Err("it ends before its last part does".to_owned())
}

fn part(text: &str) -> Result<Part, String> {
    let text = text.trim_start_matches("\r\n");
    let (head, rest) = text.split_once("\r\n\r\n").ok_or("a part without a request")?;
    let id = read_headers(head).get("content-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let (answer, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
    let (status_line, headers) = answer.split_once("\r\n").unwrap_or((answer, ""));
    let status = status_line.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok());
    let status = status.and_then(|s| StatusCode::from_u16(s).ok()).ok_or("a part without a status")?;
    Ok(Part { id, status, headers: read_headers(headers), body: body.trim().to_owned() })
}

/// Header lines; what is none is left out.
fn read_headers(text: &str) -> HeaderMap {
    text.split("\r\n")
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        })
        .collect()
}

/// Why the parts of an answer do not say how each request ended.
#[derive(Debug)]
pub(super) enum Fault {
    /// This part is the answer to the whole batch.
    Whole(Part),
    /// They are not what was asked for.
    Damaged(String),
}

/// The parts by their number, each exactly once.
///
/// # Errors
/// See [`Fault`].
pub(super) fn by_number(parts: Vec<Part>, asked: usize) -> Result<HashMap<usize, Part>, Fault> {
    let mut numbered = HashMap::with_capacity(parts.len());
    for part in parts {
        let Some(id) = part.id else { return Err(Fault::Whole(part)) };
        if id >= asked || numbered.insert(id, part).is_some() {
            return Err(Fault::Damaged(format!("a part that was not asked for: id={id}")));
        }
    }
    if numbered.len() < asked {
        return Err(Fault::Damaged(format!("parts are missing: asked={asked} answered={}", numbered.len())));
    }
    Ok(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
    }

    #[test]
    fn each_request_is_authorized_by_itself() {
        let body = body("b1", &["/data/a%20b".to_owned(), "/data/c".to_owned()]);
        let mut seen = Vec::new();
        let signed = authorize(&body, |path, headers| {
            seen.push(path.clone());
            headers.insert("x-ms-date", HeaderValue::from_static("now"));
            path.push_str("?sig=1");
            Ok(())
        })
        .expect("ours");
        assert_eq!(seen, ["/data/a%20b", "/data/c"]);
        let text = String::from_utf8(signed.to_vec()).expect("text");
        assert!(text.starts_with("--b1\r\nContent-Type: application/http\r\n"), "{text}");
        let first = "Content-ID: 0\r\n\r\nDELETE /data/a%20b?sig=1 HTTP/1.1\r\nx-ms-delete-snapshots: include\r\n\
                     x-ms-date: now\r\nContent-Length: 0\r\n\r\n--b1\r\n";
        assert!(text.contains(first), "{text}");
        assert!(text.ends_with("\r\n--b1--\r\n"), "{text}");
        assert!(is_batch(&headers("multipart/mixed; boundary=b1")) && !is_batch(&headers("application/xml")));
    }

    const ANSWER: &str = "--r1\r\nContent-Type: application/http\r\nContent-ID: 1\r\n\r\nHTTP/1.1 404 Not here.\r\n\
        x-ms-error-code: BlobNotFound\r\nServer: x\r\n\r\n<?xml version=\"1.0\"?>\n<Error><Code>BlobNotFound</Code></Error>\r\n\
        --r1\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 202 Accepted\r\nServer: x\r\n\r\n--r1--";

    #[test]
    fn answers_are_taken_apart() {
        let kind = headers("multipart/mixed; boundary=\"r1\"");
        let found = by_number(parts(&kind, ANSWER.as_bytes()).expect("whole"), 2).expect("numbered");
        assert_eq!(found[&0].status, StatusCode::ACCEPTED);
        assert_eq!(
            (found[&1].status, &found[&1].headers["x-ms-error-code"].to_str().ok()),
            (StatusCode::NOT_FOUND, &Some("BlobNotFound"))
        );
        assert!(found[&1].body.starts_with("<?xml"), "{}", found[&1].body);
    }

    #[test]
    fn half_an_answer_is_none() {
        let kind = headers("multipart/mixed; boundary=r1");
        let last = ANSWER.len() - "--".len();
        for end in (0..last).filter(|end| ANSWER.is_char_boundary(*end)) {
            let cut = parts(&kind, &ANSWER.as_bytes()[..end]);
            assert!(cut.is_err(), "{:?}", &ANSWER[..end]);
        }
        let twice = ANSWER.replace("Content-ID: 1", "Content-ID: 0");
        assert!(by_number(parts(&kind, twice.as_bytes()).expect("whole"), 2).is_err());
        assert!(by_number(parts(&kind, ANSWER.as_bytes()).expect("whole"), 3).is_err());
        let unnumbered = ANSWER.replace("Content-ID: 1\r\n", "");
        assert!(matches!(by_number(parts(&kind, unnumbered.as_bytes()).expect("whole"), 2), Err(Fault::Whole(_))));
    }
}
