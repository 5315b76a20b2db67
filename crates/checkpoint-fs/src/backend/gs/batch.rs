//! Bodies of several parts: batches of deletes.

use std::fmt::Write as _;

use http::HeaderValue;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered() {
        let body = deletes("B", ["/a", "/b?userProject=p"].into_iter());
        assert!(
            body.starts_with("--B\r\nContent-Type: application/http\r\nContent-ID: <0>\r\n\r\nDELETE /a HTTP/1.1\r\n")
        );
        assert!(body.contains("Content-ID: <1>\r\n\r\nDELETE /b?userProject=p HTTP/1.1\r\n\r\n\r\n--B--\r\n"));
    }
}
