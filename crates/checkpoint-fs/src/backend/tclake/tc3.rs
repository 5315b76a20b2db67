//! TC3-HMAC-SHA256, the signature of Tencent Cloud's API 3.0.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use bytes::Bytes;
use http::HeaderValue;

use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Signer;
use crate::transport::signing::{digest, hex, mac};

const ALGORITHM: &str = "TC3-HMAC-SHA256";
/// The end of the scope, and of the chain of keys.
const TERMINATOR: &str = "tc3_request";
/// The headers that clients of `tccatalog` sign.
pub(super) const SIGNED_HEADERS: &[&str] = &["content-type", "host"];

/// Signs POST requests for one service. The session token, where there is one, goes along unsigned, as
/// the API wants it.
#[derive(Debug, Clone)]
pub(super) struct Tc3 {
    pub(super) service: &'static str,
    /// In alphabetical order, lower case.
    pub(super) signed_headers: &'static [&'static str],
}

impl Signer for Tc3 {
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, now: SystemTime) -> Result<()> {
        let timestamp = now.duration_since(SystemTime::UNIX_EPOCH).map_err(failed)?.as_secs();
        let date = date_of(timestamp)?;
        let scope = format!("{date}/{}/{TERMINATOR}", self.service);
        let canonical = self.canonical(request)?;
        let text = text_to_sign(timestamp, &scope, &canonical);
        let [.., key] = signing_keys(credentials.secret_access_key().expose(), &date, self.service)?;
        let signature = hex(&mac(&key, &text)?);
        let names = self.signed_headers.join(";");
        let id = credentials.access_key_id();
        let authorization =
            format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
        let headers = request.headers_mut();
        headers.insert("x-tc-timestamp", HeaderValue::from(timestamp));
        headers.insert("authorization", secret_value(&authorization)?);
        if let Some(token) = credentials.session_token() {
            headers.insert("x-tc-token", secret_value(token.expose())?);
        }
        Ok(())
    }
}

impl Tc3 {
    /// The request as both sides write it down before they sign: every value in lower case.
    fn canonical(&self, request: &http::Request<Bytes>) -> Result<String> {
        let mut headers = String::new();
        for name in self.signed_headers {
            let value = match *name {
                "host" => request.uri().authority().map_or("", |a| a.as_str()),
                name => request.headers().get(name).map_or(Ok(""), |v| v.to_str()).map_err(failed)?,
            };
            headers.push_str(&format!("{name}:{}\n", value.trim().to_lowercase()));
        }
        let digest = digest(request.body());
        Ok(format!("POST\n/\n\n{headers}\n{}\n{digest}", self.signed_headers.join(";")))
    }
}

fn text_to_sign(timestamp: u64, scope: &str, canonical: &str) -> String {
    format!("{ALGORITHM}\n{timestamp}\n{scope}\n{}", digest(canonical.as_bytes()))
}

/// The keys of a day, of a service in it, and of the requests to that.
fn signing_keys(secret: &str, date: &str, service: &str) -> Result<[[u8; 32]; 3]> {
    let day = mac(format!("TC3{secret}").as_bytes(), date)?;
    let service = mac(&day, service)?;
    let requests = mac(&service, TERMINATOR)?;
    Ok([day, service, requests])
}

/// The day in UTC, as `2019-02-25`.
fn date_of(timestamp: u64) -> Result<String> {
    let seconds = i64::try_from(timestamp).map_err(failed)?;
    let text = DateTime::from_secs(seconds).fmt(Format::DateTime).map_err(failed)?;
    Ok(text.split('T').next().unwrap_or_default().to_owned())
}

fn secret_value(text: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).map_err(failed)?;
    value.set_sensitive(true);
    Ok(value)
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, "the request to the catalog could not be signed")
        .with_hint("check that secret ID, token and region hold no line breaks, and this machine's clock")
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    fn fixture() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/signing/tc3.json");
        serde_json::from_slice(&std::fs::read(path).expect("the fixture is there")).expect("JSON")
    }

    fn text<'v>(value: &'v Value, key: &str) -> &'v str {
        value[key].as_str().unwrap_or_else(|| panic!("no text `{key}`"))
    }

    fn request(sent: &Value) -> http::Request<Bytes> {
        http::Request::post(text(sent, "url"))
            .header("content-type", text(sent, "content_type"))
            .header("x-tc-action", text(sent, "action"))
            .body(Bytes::from(text(sent, "body").to_owned()))
            .expect("valid")
    }

    #[test]
    fn published_vectors_in_every_step() {
        const ACTION_TOO: &[&str] = &["content-type", "host", "x-tc-action"];
        let fixture = fixture();
        let sent = &fixture["request"];
        let timestamp = sent["timestamp"].as_u64().expect("a number");
        assert_eq!(date_of(timestamp).expect("a date"), text(sent, "date"));
        assert_eq!(digest(text(sent, "body").as_bytes()), text(sent, "body_sha256"));
        let vectors = fixture["vectors"].as_array().expect("a list");
        assert_eq!(vectors.len(), 2);
        for vector in vectors {
            let name = text(vector, "name");
            let signed_headers = [SIGNED_HEADERS, ACTION_TOO]
                .into_iter()
                .find(|headers| headers.join(";") == text(vector, "signed_headers"))
                .expect("known headers");
            let signer = Tc3 { service: "cvm", signed_headers };
            let mut request = request(sent);
            let canonical = signer.canonical(&request).expect("writes");
            assert_eq!(digest(canonical.as_bytes()), text(vector, "canonical_sha256"), "{name}");
            let keys = signing_keys(text(vector, "secret_key"), text(sent, "date"), text(sent, "service"));
            for (key, step) in keys.expect("keys").iter().zip(["secret_date", "secret_service", "secret_signing"]) {
                assert_eq!(hex(key), text(vector, step), "{name}: {step}");
            }
            let credentials = Credentials::new(text(vector, "secret_id"), text(vector, "secret_key"));
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(timestamp);
            signer.sign(&mut request, &credentials, now).expect("signs");
            let expected = format!(
                "TC3-HMAC-SHA256 Credential={}/2019-02-25/cvm/tc3_request, SignedHeaders={}, Signature={}",
                text(vector, "secret_id"),
                text(vector, "signed_headers"),
                text(vector, "signature"),
            );
            assert_eq!(request.headers()["authorization"], expected.as_str(), "{name}");
            assert_eq!(request.headers()["x-tc-timestamp"], timestamp.to_string().as_str());
        }
    }

    #[test]
    fn the_host_is_signed_with_its_port_and_the_token_goes_unsigned_and_hidden() {
        let mut request = http::Request::post("http://127.0.0.1:4711/")
            .header("content-type", "application/json")
            .body(Bytes::from_static(b"{}"))
            .expect("valid");
        let signer = Tc3 { service: "tccatalog", signed_headers: SIGNED_HEADERS };
        let canonical = signer.canonical(&request).expect("writes");
        assert!(canonical.contains("\nhost:127.0.0.1:4711\n"), "{canonical}");
        let credentials = Credentials::new("AKID", "hunter2").with_session_token(Some("T0KEN".to_owned()));
        signer.sign(&mut request, &credentials, SystemTime::UNIX_EPOCH + Duration::from_secs(1)).expect("signs");
        assert_eq!(signer.canonical(&request).expect("writes"), canonical);
        assert_eq!(request.headers()["x-tc-token"], "T0KEN");
        let shown = format!("{:?}", request.headers());
        assert!(!shown.contains("T0KEN") && !shown.contains("Signature"), "{shown}");
    }

    #[test]
    fn the_day_is_that_of_utc() {
        for (timestamp, day) in [(0, "1970-01-01"), (86_399, "1970-01-01"), (1_582_934_400, "2020-02-29")] {
            assert_eq!(date_of(timestamp).expect("a date"), day);
        }
    }
}
