//! The answer to a batch of requests: a body of several parts, each of them an answer, taken apart.

use std::collections::HashMap;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The boundary of a batch; `None` for what is none.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<&str> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (media, rest) = kind.split_once(';')?;
    let boundary = rest.split(';').find_map(|p| p.trim().strip_prefix("boundary="))?.trim_matches('"');
    (media.trim().eq_ignore_ascii_case("multipart/mixed") && !boundary.is_empty()).then_some(boundary)
}

/// How one request of a batch ended.
#[derive(Debug)]
pub(crate) struct Part {
    /// Which one, from 0; `None` where the service answers for the whole batch.
    pub(crate) id: Option<usize>,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Takes an answer apart.
///
/// # Errors
/// Why it is not a whole answer.
pub(crate) fn parts(headers: &HeaderMap, body: &[u8]) -> Result<Vec<Part>, String> {
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
    let id = read_headers(head).get("content-id").and_then(|id| number(id.to_str().ok()?));
    let (answer, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
    let (status_line, headers) = answer.split_once("\r\n").unwrap_or((answer, ""));
    let status = status_line.split(' ').nth(1).and_then(|s| s.parse::<u16>().ok());
    let status = status.and_then(|s| StatusCode::from_u16(s).ok()).ok_or("a part without a status")?;
    Ok(Part { id, status, headers: read_headers(headers), body: body.trim().to_owned() })
}

/// The number of a request, of its ID as the service repeats it: as it was, or as `<response-0>`.
fn number(id: &str) -> Option<usize> {
    id.trim().trim_matches(['<', '>']).rsplit(['-', '+']).next()?.parse().ok()
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
pub(crate) enum Fault {
    /// This part is the answer to the whole batch.
    Whole(Box<Part>),
    /// They are not what was asked for.
    Damaged(String),
}

/// The parts by their number, each exactly once.
///
/// # Errors
/// See [`Fault`].
pub(crate) fn by_number(parts: Vec<Part>, asked: usize) -> Result<HashMap<usize, Part>, Fault> {
    let mut numbered = HashMap::with_capacity(parts.len());
    for part in parts {
        let Some(id) = part.id else { return Err(Fault::Whole(Box::new(part))) };
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

    #[test]
    fn numbers_come_back_in_several_forms() {
        for (id, expected) in [("7", Some(7)), ("<response-7>", Some(7)), ("<response-b29+7>", Some(7)), ("<x>", None)]
        {
            assert_eq!(number(id), expected, "{id}");
        }
    }
}
