//! A client that signs what it is told to send, right or wrong, and sends it as it is.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use checkpoint_testkit::mock::{CosMock, CosSettings};
use md5::{Digest, Md5};

/// The bucket of most tests.
pub(crate) const BUCKET: &str = "bkt-1250000000";

/// An answer.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Said {
    /// The status, and the code of a refusal.
    pub(crate) fn short(&self) -> (u16, &str) {
        (self.status, self.element("Code").unwrap_or_default())
    }

    /// The text of the first element of a name.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        let rest = self.body.split_once(&format!("<{name}>"))?.1;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    }
}

/// A client of COS by its S3 interface.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
    pub(crate) host: String,
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

/// A mock with a bucket, and a client of it.
pub(crate) fn cos() -> Result<(CosMock, Client)> {
    let mock = CosMock::start(CosSettings::default())?;
    mock.create_bucket(BUCKET);
    let settings = CosSettings::default();
    let client = Client::new(&mock.address(), &settings.secret_id, &settings.secret_key);
    Ok((mock, client))
}

impl Client {
    pub(crate) fn new(address: &str, id: &str, secret: &str) -> Self {
        Self {
            address: address.trim_start_matches("http://").to_owned(),
            host: format!("{BUCKET}.cos.ap-guangzhou.myqcloud.com"),
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: None,
        }
    }

    /// Sends a signed request; `target` is a path with its query, encoded.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Said> {
        let signed = self.signed(method, target, headers, body)?;
        let signed: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.send(method, target, &signed, body)
    }

    /// The headers of a request with its signature.
    pub(crate) fn signed(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Vec<(String, String)>> {
        let token = self.token.clone();
        let identity =
            aws_credential_types::Credentials::new(self.id.as_str(), self.secret.as_str(), token, None, "test").into();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        #[expect(clippy::disallowed_methods, reason = "the mock checks the time of a signature")]
        let now = SystemTime::now();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("ap-guangzhou")
            .name("s3")
            .time(now)
            .settings(settings)
            .build()?
            .into();
        let uri = format!("http://{}{target}", self.host);
        let signable = SignableRequest::new(method, uri, headers.iter().copied(), SignableBody::Bytes(body))?;
        let (instructions, _) = sign(signable, &params)?.into_parts();
        let mut all: Vec<(String, String)> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        for header in instructions.into_parts().0 {
            all.push((header.name().to_owned(), header.value().to_owned()));
        }
        Ok(all)
    }

    /// Sends a request as it is.
    pub(crate) fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Said> {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host);
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        if !headers.iter().any(|(name, _)| *name == "transfer-encoding") {
            write!(head, "Content-Length: {}\r\n", body.len())?;
        }
        let mut stream = TcpStream::connect(&self.address)?;
        stream.write_all(&[head.as_bytes(), b"\r\n", body].concat())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the answer is cut short")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.map_or(Ok(0), str::parse)?;
        ensure!(method == "HEAD" || body.len() == length, "the body is cut short");
        Ok(Said { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// Sends a delete of many keys, with its digest.
    pub(crate) fn delete(&self, keys: &[&str]) -> Result<Said> {
        let body = delete_body(keys);
        self.ask("POST", "/?delete=", &[("content-md5", &content_md5(&body))], body.as_bytes())
    }
}

/// The document that names keys to delete.
pub(crate) fn delete_body(keys: &[&str]) -> String {
    let objects: String = keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect();
    format!("<Delete><Quiet>true</Quiet>{objects}</Delete>")
}

pub(crate) fn content_md5(body: &str) -> String {
    BASE64_STANDARD.encode(Md5::digest(body.as_bytes()))
}
