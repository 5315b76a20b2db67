//! OSS's fourth signature in the `Authorization` header.

use super::{MAX_SKEW, field, hmac_sha256, sha256_hex};
use crate::mock::clock::parse_basic;
use crate::mock::digest::hex;
use crate::mock::keys::{Identity, KeyRing};
use crate::mock::refusal::Refusal;
use crate::mock::request::{Arrived, encode, encode_path};

/// The only payload that the service takes in this signature.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// Checks the signature of a request for `bucket` (empty for the service) in a region; gives who signed.
///
/// # Errors
/// As the service answers.
pub(crate) fn verify_oss4(
    request: &Arrived,
    bucket: &str,
    region: &str,
    keys: &KeyRing,
    now: i64,
) -> Result<Identity, Refusal> {
    let invalid = |message: &str| Refusal::invalid_argument(message).with("ArgumentName", "Authorization");
    let given = request.header("authorization").unwrap_or_default();
    let list = given
        .strip_prefix("OSS4-HMAC-SHA256 ")
        .ok_or_else(|| invalid("Unsupported Authorization Type").with_cause("0002-00000002"))?;
    let credential = field(list, ',', "Credential").ok_or_else(|| invalid("Credential is missing"))?;
    let signature = field(list, ',', "Signature").ok_or_else(|| invalid("Signature is missing"))?;
    let additional = field(list, ',', "AdditionalHeaders").unwrap_or_default();
    let [id, day, signed_region, "oss", "aliyun_v4_request"] = credential.split('/').collect::<Vec<_>>()[..] else {
        return Err(invalid("Invalid credential in Authorization header."));
    };
    if signed_region != region {
        let message = "Invalid signing region in Authorization header.";
        return Err(Refusal::invalid_argument(message).with("Authorization", given).with_cause("0002-00000226"));
    }
    let moment = request.header("x-oss-date").ok_or_else(|| invalid("x-oss-date is missing"))?;
    let seconds = parse_basic(moment).ok_or_else(|| invalid("x-oss-date is no date"))?;
    if !moment.starts_with(day) {
        return Err(invalid("Invalid signing date in Authorization header."));
    }
    if request.header("x-oss-content-sha256") != Some(UNSIGNED) {
        return Err(Refusal::invalid_argument("x-oss-content-sha256 must be UNSIGNED-PAYLOAD"));
    }
    let identity = keys.get(id).ok_or_else(|| {
        let message = "The OSS Access Key Id you provided does not exist in our records.";
        Refusal::new(403, "InvalidAccessKeyId", message).with("OSSAccessKeyId", id).with_cause("0002-00000902")
    })?;
    if (now - seconds).abs() > MAX_SKEW {
        let message = "The difference between the request time and the current time is too large.";
        return Err(Refusal::new(403, "RequestTimeTooSkewed", message)
            .with("RequestTime", moment)
            .with_cause("0002-00000504"));
    }

    let canonical = canonical_request(request, bucket, additional)?;
    let scope = format!("{day}/{region}/oss/aliyun_v4_request");
    let string_to_sign = format!("OSS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let key = [region, "oss", "aliyun_v4_request"]
        .iter()
        .fold(hmac_sha256(format!("aliyun_v4{}", identity.secret).as_bytes(), day), |key, part| {
            hmac_sha256(&key, part)
        });
    if hex(&hmac_sha256(&key, &string_to_sign)) != signature {
        let message = "The request signature we calculated does not match the signature you provided. Check your \
                       key and signing method.";
        return Err(Refusal::new(403, "SignatureDoesNotMatch", message)
            .with("OSSAccessKeyId", id)
            .with("SignatureProvided", signature)
            .with("StringToSign", string_to_sign)
            .with("CanonicalRequest", canonical)
            .with_cause("0002-00000040"));
    }
    Ok(identity)
}

fn canonical_request(request: &Arrived, bucket: &str, additional: &str) -> Result<String, Refusal> {
    let resource = if bucket.is_empty() { String::new() } else { format!("/{bucket}") };
    let path = encode_path(&format!("{resource}{}", request.decoded_path()?));
    let mut pairs: Vec<(String, String)> =
        request.pairs()?.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    pairs.sort();
    let query: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| if value.is_empty() { name } else { format!("{name}={value}") })
        .collect();
    let extra: Vec<&str> = additional.split(';').filter(|name| !name.is_empty()).collect();
    if !extra.is_sorted() || extra.iter().any(|name| name.to_lowercase() != *name) {
        return Err(Refusal::invalid_argument("AdditionalHeaders must be sorted and in lower case."));
    }
    let is_signed = |name: &str| {
        name.starts_with("x-oss-") || name == "content-type" || name == "content-md5" || extra.contains(&name)
    };
    let mut names: Vec<&str> =
        request.headers.iter().map(|(name, _)| name.as_str()).filter(|name| is_signed(name)).collect();
    names.sort_unstable();
    names.dedup();
    let headers: String =
        names.iter().map(|name| format!("{name}:{}\n", request.joined(name).unwrap_or_default())).collect();
    Ok(format!("{}\n{path}\n{}\n{headers}\n{additional}\n{UNSIGNED}", request.method, query.join("&")))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The example that the vendor's clients for many languages are tested with.
    fn example() -> (Arrived, KeyRing) {
        let authorization = "OSS4-HMAC-SHA256 Credential=ak/20231216/cn-hangzhou/oss/aliyun_v4_request,\
            Signature=e21d18daa82167720f9b1047ae7e7f1ce7cb77a31e8203a7d5f4624fa0284afe";
        let headers = [
            ("x-oss-head1", "value"),
            ("abc", "value"),
            ("content-type", "text/plain"),
            ("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
            ("x-oss-date", "20231216T162057Z"),
            ("authorization", authorization),
        ];
        let request = Arrived {
            method: "PUT".to_owned(),
            host: "bucket.oss-cn-hangzhou.aliyuncs.com".to_owned(),
            path: "/1234%2B-/123/1.txt".to_owned(),
            query: "param1=value1&%2Bparam1=value3&%7Cparam1=value4&%2Bparam2&%7Cparam2&param2".to_owned(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Bytes::from_static(b"anything"),
        };
        let keys = KeyRing::default();
        keys.add("ak", Identity { secret: "sk".to_owned(), token: None, expires_at: None, scope: None });
        (request, keys)
    }

    #[test]
    fn a_published_signature_is_accepted_and_nothing_else() {
        let (request, keys) = example();
        let now = 1_702_743_657;
        let verify = |request: &Arrived, bucket: &str, region: &str, now: i64| {
            verify_oss4(request, bucket, region, &keys, now).map(drop).map_err(|refusal| refusal.code)
        };
        assert_eq!(verify(&request, "bucket", "cn-hangzhou", now), Ok(()));
        assert_eq!(verify(&request, "other", "cn-hangzhou", now), Err("SignatureDoesNotMatch"));
        assert_eq!(verify(&request, "bucket", "cn-beijing", now), Err("InvalidArgument"));
        assert_eq!(verify(&request, "bucket", "cn-hangzhou", now - 901), Err("RequestTimeTooSkewed"));
        let code = |change: &dyn Fn(&mut Arrived)| {
            let mut changed = request.clone();
            change(&mut changed);
            verify(&changed, "bucket", "cn-hangzhou", now)
        };
        assert_eq!(code(&|r| r.headers[1].1.push('x')), Ok(()), "it is not signed");
        assert_eq!(code(&|r| r.headers[0].1.push('x')), Err("SignatureDoesNotMatch"));
        assert_eq!(code(&|r| r.headers[2].1.push('x')), Err("SignatureDoesNotMatch"));
        assert_eq!(code(&|r| r.query.push('x')), Err("SignatureDoesNotMatch"));
        assert_eq!(code(&|r| r.headers[3].1 = "abc".to_owned()), Err("InvalidArgument"));
        assert_eq!(code(&|r| r.headers[5].1 = "OSS ak:c2lnbmF0dXJl".to_owned()), Err("InvalidArgument"));
        assert_eq!(code(&|r| r.headers[5].1 = r.headers[5].1.replace("=ak/", "=al/")), Err("InvalidAccessKeyId"));
    }
}
