//! Signature version 4 of Alibaba OSS, in the header.
//!
//! It looks like AWS's and differs in what is signed: the resource is always `/bucket/key`, however the
//! bucket is addressed; of the headers those of OSS itself, type and MD5, and others only by name; and of
//! the body nothing, since the service knows no other digest than `UNSIGNED-PAYLOAD`. What protects the
//! body is its `Content-MD5`, which the service checks, and which is signed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderName, HeaderValue};
use md5::{Digest, Md5};

use super::Signer;
use super::dialect::unsigned;
use super::signing::{digest, hex, mac};
use crate::credentials::Credentials;
use crate::error::Result;

const ALGORITHM: &str = "OSS4-HMAC-SHA256";
const SCOPE_END: &str = "oss/aliyun_v4_request";
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const OWN_PREFIX: &str = "x-oss-";
const OSS_DATE: HeaderName = HeaderName::from_static("x-oss-date");
const OSS_DIGEST: HeaderName = HeaderName::from_static("x-oss-content-sha256");
const OSS_TOKEN: HeaderName = HeaderName::from_static("x-oss-security-token");
const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// Bodies above this go out without a digest over TLS, which protects them already.
const DIGEST_LIMIT: usize = 1 << 20;

/// Signs requests for one bucket. The MD5 of the body is added where a request has none: over plain HTTP
/// always, and over TLS for bodies up to 1 MiB.
#[derive(Debug, Clone)]
pub(crate) struct Oss4 {
    pub(crate) region: String,
    pub(crate) bucket: String,
    /// Whether the URL's path begins with the bucket; otherwise the host stands for it.
    pub(crate) bucket_in_path: bool,
    /// Headers that are signed where a request has them, besides those that always are. In lower case.
    pub(crate) additional_headers: &'static [&'static str],
}

impl Oss4 {
    /// `/bucket/key`, encoded, from the path as it is sent.
    fn resource(&self, path: &str) -> Result<String> {
        if !self.bucket_in_path {
            return Ok(format!("/{}{path}", self.bucket));
        }
        match path.strip_prefix('/').and_then(|p| p.strip_prefix(self.bucket.as_str())) {
            Some("") => Ok(format!("{path}/")),
            Some(key) if key.starts_with('/') => Ok(path.to_owned()),
            _ => Err(unsigned("the path does not begin with the bucket")),
        }
    }
}

/// Adds the digest of the body, where it is wanted.
fn add_digest(request: &mut http::Request<Bytes>) -> Result<()> {
    let encrypted = request.uri().scheme_str() == Some("https");
    let is_protected = encrypted && request.body().len() > DIGEST_LIMIT;
    if request.body().is_empty() || is_protected || request.headers().contains_key(&CONTENT_MD5) {
        return Ok(());
    }
    let digest = plain(&BASE64_STANDARD.encode(Md5::digest(request.body())))?;
    request.headers_mut().insert(CONTENT_MD5, digest);
    Ok(())
}

impl Signer for Oss4 {
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, now: SystemTime) -> Result<()> {
        add_digest(request)?;
        let now = DateTime::from(now);
        let time = basic_time(now)?;
        let day = time.split_once('T').map_or(time.as_str(), |(day, _)| day);
        let headers = request.headers_mut();
        headers.insert(OSS_DATE, plain(&time)?);
        headers.insert(DATE, plain(&now.fmt(Format::HttpDate).map_err(unsigned)?)?);
        headers.insert(OSS_DIGEST, HeaderValue::from_static(UNSIGNED_PAYLOAD));
        if let Some(token) = credentials.session_token() {
            let mut token = plain(token.expose())?;
            token.set_sensitive(true);
            headers.insert(OSS_TOKEN, token);
        }

        let mut signed: BTreeMap<&str, String> = BTreeMap::new();
        let mut additional: Vec<&str> = Vec::new();
        for name in request.headers().keys() {
            let always = name.as_str().starts_with(OWN_PREFIX) || *name == CONTENT_TYPE || *name == CONTENT_MD5;
            if !always && !self.additional_headers.contains(&name.as_str()) {
                continue;
            }
            if !always {
                additional.push(name.as_str());
            }
            let values: Vec<&str> = request
                .headers()
                .get_all(name)
                .iter()
                .map(|value| value.to_str().map(str::trim).map_err(unsigned))
                .collect::<Result<_>>()?;
            signed.insert(name.as_str(), values.join(","));
        }
        additional.sort_unstable();
        let additional = additional.join(";");

        let mut canonical = format!(
            "{}\n{}\n{}\n",
            request.method(),
            self.resource(request.uri().path())?,
            canonical_query(request.uri().query().unwrap_or_default())
        );
        for (name, value) in &signed {
            canonical.push_str(name);
            canonical.push(':');
            canonical.push_str(value);
            canonical.push('\n');
        }
        canonical.push('\n');
        canonical.push_str(&additional);
        canonical.push('\n');
        canonical.push_str(UNSIGNED_PAYLOAD);

        let scope = format!("{day}/{}/{SCOPE_END}", self.region);
        let mut key = mac(format!("aliyun_v4{}", credentials.secret_access_key().expose()).as_bytes(), day)?;
        for part in std::iter::once(self.region.as_str()).chain(SCOPE_END.split('/')) {
            key = mac(&key, part)?;
        }
        let signature = hex(&mac(&key, &format!("{ALGORITHM}\n{time}\n{scope}\n{}", digest(canonical.as_bytes())))?);

        let mut text = format!("{ALGORITHM} Credential={}/{scope}", credentials.access_key_id());
        if !additional.is_empty() {
            text.push_str(",AdditionalHeaders=");
            text.push_str(&additional);
        }
        text.push_str(",Signature=");
        text.push_str(&signature);
        let mut value = plain(&text)?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        Ok(())
    }
}

/// `20231216T162057Z`
fn basic_time(now: DateTime) -> Result<String> {
    let whole = DateTime::from_secs(now.secs());
    let text = whole.fmt(Format::DateTime).map_err(unsigned)?;
    Ok(text.chars().filter(|c| !matches!(c, '-' | ':')).collect())
}

/// The pairs in order of their names; a name without a value loses its `=`.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(&str, &str)> =
        query.split('&').filter(|p| !p.is_empty()).map(|p| p.split_once('=').unwrap_or((p, ""))).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| if value.is_empty() { name.to_owned() } else { format!("{name}={value}") })
        .collect();
    pairs.join("&")
}

fn plain(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text).map_err(unsigned)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::Value;

    use super::*;
    use crate::error::ErrorKind;

    /// Requests that the vendor's own client built and signed; see `fixtures/signing/oss4.py`.
    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../../../fixtures/signing/oss4.json")).expect("JSON")
    }

    fn text(value: &Value) -> &str {
        value.as_str().expect("text")
    }

    /// The names of the vectors' additional headers, as the one list that the signer takes.
    const ADDITIONAL: &[&str] = &["range", "if-match", "content-type", "x-oss-date", "not-there"];

    fn unsigned(case: &Value) -> http::Request<Bytes> {
        let mut request = http::Request::builder().method(text(&case["method"])).uri(text(&case["url"]));
        for (name, value) in case["headers"].as_object().expect("an object") {
            request = request.header(name, text(value));
        }
        // The vendor's client sends no digest of most bodies; a body would get one here.
        request.body(Bytes::new()).expect("a request")
    }

    fn signer(set: &Value, case: &Value) -> Oss4 {
        Oss4 {
            region: text(&set["region"]).to_owned(),
            bucket: text(&set["bucket"]).to_owned(),
            bucket_in_path: text(&case["url"]).contains("//127.0.0.1"),
            additional_headers: if case["additional_headers"] == Value::Array(Vec::new()) { &[] } else { ADDITIONAL },
        }
    }

    fn time(set: &Value) -> SystemTime {
        // Fractions of a second are not part of the signed time.
        UNIX_EPOCH + Duration::from_secs(set["time"].as_u64().expect("a number")) + Duration::from_millis(999)
    }

    #[test]
    fn the_vendors_own_client_signs_the_same() {
        let set = vectors();
        let cases = set["cases"].as_array().expect("a list");
        assert!(cases.len() > 15);
        for case in cases {
            let credentials = Credentials::new(text(&set["access_key_id"]), text(&set["secret"]))
                .with_session_token(case["token"].as_str().map(str::to_owned));
            let mut request = unsigned(case);
            signer(&set, case).sign(&mut request, &credentials, time(&set)).expect("signs");
            assert_eq!(
                request.headers()["authorization"].to_str().expect("text"),
                text(&case["authorization"]),
                "{}",
                case["name"]
            );
            assert_eq!(request.headers()["date"], "Sat, 16 Dec 2023 16:20:57 GMT");
            assert_eq!(request.headers()["x-oss-date"], "20231216T162057Z");
        }
    }

    #[test]
    fn another_secret_region_bucket_or_header_signs_something_else() {
        let set = vectors();
        let case = &set["cases"][1];
        let sign = |signer: Oss4, secret: &str, change: fn(&mut http::Request<Bytes>)| {
            let mut request = unsigned(case);
            change(&mut request);
            let credentials = Credentials::new(text(&set["access_key_id"]), secret)
                .with_session_token(case["token"].as_str().map(str::to_owned));
            signer.sign(&mut request, &credentials, time(&set)).expect("signs");
            request.headers()["authorization"].to_str().expect("text").to_owned()
        };
        let own = || signer(&set, case);
        let secret = text(&set["secret"]);
        let right = sign(own(), secret, |_| {});
        assert_eq!(right, text(&case["authorization"]));
        let unsigned_header = |r: &mut http::Request<Bytes>| {
            r.headers_mut().insert("range", HeaderValue::from_static("bytes=0-1"));
        };
        assert_eq!(sign(own(), secret, unsigned_header), right);
        let signed_header = |r: &mut http::Request<Bytes>| {
            r.headers_mut().insert("x-oss-forbid-overwrite", HeaderValue::from_static("false"));
        };
        for other in [
            sign(own(), "another secret", |_| {}),
            sign(Oss4 { region: "cn-beijing".to_owned(), ..own() }, secret, |_| {}),
            sign(Oss4 { bucket: "another".to_owned(), ..own() }, secret, |_| {}),
            sign(own(), secret, signed_header),
        ] {
            assert_ne!(other, right);
        }
    }

    #[test]
    fn a_body_has_a_digest_unless_it_is_large_and_encrypted() {
        let set = vectors();
        let digest = |url: &'static str, given: Option<&'static str>, body: Bytes| {
            let mut request = http::Request::put(url).body(body).expect("a request");
            if let Some(given) = given {
                request.headers_mut().insert(CONTENT_MD5, HeaderValue::from_static(given));
            }
            let signer = Oss4 { bucket_in_path: true, ..signer(&set, &set["cases"][0]) };
            signer.sign(&mut request, &Credentials::new("AK", "SK"), time(&set)).expect("signs");
            request.headers().get("content-md5").map(|v| v.to_str().expect("text").to_owned())
        };
        let (http, https) = ("http://host/examplebucket/k", "https://host/examplebucket/k");
        let large = Bytes::from(vec![b'x'; DIGEST_LIMIT + 1]);
        assert_eq!(digest(https, None, "hello".into()).as_deref(), Some("XUFAKrxLKna5cZ2REBfFkg=="));
        assert_eq!(digest(https, Some("given"), "hello".into()).as_deref(), Some("given"));
        assert_eq!(digest(http, None, Bytes::new()), None);
        assert_eq!(digest(https, None, large.clone()), None);
        assert!(digest(http, None, large).is_some());
    }

    #[test]
    fn the_bucket_itself_ends_in_a_slash() {
        let set = vectors();
        let in_path = Oss4 { bucket_in_path: true, ..signer(&set, &set["cases"][0]) };
        assert_eq!(in_path.resource("/examplebucket").expect("valid"), "/examplebucket/");
        assert_eq!(in_path.resource("/examplebucket/a%20b").expect("valid"), "/examplebucket/a%20b");
        assert!(in_path.resource("/examplebucket2/k").is_err(), "another bucket");
        assert_eq!(canonical_query("uploads=&b=2&a=x%20y&b=1&delete"), "a=x%20y&b=1&b=2&delete&uploads");
    }

    #[test]
    fn signatures_and_tokens_are_marked_as_secret() {
        let set = vectors();
        let mut request = unsigned(&set["cases"][0]);
        let credentials = Credentials::new("AK", "SK").with_session_token(Some("TOKEN-OF-THE-SESSION".to_owned()));
        signer(&set, &set["cases"][0]).sign(&mut request, &credentials, time(&set)).expect("signs");
        let shown = format!("{:?}", request.headers());
        assert!(!shown.contains("TOKEN-OF") && !shown.contains("Signature="), "{shown}");
        let bad = Credentials::new("A\nK", "hunter2");
        let error = signer(&set, &set["cases"][0]).sign(&mut request, &bad, time(&set)).expect_err("a line break");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
