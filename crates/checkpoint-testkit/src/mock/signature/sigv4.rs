//! AWS Signature Version 4 in the `Authorization` header, for S3.

use super::{MAX_SKEW, field, hmac_sha256, sha256_hex};
use crate::mock::clock::parse_basic;
use crate::mock::digest::hex;
use crate::mock::keys::{Identity, KeyRing};
use crate::mock::refusal::Refusal;
use crate::mock::request::{Arrived, encode, encode_path};

/// Headers whose meaning must be under the signature when they are there, by the start of their names.
const MUST_SIGN: [&str; 4] = ["host", "content-md5", "x-amz-", "x-cos-"];

/// Checks the signature of a request; gives who signed.
///
/// # Errors
/// As the service answers.
pub(crate) fn verify_sigv4(request: &Arrived, keys: &KeyRing, now: i64) -> Result<Identity, Refusal> {
    let malformed = |what: &str| {
        let message = format!("The authorization header you provided is invalid: {what}");
        Refusal::new(400, "AuthorizationHeaderMalformed", message)
    };
    let given = request.header("authorization").unwrap_or_default();
    let list = given.strip_prefix("AWS4-HMAC-SHA256").ok_or_else(|| malformed("algorithm"))?;
    let credential = field(list, ',', "Credential").ok_or_else(|| malformed("Credential"))?;
    let signed = field(list, ',', "SignedHeaders").ok_or_else(|| malformed("SignedHeaders"))?;
    let signature = field(list, ',', "Signature").ok_or_else(|| malformed("Signature"))?;
    let [id, day, region, "s3", "aws4_request"] = credential.split('/').collect::<Vec<_>>()[..] else {
        return Err(malformed("Credential"));
    };
    if region.is_empty() {
        return Err(malformed("region"));
    }

    let moment = request.header("x-amz-date").ok_or_else(|| Refusal::access_denied("x-amz-date is missing"))?;
    let seconds = parse_basic(moment).ok_or_else(|| Refusal::access_denied("x-amz-date is no date"))?;
    if !moment.starts_with(day) {
        return Err(malformed("the day of the credential is another than that of x-amz-date"));
    }
    let names: Vec<&str> = signed.split(';').collect();
    if !names.is_sorted() {
        return Err(malformed("SignedHeaders are not sorted"));
    }
    let must = |name: &str| MUST_SIGN.iter().any(|m| if m.ends_with('-') { name.starts_with(m) } else { name == *m });
    if let Some((name, _)) = request.headers.iter().find(|(name, _)| must(name) && !names.contains(&name.as_str())) {
        return Err(Refusal::access_denied("There were headers present in the request which were not signed")
            .with("HeadersNotSigned", name));
    }

    let identity = keys.get(id).ok_or_else(|| {
        Refusal::new(403, "InvalidAccessKeyId", "The Access Key Id you provided does not exist in our records")
            .with("AWSAccessKeyId", id)
    })?;
    if (now - seconds).abs() > MAX_SKEW {
        let message = "The difference between the request time and the server's time is too large.";
        return Err(Refusal::new(403, "RequestTimeTooSkewed", message).with("RequestTime", moment));
    }

    let payload = request.header("x-amz-content-sha256");
    let payload = payload.ok_or_else(|| {
        Refusal::new(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    })?;
    let canonical = canonical_request(request, &names, payload)?;
    let scope = format!("{day}/{region}/s3/aws4_request");
    let string_to_sign = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let key = [region, "s3", "aws4_request"]
        .iter()
        .fold(hmac_sha256(format!("AWS4{}", identity.secret).as_bytes(), day), |key, part| hmac_sha256(&key, part));
    if hex(&hmac_sha256(&key, &string_to_sign)) != signature {
        return Err(Refusal::new(403, "SignatureDoesNotMatch", "The Signature you specified is invalid.")
            .with("StringToSign", string_to_sign)
            .with("CanonicalRequest", canonical));
    }
    if payload != "UNSIGNED-PAYLOAD" && payload != sha256_hex(&request.body) {
        let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
        return Err(Refusal::new(400, "XAmzContentSHA256Mismatch", message));
    }
    Ok(identity)
}

fn canonical_request(request: &Arrived, names: &[&str], payload: &str) -> Result<String, Refusal> {
    let mut pairs: Vec<(String, String)> =
        request.pairs()?.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    pairs.sort();
    let query = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let mut headers = String::new();
    for name in names {
        let value = request.joined(name).unwrap_or_default();
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        headers.push_str(&format!("{name}:{value}\n"));
    }
    let path = encode_path(&request.decoded_path()?);
    Ok(format!("{}\n{path}\n{query}\n{headers}\n{}\n{payload}", request.method, names.join(";")))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The first example of the S3 API reference, "Authenticating Requests".
    fn example() -> (Arrived, KeyRing, i64) {
        const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let authorization = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
            SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
            Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", NOTHING),
            ("x-amz-date", "20130524T000000Z"),
            ("authorization", authorization),
        ];
        let request = Arrived {
            method: "GET".to_owned(),
            host: "examplebucket.s3.amazonaws.com".to_owned(),
            path: "/test.txt".to_owned(),
            query: String::new(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Bytes::new(),
        };
        let keys = KeyRing::default();
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned();
        keys.add("AKIAIOSFODNN7EXAMPLE", Identity { secret, token: None, expires_at: None, scope: None });
        (request, keys, 1_369_353_600)
    }

    #[test]
    fn a_published_signature_is_accepted_and_nothing_else() {
        let (request, keys, now) = example();
        verify_sigv4(&request, &keys, now).map(drop).expect("valid");
        let code = |change: &dyn Fn(&mut Arrived), now: i64| {
            let mut changed = request.clone();
            change(&mut changed);
            verify_sigv4(&changed, &keys, now).map(drop).expect_err("changed").code
        };
        assert_eq!(code(&|r| r.method = "PUT".to_owned(), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.path = "/test.tx".to_owned(), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.query = "x=1".to_owned(), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.headers[1].1 = "bytes=0-8".to_owned(), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.body = Bytes::from_static(b"x"), now), "XAmzContentSHA256Mismatch");
        assert_eq!(code(&|r| r.headers.push(("x-amz-meta-a".into(), "1".into())), now), "AccessDenied");
        assert_eq!(code(&|r| r.headers.push(("content-md5".into(), "1".into())), now), "AccessDenied");
        assert_eq!(code(&|_| {}, now + 901), "RequestTimeTooSkewed");
        assert_eq!(code(&|r| r.headers[4].1 = r.headers[4].1.replace("AKIAI", "AKIAJ"), now), "InvalidAccessKeyId");
    }
}
