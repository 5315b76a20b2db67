//! Several requests in one: bodies of `multipart/mixed`, made and read.

use std::fmt::Write as _;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};

/// The answer to one request of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The number that the request was given.
    pub(crate) number: usize,
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

/// The body of a batch of deletes, each numbered by its place.
pub(crate) fn deletes<'t>(boundary: &str, targets: impl Iterator<Item = &'t str>) -> String {
    let mut body = String::new();
    for (number, target) in targets.enumerate() {
        // Writing to a text cannot fail.
        let _ = write!(
            body,
            "--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n\
             DELETE {target} HTTP/1.1\r\n\r\n\r\n"
        );
    }
    let _ = write!(body, "--{boundary}--\r\n");
    body
}

/// The content type of a body with this boundary.
pub(crate) fn content_type(kind: &str, boundary: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("multipart/{kind}; boundary={boundary}")).ok()
}

/// Checks that an answer ends as one does.
pub(crate) fn check_whole(headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
    parts(headers, body).map(|_| ())
}

/// Reads the answers to a batch.
pub(crate) fn parts(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Part>, String> {
    let boundary = boundary(headers).ok_or("an answer to a batch without its boundary")?;
    let text = std::str::from_utf8(body).map_err(|_| "an answer to a batch that is no text")?;
    let delimiter = format!("--{boundary}");
    let mut pieces = text.split(delimiter.as_str());
    pieces.next();
    let mut parts = Vec::new();
    for piece in pieces {
        if piece.trim_start_matches(' ').starts_with("--") {
            return Ok(parts);
        }
        parts.push(part(piece).ok_or("an answer in a batch that cannot be read")?);
    }
    Err("an answer to a batch that is cut short".to_owned())
}

fn boundary(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let mut parameters = kind.split(';').skip(1).filter_map(|parameter| parameter.trim().split_once('='));
    let (_, boundary) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    Some(boundary.trim_matches('"').to_owned()).filter(|boundary| !boundary.is_empty())
}

/// Headers of the part, a blank line, a status line, headers of the answer, a blank line, its body.
fn part(piece: &str) -> Option<Part> {
    let (head, answer) = piece.split_once("\r\n\r\n")?;
    let id = head.lines().filter_map(|line| line.split_once(':'));
    let (_, id) = id.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("content-id"))?;
    // The service puts `response-` before the ID that the request had.
    let digits = id.trim().trim_matches(['<', '>']).rsplit(['-', '+']).next()?;
    let (status_line, rest) = answer.split_once("\r\n")?;
    let status = status_line.split(' ').nth(1)?.parse().ok()?;
    let body = if rest.starts_with("\r\n") { rest } else { rest.split_once("\r\n\r\n").map_or("", |(_, body)| body) };
    Some(Part {
        number: digits.parse().ok()?,
        status: StatusCode::from_u16(status).ok()?,
        body: body.trim().as_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
    }

    #[test]
    fn requests_are_numbered() {
        let body = deletes("B", ["/a", "/b?userProject=p"].into_iter());
        assert!(
            body.starts_with("--B\r\nContent-Type: application/http\r\nContent-ID: <0>\r\n\r\nDELETE /a HTTP/1.1\r\n")
        );
        assert!(body.contains("Content-ID: <1>\r\n\r\nDELETE /b?userProject=p HTTP/1.1\r\n\r\n\r\n--B--\r\n"));
    }

    #[test]
    fn answers_are_read() {
        let text = "preamble\r\n--XX\r\nContent-Type: application/http\r\nContent-ID: <response-1>\r\n\r\n\
                    HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n{\"error\":{}}\r\n\
                    --XX\r\nContent-Id: <response-b29+0>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\r\n--XX--\r\n";
        let read = parts(&headers("multipart/mixed; boundary=XX"), text.as_bytes()).expect("whole");
        assert_eq!(
            read,
            [
                Part { number: 1, status: StatusCode::NOT_FOUND, body: b"{\"error\":{}}".to_vec() },
                Part { number: 0, status: StatusCode::NO_CONTENT, body: Vec::new() },
            ]
        );
        assert_eq!(parts(&headers("multipart/mixed; boundary=\"XX\""), text.as_bytes()).expect("whole").len(), 2);
    }

    #[test]
    fn what_is_cut_short_is_damaged() {
        let kind = headers("multipart/mixed; boundary=XX");
        for cut in
            ["", "--XX\r\nContent-ID: <response-0>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "--XX\r\nnothing\r\n--XX--"]
        {
            assert!(parts(&kind, cut.as_bytes()).is_err(), "{cut:?}");
        }
        assert!(parts(&headers("multipart/mixed"), b"--XX--").is_err());
    }
}
