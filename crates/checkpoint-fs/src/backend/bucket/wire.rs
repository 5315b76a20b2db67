//! Requests of one bucket as the service gets them.

use bytes::Bytes;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::percent_decode_str;

use super::address::{BucketAddress, encode_query};
use super::config::BucketConfig;
use super::vendor::IfAbsent;
use crate::backend::bridge::Translate;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{AnswerForm, Request};

/// The endpoint that OpenDAL builds its requests against; never sent.
pub(crate) const PLACEHOLDER: &str = "http://endpoint";

/// What OpenDAL's headers begin with.
const BUILT_PREFIX: &str = "x-amz-";
const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");

/// Makes requests for one bucket, and turns OpenDAL's into them.
///
/// OpenDAL trims blanks and slashes off paths. So it never sees a key: it is given the key's encoded
/// form, which it encodes once more, and that second encoding is taken off here. What remains is exactly
/// the path that the signature wants.
///
/// A condition to write nothing over anything, and the headers with S3's prefix, become the vendor's.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    address: BucketAddress,
    built: String,
    headers: HeaderMap,
    write_headers: HeaderMap,
    header_prefix: &'static str,
    if_absent: IfAbsent,
    copy_source_root: &'static str,
}

impl Wire {
    pub(crate) fn new(config: &BucketConfig) -> Self {
        Self {
            address: config.address.clone(),
            built: format!("{PLACEHOLDER}/{}/", config.bucket),
            headers: config.headers.clone(),
            write_headers: config.write_headers.clone(),
            header_prefix: config.vendor.header_prefix,
            if_absent: config.vendor.if_absent.clone(),
            copy_source_root: config.vendor.copy_source_root,
        }
    }

    /// A request of our own for a URL.
    pub(crate) fn request(&self, method: Method, url: String, body: Bytes, answer: AnswerForm) -> Request {
        Request { method, url, headers: self.headers.clone(), body, answer }
    }

    /// Gives headers their names and meaning at this vendor.
    fn headers(&self, built: HeaderMap) -> Result<HeaderMap> {
        let mut headers = self.headers.clone();
        let mut last = None;
        for (name, value) in built {
            // Further values of one name come without it.
            let Some(name) = name.or_else(|| last.clone()) else { continue };
            last = Some(name.clone());
            match &self.if_absent {
                IfAbsent::ForbidOverwrite(header) if name == IF_NONE_MATCH && value == "*" => {
                    headers.append(header, HeaderValue::from_static("true"));
                }
                _ => {
                    headers.append(self.name(name)?, value);
                }
            }
        }
        Ok(headers)
    }

    fn name(&self, built: HeaderName) -> Result<HeaderName> {
        match built.as_str().strip_prefix(BUILT_PREFIX) {
            Some(rest) if self.header_prefix != BUILT_PREFIX => {
                let name = format!("{}{rest}", self.header_prefix);
                HeaderName::try_from(name).map_err(|_| strange("a header without a name"))
            }
            _ => Ok(built),
        }
    }
}

impl Translate for Wire {
    fn translate(&self, request: http::Request<Bytes>) -> Result<Request> {
        let (mut parts, body) = request.into_parts();
        let built = parts.uri.to_string();
        let (path, query) = built.split_once('?').unwrap_or((&built, ""));
        let key = path.strip_prefix(&self.built).ok_or_else(|| strange("a URL outside the bucket"))?;
        let key = decode_once(key)?;
        let query: Vec<String> = query.split('&').filter(|p| !p.is_empty()).map(encode_pair).collect::<Result<_>>()?;
        let url = self.address.url(&key, &query.join("&"));

        let is_copy = parts.headers.contains_key(&COPY_SOURCE);
        if let Some(source) = parts.headers.remove(&COPY_SOURCE) {
            let source = source.to_str().map_err(|_| strange("a copy source that is no text"))?;
            let (source, version) = source.split_once('?').map_or((source, None), |(s, v)| (s, Some(v)));
            let mut source = format!("{}{}", self.copy_source_root, decode_once(source)?);
            if let Some(version) = version {
                source = format!("{source}?{version}");
            }
            let source = HeaderValue::from_str(&source).map_err(|_| strange("a copy source that is no header"))?;
            parts.headers.insert(COPY_SOURCE, source);
        }
        let mut headers = self.headers(parts.headers)?;
        let has = |name: &str| query.iter().any(|pair| pair.split('=').next() == Some(name));
        if (parts.method == Method::PUT && !has("partNumber")) || (parts.method == Method::POST && has("uploads")) {
            headers.extend(self.write_headers.clone());
        }
        let answer = if parts.method == Method::POST || is_copy { AnswerForm::Document } else { AnswerForm::Bytes };
        Ok(Request { method: parts.method, url, headers, body, answer })
    }
}

fn encode_pair(pair: &str) -> Result<String> {
    Ok(match pair.split_once('=') {
        Some((name, value)) => format!("{}={}", encode_query(&decode_once(name)?), encode_query(&decode_once(value)?)),
        None => encode_query(&decode_once(pair)?),
    })
}

fn decode_once(text: &str) -> Result<String> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| strange("a path that is no text"))
}

fn strange(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the request builder made {what}"))
        .with_hint("this is a defect of this crate: please report it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::bucket::address::{Addressing, Endpoint, encode_key};

    fn wire() -> Wire {
        let endpoint = Endpoint::parse("http://127.0.0.1:9000", "test").expect("valid");
        Wire {
            address: BucketAddress::new(&endpoint, Addressing::Path, "bkt"),
            built: format!("{PLACEHOLDER}/bkt/"),
            headers: HeaderMap::from_iter([(HeaderName::from_static("x-more"), HeaderValue::from_static("1"))]),
            write_headers: HeaderMap::new(),
            header_prefix: BUILT_PREFIX,
            if_absent: IfAbsent::IfNoneMatch,
            copy_source_root: "",
        }
    }

    #[test]
    fn one_encoding_is_taken_off_keys_and_copy_sources() {
        let key = " a+b%2F/é?# ";
        let twice = encode_key(&encode_key(key));
        let request = http::Request::put(format!("{PLACEHOLDER}/bkt/{twice}"))
            .header("x-amz-copy-source", format!("bkt/{twice}?versionId=a%2Bb"))
            .body(Bytes::new())
            .expect("valid");
        let sent = wire().translate(request).expect("valid");
        assert_eq!(sent.url, format!("http://127.0.0.1:9000/bkt/{}", encode_key(key)));
        assert_eq!(sent.headers["x-amz-copy-source"], format!("bkt/{}?versionId=a%2Bb", encode_key(key)));
        assert_eq!(sent.answer, AnswerForm::Document);
    }

    #[test]
    fn queries_are_encoded_as_the_signature_wants_them() {
        let request = http::Request::put(format!("{PLACEHOLDER}/bkt/k?partNumber=2&uploadId=2~a/b%2Bc%3D"))
            .body(Bytes::from_static(b"x"))
            .expect("valid");
        let sent = wire().translate(request).expect("valid");
        assert_eq!(sent.url, "http://127.0.0.1:9000/bkt/k?partNumber=2&uploadId=2~a%2Fb%2Bc%3D");
        assert_eq!(sent.answer, AnswerForm::Bytes);
        let outside = http::Request::get("http://elsewhere/bkt/k").body(Bytes::new()).expect("valid");
        assert!(wire().translate(outside).is_err());
    }

    #[test]
    fn headers_become_the_vendors() {
        let build = || {
            http::Request::put(format!("{PLACEHOLDER}/bkt/k"))
                .header("x-amz-meta-a", "b")
                .header("x-amz-copy-source", "bkt/s%2520x")
                .header("if-none-match", "*")
                .body(Bytes::new())
                .expect("valid")
        };
        let forbid = HeaderName::from_static("x-oss-forbid-overwrite");
        let oss = Wire {
            header_prefix: "x-oss-",
            if_absent: IfAbsent::ForbidOverwrite(forbid),
            copy_source_root: "/",
            ..wire()
        };
        for (wire, expected) in [
            (
                wire(),
                [("x-amz-meta-a", "b"), ("x-amz-copy-source", "bkt/s%20x"), ("if-none-match", "*"), ("x-more", "1")],
            ),
            (
                oss,
                [
                    ("x-oss-meta-a", "b"),
                    ("x-oss-copy-source", "/bkt/s%20x"),
                    ("x-oss-forbid-overwrite", "true"),
                    ("x-more", "1"),
                ],
            ),
        ] {
            let headers = wire.translate(build()).expect("valid").headers;
            assert_eq!(headers.len(), expected.len(), "{headers:?}");
            for (name, value) in expected {
                assert_eq!(headers[name], value, "{name}");
            }
        }
    }

    #[test]
    fn headers_of_writes_are_sent_where_an_object_is_made() {
        let write_headers = [(HeaderName::from_static("x-write"), HeaderValue::from_static("1"))];
        let wire = Wire { write_headers: HeaderMap::from_iter(write_headers), ..wire() };
        for (method, query, expected) in [
            (Method::PUT, "", true),
            (Method::POST, "?uploads", true),
            (Method::POST, "?uploads=", true),
            (Method::PUT, "?partNumber=1&uploadId=a", false),
            (Method::POST, "?uploadId=a", false),
            (Method::HEAD, "", false),
            (Method::DELETE, "", false),
        ] {
            let url = format!("{PLACEHOLDER}/bkt/k{query}");
            let request = http::Request::builder().method(&method).uri(url).body(Bytes::new()).expect("valid");
            let sent = wire.translate(request).expect("valid");
            assert_eq!(sent.headers.contains_key("x-write"), expected, "{method} {query}");
        }
    }
}
