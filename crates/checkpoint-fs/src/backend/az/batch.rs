//! Many deletes in one request: a body of several parts, each of them a request, and the answer likewise.

use std::fmt::Write as _;

use bytes::Bytes;
use http::HeaderMap;

use super::wire::{DELETE_SNAPSHOTS, INCLUDE};
use crate::backend::mixed::boundary;
pub(super) use crate::backend::mixed::{Fault, Part, by_number, parts};
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;

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
}
