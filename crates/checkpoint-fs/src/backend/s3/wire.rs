//! Requests of one bucket as the service gets them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::percent_decode_str;

use super::config::S3Config;
use super::endpoint::{BucketAddress, encode_query};
use crate::backend::bridge::Translate;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{AnswerForm, Request};

/// The endpoint that OpenDAL builds its requests against; never sent.
pub(crate) const PLACEHOLDER: &str = "http://endpoint";

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-amz-request-payer");

/// Makes requests for one bucket, and turns OpenDAL's into them.
///
/// OpenDAL trims blanks and slashes off paths. So it never sees a key: it is given the key's encoded
/// form, which it encodes once more, and that second encoding is taken off here. What remains is exactly
/// the path that the signature wants.
#[derive(Debug, Clone)]
pub(crate) struct S3Wire {
    address: BucketAddress,
    prefix: String,
    requester_pays: bool,
}

impl S3Wire {
    pub(crate) fn new(config: &S3Config) -> Self {
        Self {
            address: config.address().clone(),
            prefix: format!("{PLACEHOLDER}/{}/", config.bucket()),
            requester_pays: config.requester_pays(),
        }
    }

    /// A request of our own for a URL.
    pub(crate) fn request(&self, method: Method, url: String, body: Bytes, answer: AnswerForm) -> Request {
        let mut headers = HeaderMap::new();
        self.add_payer(&mut headers);
        Request { method, url, headers, body, answer }
    }

    fn add_payer(&self, headers: &mut HeaderMap) {
        if self.requester_pays {
            headers.insert(REQUEST_PAYER, HeaderValue::from_static("requester"));
        }
    }
}

impl Translate for S3Wire {
    fn translate(&self, request: http::Request<Bytes>) -> Result<Request> {
        let (mut parts, body) = request.into_parts();
        let built = parts.uri.to_string();
        let (path, query) = built.split_once('?').unwrap_or((&built, ""));
        let key = path.strip_prefix(&self.prefix).ok_or_else(|| strange("a URL outside the bucket"))?;
        let key = decode_once(key)?;
        let query: Vec<String> = query.split('&').filter(|p| !p.is_empty()).map(encode_pair).collect::<Result<_>>()?;
        let url = self.address.url(&key, &query.join("&"));

        let is_copy = parts.headers.contains_key(&COPY_SOURCE);
        if let Some(source) = parts.headers.remove(&COPY_SOURCE) {
            let source = source.to_str().map_err(|_| strange("a copy source that is no text"))?;
            let (source, version) = source.split_once('?').map_or((source, None), |(s, v)| (s, Some(v)));
            let mut source = decode_once(source)?;
            if let Some(version) = version {
                source = format!("{source}?{version}");
            }
            let source = HeaderValue::from_str(&source).map_err(|_| strange("a copy source that is no header"))?;
            parts.headers.insert(COPY_SOURCE, source);
        }
        self.add_payer(&mut parts.headers);
        let answer = if parts.method == Method::POST || is_copy { AnswerForm::Document } else { AnswerForm::Bytes };
        Ok(Request { method: parts.method, url, headers: parts.headers, body, answer })
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
    use crate::backend::s3::endpoint::encode_key;
    use crate::registry::OpenContext;

    fn wire() -> S3Wire {
        let environment = [("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")].into_iter().collect();
        let context = OpenContext { environment, ..OpenContext::default() };
        S3Wire::new(&S3Config::resolve("bkt", &context).expect("valid"))
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
}
