//! AWS Signature Version 4, as S3 and COS take it.

use std::time::SystemTime;

use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};

use super::Signer;
use super::dialect::unsigned;
use crate::credentials::Credentials;
use crate::error::Result;

/// Bodies above this go out with an unsigned payload over TLS, which protects them already.
const SIGNED_PAYLOAD_LIMIT: usize = 1 << 20;

/// Signs for one region. The digest of the body is signed over plain HTTP, always, and over TLS for
/// bodies up to 1 MiB or when asked for.
#[derive(Debug, Clone)]
pub(crate) struct SigV4 {
    pub(crate) region: String,
    pub(crate) service: &'static str,
    pub(crate) always_sign_payload: bool,
}

impl SigV4 {
    fn body<'a>(&self, request: &'a http::Request<Bytes>) -> SignableBody<'a> {
        let encrypted = request.uri().scheme_str() == Some("https");
        if encrypted && !self.always_sign_payload && request.body().len() > SIGNED_PAYLOAD_LIMIT {
            SignableBody::UnsignedPayload
        } else {
            SignableBody::Bytes(request.body())
        }
    }
}

impl Signer for SigV4 {
    fn sign(&self, request: &mut http::Request<Bytes>, credentials: &Credentials, now: SystemTime) -> Result<()> {
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        settings.excluded_headers.get_or_insert_default().push(CONTENT_LENGTH.as_str().into());

        let identity = aws_credential_types::Credentials::new(
            credentials.access_key_id(),
            credentials.secret_access_key().expose(),
            credentials.session_token().map(|t| t.expose().to_owned()),
            None,
            "checkpoint-fs",
        )
        .into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(settings)
            .build()
            .map_err(unsigned)?
            .into();
        let headers: Vec<(&str, &str)> = request
            .headers()
            .iter()
            .map(|(name, value)| Ok((name.as_str(), value.to_str().map_err(unsigned)?)))
            .collect::<Result<_>>()?;
        let uri = request.uri().to_string();
        let signable = SignableRequest::new(request.method().as_str(), uri, headers.into_iter(), self.body(request))
            .map_err(unsigned)?;
        let (instructions, _) = sign(signable, &params).map_err(unsigned)?.into_parts();
        for header in instructions.into_parts().0 {
            let mut value = HeaderValue::from_str(header.value()).map_err(unsigned)?;
            value.set_sensitive(header.sensitive() || header.name() == "authorization");
            request.headers_mut().insert(header.name(), value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// The key pair of the examples in the S3 API reference, "Authenticating Requests".
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn signed(method: &str, uri: &str, headers: &[(&str, &str)], body: &'static str) -> http::Request<Bytes> {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Bytes::from_static(body.as_bytes())).expect("valid");
        let signer = SigV4 { region: "us-east-1".to_owned(), service: "s3", always_sign_payload: false };
        // 2013-05-24T00:00:00Z
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        signer.sign(&mut request, &Credentials::new(KEY, SECRET), now).expect("signs");
        request
    }

    fn signature(request: &http::Request<Bytes>) -> &str {
        let text = request.headers()["authorization"].to_str().expect("text");
        text.rsplit_once("Signature=").expect("has one").1
    }

    #[test]
    fn published_vectors() {
        const HOST: &str = "https://examplebucket.s3.amazonaws.com";
        for (method, path, headers, body, expected) in [
            (
                "GET",
                "/test.txt",
                &[("range", "bytes=0-9")][..],
                "",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                &[("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
                "Welcome to Amazon S3.",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            ("GET", "/?lifecycle", &[], "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
            (
                "GET",
                "/?max-keys=2&prefix=J",
                &[],
                "",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let request = signed(method, &format!("{HOST}{path}"), headers, body);
            assert_eq!(signature(&request), expected, "{method} {path}");
        }
    }

    #[test]
    fn the_payload_is_unsigned_only_for_large_bodies_over_tls() {
        let large: &'static str = Box::leak("x".repeat(SIGNED_PAYLOAD_LIMIT + 1).into_boxed_str());
        let digest = |scheme: &str, body| {
            let request = signed("PUT", &format!("{scheme}://host/bucket/key"), &[], body);
            request.headers()["x-amz-content-sha256"].to_str().expect("text").to_owned()
        };
        assert_eq!(digest("https", large), "UNSIGNED-PAYLOAD");
        assert_eq!(digest("http", large).len(), 64);
        assert_eq!(digest("https", "small").len(), 64);
    }

    #[test]
    fn signatures_and_tokens_are_marked_as_secret() {
        let mut request = http::Request::get("http://host/bucket/key").body(Bytes::new()).expect("valid");
        let signer = SigV4 { region: "us-east-1".to_owned(), service: "s3", always_sign_payload: false };
        let credentials = Credentials::new(KEY, SECRET).with_session_token(Some("TOKEN-OF-THE-SESSION".to_owned()));
        signer.sign(&mut request, &credentials, UNIX_EPOCH + Duration::from_secs(1_369_353_600)).expect("signs");
        assert_eq!(request.headers()["x-amz-security-token"], "TOKEN-OF-THE-SESSION");
        let shown = format!("{:?}", request.headers());
        assert!(!shown.contains("TOKEN-OF") && !shown.contains("Signature="), "{shown}");
    }
}
