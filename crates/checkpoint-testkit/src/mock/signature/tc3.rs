//! Tencent Cloud's third signature, of its API 3.0, in the `Authorization` header.

use super::{field, hmac_sha256, sha256_hex};
use crate::mock::digest::hex;
use crate::mock::keys::{Identity, KeyRing};
use crate::mock::refusal::Refusal;
use crate::mock::request::Arrived;

/// How far a client's clock may be off, in seconds.
const MAX_SKEW: i64 = 5 * 60;

/// Checks the signature of a request to a service; gives who signed.
///
/// # Errors
/// As the API answers; always with status 200.
pub(crate) fn verify_tc3(request: &Arrived, service: &str, keys: &KeyRing, now: i64) -> Result<Identity, Refusal> {
    let failure = |code, message: &str| Refusal::new(200, code, message);
    let invalid = |what: &str| {
        failure("AuthFailure.InvalidAuthorization", &format!("The `Authorization` header is invalid: {what}."))
    };
    let given = request.header("authorization").unwrap_or_default();
    let list = given.strip_prefix("TC3-HMAC-SHA256 ").ok_or_else(|| invalid("algorithm"))?;
    let credential = field(list, ',', "Credential").ok_or_else(|| invalid("Credential"))?;
    let signed = field(list, ',', "SignedHeaders").ok_or_else(|| invalid("SignedHeaders"))?;
    let signature = field(list, ',', "Signature").ok_or_else(|| invalid("Signature"))?;
    let [id, day, signed_service, "tc3_request"] = credential.split('/').collect::<Vec<_>>()[..] else {
        return Err(invalid("Credential"));
    };
    if signed_service != service {
        return Err(invalid("the service of the credential"));
    }
    let moment = request.header("x-tc-timestamp").unwrap_or_default();
    let seconds: i64 = moment.parse().map_err(|_| failure("MissingParameter", "X-TC-Timestamp is missing."))?;
    if (now - seconds).abs() > MAX_SKEW {
        let message = "The request has expired: the time of the signature differs too much from the server's.";
        return Err(failure("AuthFailure.SignatureExpire", message));
    }
    let today = jiff::Timestamp::from_second(seconds).unwrap_or_default().strftime("%Y-%m-%d").to_string();
    if today != day {
        return Err(invalid("the day of the credential is another than that of X-TC-Timestamp"));
    }
    let names: Vec<&str> = signed.split(';').collect();
    if !names.is_sorted() || !names.contains(&"content-type") || !names.contains(&"host") {
        return Err(invalid("SignedHeaders must be sorted and hold content-type and host"));
    }
    let identity = keys.get(id).ok_or_else(|| failure("AuthFailure.SecretIdNotFound", "The SecretId is not found."))?;
    let mut headers = String::new();
    for name in &names {
        let value = request.joined(name).ok_or_else(|| invalid("a signed header is missing"))?;
        headers.push_str(&format!("{name}:{}\n", value.trim().to_lowercase()));
    }
    let canonical = format!(
        "{}\n{}\n{}\n{headers}\n{signed}\n{}",
        request.method,
        request.path,
        request.query,
        sha256_hex(&request.body)
    );
    let scope = format!("{day}/{service}/tc3_request");
    let string_to_sign = format!("TC3-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256_hex(canonical.as_bytes()));
    let key = [service, "tc3_request"]
        .iter()
        .fold(hmac_sha256(format!("TC3{}", identity.secret).as_bytes(), day), |key, part| hmac_sha256(&key, part));
    if hex(&hmac_sha256(&key, &string_to_sign)) != signature {
        let message = "The provided credentials could not be validated. Please check your signature is correct.";
        return Err(failure("AuthFailure.SignatureFailure", message));
    }
    if identity.token.as_deref() != request.header("x-tc-token") {
        return Err(failure("AuthFailure.TokenFailure", "The provided credentials could not be validated: token."));
    }
    if identity.expires_at.is_some_and(|end| end <= now) {
        return Err(failure("AuthFailure.TokenFailure", "The token has expired."));
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The example of an older edition of the API's documentation.
    fn example() -> (Arrived, KeyRing) {
        let authorization = "TC3-HMAC-SHA256 Credential=AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE/2019-02-25/cvm/tc3_request, \
            SignedHeaders=content-type;host, \
            Signature=72e494ea809ad7a8c8f7a4507b9bddcbaa8e581f516e8da2f66e2c5a96525168";
        let headers = [
            ("content-type", "application/json; charset=utf-8"),
            ("host", "cvm.tencentcloudapi.com"),
            ("x-tc-timestamp", "1551113065"),
            ("authorization", authorization),
        ];
        let body = br#"{"Limit": 1, "Filters": [{"Values": ["\u672a\u547d\u540d"], "Name": "instance-name"}]}"#;
        let request = Arrived {
            method: "POST".to_owned(),
            host: "cvm.tencentcloudapi.com".to_owned(),
            path: "/".to_owned(),
            query: String::new(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Bytes::from_static(body),
        };
        let keys = KeyRing::default();
        let secret = "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE".to_owned();
        let identity = Identity { secret, token: None, expires_at: None, scope: None };
        keys.add("AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE", identity);
        (request, keys)
    }

    #[test]
    fn a_published_signature_is_accepted_and_nothing_else() {
        let (request, keys) = example();
        let now = 1_551_113_065;
        verify_tc3(&request, "cvm", &keys, now).map(drop).expect("valid");
        let code = |change: &dyn Fn(&mut Arrived), now: i64| {
            let mut changed = request.clone();
            change(&mut changed);
            verify_tc3(&changed, "cvm", &keys, now).map(drop).expect_err("changed").code
        };
        assert_eq!(code(&|r| r.body = Bytes::from_static(b"{}"), now), "AuthFailure.SignatureFailure");
        assert_eq!(code(&|r| r.headers[1].1.push('x'), now), "AuthFailure.SignatureFailure");
        assert_eq!(
            code(&|r| r.headers[3].1 = r.headers[3].1.replace("AKIDz", "AKIDy"), now),
            "AuthFailure.SecretIdNotFound"
        );
        assert_eq!(code(&|r| r.headers.push(("x-tc-token".into(), "t".into())), now), "AuthFailure.TokenFailure");
        assert_eq!(code(&|_| {}, now + 301), "AuthFailure.SignatureExpire");
        assert!(verify_tc3(&request, "tccatalog", &keys, now).is_err());
    }
}
