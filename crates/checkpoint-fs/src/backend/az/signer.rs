//! Authorizing requests: the signature with an account's key, a shared access signature, or a token.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;

use super::batch;
use super::wire::{COPY_SOURCE, DATE};
use crate::credentials::Credentials;
use crate::credentials::azure::Authorization;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Signer;
use crate::transport::signing::mac;

/// Headers whose values are signed by position, after the length.
const SIGNED: [&str; 8] = [
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// Authorizes requests as their credentials ask for, and each request inside of a batch by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct AzSigner;

impl Signer for AzSigner {
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, now: SystemTime) -> Result<()> {
        let authorization = Authorization::of(credentials);
        let date =
            DateTime::from(now).fmt(Format::HttpDate).map_err(|e| cannot("the time is out of range").with_source(e))?;
        if batch::is_batch(request.headers()) {
            let body = batch::authorize(request.body(), |path, headers| {
                headers.insert(DATE, HeaderValue::from_str(&date).map_err(header)?);
                authorize(&authorization, &Method::DELETE, path, headers, 0)
            })?;
            *request.body_mut() = body;
        }
        request.headers_mut().insert(DATE, HeaderValue::from_str(&date).map_err(header)?);
        let length = request.body().len();
        let method = request.method().clone();
        let mut url = request.uri().to_string();
        authorize(&authorization, &method, &mut url, request.headers_mut(), length)?;
        *request.uri_mut() = url.parse::<Uri>().map_err(|_| cannot("the signed URL cannot be sent"))?;
        Ok(())
    }
}

/// Adds what authorizes a request for a URL (or, inside of a batch, for a path).
fn authorize(
    authorization: &Authorization<'_>,
    method: &Method,
    url: &mut String,
    headers: &mut HeaderMap,
    length: usize,
) -> Result<()> {
    match authorization {
        Authorization::SharedKey { account, key } => {
            let text = text_to_sign(method, account, url, headers, length);
            let value = format!("SharedKey {account}:{}", signature(key, &text)?);
            headers.insert(AUTHORIZATION, secret(&value)?);
        }
        Authorization::Bearer(token) => {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {token}"))?);
        }
        Authorization::Sas(query) => {
            append(url, query);
            // What is copied is read with the same right.
            if let Some(source) = headers.get(&COPY_SOURCE).and_then(|s| s.to_str().ok()) {
                let mut source = source.to_owned();
                append(&mut source, query);
                headers.insert(COPY_SOURCE, secret(&source)?);
            }
        }
    }
    Ok(())
}

fn append(url: &mut String, query: &str) {
    url.push(if url.contains('?') { '&' } else { '?' });
    url.push_str(query);
}

/// A header's value that no `Debug` output shows.
fn secret(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(header)?;
    value.set_sensitive(true);
    Ok(value)
}

fn header(_: http::header::InvalidHeaderValue) -> Error {
    cannot("the credentials cannot stand in a header")
}

fn cannot(why: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, format!("the request cannot be signed: {why}"))
}

fn signature(key: &str, text: &str) -> Result<String> {
    let key = BASE64_STANDARD.decode(key).map_err(|_| cannot("the account's key is not base64"))?;
    Ok(BASE64_STANDARD.encode(mac(&key, text)?))
}

/// The text that the signature covers.
fn text_to_sign(method: &Method, account: &str, url: &str, headers: &HeaderMap, length: usize) -> String {
    let value = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let mut text = format!("{method}\n{}\n{}\n", value("content-encoding"), value("content-language"));
    if length > 0 {
        text.push_str(&length.to_string());
    }
    text.push('\n');
    for name in SIGNED {
        text.push_str(value(name));
        text.push('\n');
    }
    let mut own: Vec<(&HeaderName, &HeaderValue)> =
        headers.iter().filter(|(name, _)| name.as_str().starts_with("x-ms-")).collect();
    own.sort_by(|(a, _), (b, _)| in_service_order(a.as_str(), b.as_str()));
    for (name, value) in own {
        let value = String::from_utf8_lossy(value.as_bytes());
        text.push_str(name.as_str());
        text.push(':');
        text.push_str(value.trim());
        text.push('\n');
    }
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let path_at = url[after_scheme..].find('/').map_or(url.len(), |at| after_scheme + at);
    let (path, query) = url[path_at..].split_once('?').unwrap_or((&url[path_at..], ""));
    text.push('/');
    text.push_str(account);
    text.push_str(if path.is_empty() { "/" } else { path });
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|p| !p.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name).to_lowercase(), decoded(value))
        })
        .collect();
    pairs.sort();
    for (name, value) in pairs {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{name}:{value}");
    }
    text
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The service sorts header names as words: hyphens do not count, other marks come first, then digits, then
/// letters.
fn in_service_order(a: &str, b: &str) -> Ordering {
    let weights = |name: &str| -> Vec<(u8, u8)> {
        let weight = |b: u8| match b {
            b'0'..=b'9' => (1, b),
            b'a'..=b'z' => (2, b),
            _ => (0, b),
        };
        name.bytes().filter(|b| *b != b'-').map(weight).collect()
    };
    weights(a).cmp(&weights(b)).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::credentials::azure::{bearer, sas, shared_key};

    const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const URL: &str = "https://acct.blob.core.windows.net/data/a%20b?comp=block&BlockId=a%2Bb%3D";

    fn signed(credentials: &Credentials, url: &str, headers: &[(&str, &str)], body: &str) -> http::Request<Bytes> {
        let mut request = http::Request::put(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Bytes::copy_from_slice(body.as_bytes())).expect("valid");
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        AzSigner.sign(&mut request, credentials, now).expect("signs");
        request
    }

    #[test]
    fn the_text_to_sign_is_the_documented_one() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/plain"),
            ("if-none-match", "*"),
            ("x-ms-version", "2023-11-03"),
            ("x-ms-date", "Tue, 14 Nov 2023 22:13:20 GMT"),
            ("x-ms-blob-type", "BlockBlob"),
            ("user-agent", "not signed"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let text = text_to_sign(&Method::PUT, "acct", URL, &headers, 5);
        let expected = "PUT\n\n\n5\n\ntext/plain\n\n\n\n*\n\n\nx-ms-blob-type:BlockBlob\n\
                        x-ms-date:Tue, 14 Nov 2023 22:13:20 GMT\nx-ms-version:2023-11-03\n\
                        /acct/data/a%20b\nblockid:a+b=\ncomp:block";
        assert_eq!(text, expected);
        let empty = text_to_sign(&Method::GET, "acct", "https://acct.blob.core.windows.net", &HeaderMap::new(), 0);
        assert_eq!(empty, format!("GET\n{}/acct/", "\n".repeat(11)));
    }

    /// Requests that Microsoft's own client signed; see `fixtures/signing/azure_shared_key.py`.
    #[test]
    fn signatures_are_those_of_the_official_client() {
        let vectors: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../../../../../fixtures/signing/azure_shared_key.json")).expect("JSON");
        assert_eq!(vectors.len(), 4);
        for vector in vectors {
            let text = |key: &str| vector[key].as_str().expect("text");
            let headers = vector["headers"].as_object().expect("headers");
            let headers: Vec<_> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str().expect("text"))).collect();
            let request = signed(&shared_key("devstoreaccount1", KEY), text("url"), &headers, text("body"));
            assert_eq!(request.headers()[AUTHORIZATION], text("authorization"), "{}", text("url"));
        }
    }

    #[test]
    fn header_names_are_sorted_as_words() {
        let mut names =
            ["x-ms-meta-a1", "x-ms-meta-a_b", "x-ms-meta-ab", "x-ms-version", "x-ms-date", "x-ms-copy-source"];
        names.sort_by(|a, b| in_service_order(a, b));
        let expected =
            ["x-ms-copy-source", "x-ms-date", "x-ms-meta-a_b", "x-ms-meta-a1", "x-ms-meta-ab", "x-ms-version"];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_shared_access_signature_goes_into_the_urls_and_a_token_into_a_header() {
        let headers = [("x-ms-copy-source", "https://acct.blob.core.windows.net/data/x")];
        let request = signed(&sas("sv=1&sig=s%3D"), URL, &headers, "");
        assert_eq!(request.uri().to_string(), format!("{URL}&sv=1&sig=s%3D"));
        assert_eq!(request.headers()[&COPY_SOURCE], "https://acct.blob.core.windows.net/data/x?sv=1&sig=s%3D");
        assert!(!request.headers().contains_key(AUTHORIZATION));
        assert!(!format!("{:?}", request.headers()).contains("s%3D"));

        let request = signed(&bearer("app", "eyJ0", None), URL, &[], "");
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer eyJ0");
        assert!(!format!("{:?}", request.headers()).contains("eyJ0"));
    }

    #[test]
    fn a_key_that_is_no_base64_is_an_error_without_the_key() {
        let mut request = http::Request::get(URL).body(Bytes::new()).expect("valid");
        let error = AzSigner.sign(&mut request, &shared_key("acct", "hunter2!"), UNIX_EPOCH).expect_err("no base64");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
