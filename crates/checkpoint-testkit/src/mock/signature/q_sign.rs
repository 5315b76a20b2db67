//! COS's own signature: `q-sign-algorithm=sha1&q-ak=...` in the `Authorization` header.

use super::{field, hmac_sha1_hex, sha1_hex};
use crate::mock::keys::{Identity, KeyRing};
use crate::mock::refusal::Refusal;
use crate::mock::request::{Arrived, encode};

/// Checks the signature of a request; gives who signed.
///
/// # Errors
/// As the service answers.
pub(crate) fn verify_q_sign(request: &Arrived, keys: &KeyRing, now: i64) -> Result<Identity, Refusal> {
    let given = request.header("authorization").unwrap_or_default();
    let part = |name: &str| {
        field(given, '&', name)
            .ok_or_else(|| Refusal::new(400, "InvalidArgument", format!("the authorization has no {name}")))
    };
    if part("q-sign-algorithm")? != "sha1" {
        return Err(Refusal::invalid_argument("q-sign-algorithm must be sha1"));
    }
    let id = part("q-ak")?;
    let identity = keys.get(id).ok_or_else(|| {
        Refusal::new(403, "InvalidAccessKeyId", "The Access Key Id you provided does not exist in our records")
    })?;
    let (time, key_time) = (part("q-sign-time")?, part("q-key-time")?);
    for span in [time, key_time] {
        let bounds = span.split_once(';').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        let (from, to): (i64, i64) = bounds.ok_or_else(|| Refusal::invalid_argument("a time span is no span"))?;
        if now < from || now > to {
            return Err(Refusal::access_denied("Request has expired"));
        }
    }
    let (header_list, parameter_list) = (part("q-header-list")?, part("q-url-param-list")?);
    let headers = names(header_list)?;
    if !headers.contains(&"host") {
        return Err(Refusal::access_denied("the host is not signed"));
    }
    let pairs = request.pairs()?;
    let lines = |names: &[&str], value: &dyn Fn(&str) -> Option<String>| {
        let line = |name: &&str| format!("{name}={}", encode(&value(name).unwrap_or_default()));
        names.iter().map(line).collect::<Vec<_>>().join("&")
    };
    let parameter =
        |name: &str| pairs.iter().find(|(n, _)| encode(n).to_lowercase() == name).map(|(_, value)| value.clone());
    let format_string = format!(
        "{}\n{}\n{}\n{}\n",
        request.method.to_lowercase(),
        request.decoded_path()?,
        lines(&names(parameter_list)?, &parameter),
        lines(&headers, &|name| request.joined(name)),
    );
    let string_to_sign = format!("sha1\n{time}\n{}\n", sha1_hex(&format_string));
    let key = hmac_sha1_hex(identity.secret.as_bytes(), key_time);
    if hmac_sha1_hex(key.as_bytes(), &string_to_sign) != part("q-signature")? {
        return Err(Refusal::new(403, "SignatureDoesNotMatch", "The Signature you specified is invalid.")
            .with("StringToSign", string_to_sign)
            .with("FormatString", format_string));
    }
    Ok(identity)
}

/// The names of a list, which must be sorted and in lower case.
fn names(list: &str) -> Result<Vec<&str>, Refusal> {
    let names: Vec<&str> = list.split(';').filter(|name| !name.is_empty()).collect();
    if !names.is_sorted() || names.iter().any(|name| name.to_lowercase() != *name) {
        return Err(Refusal::invalid_argument("a list of the authorization is not sorted and in lower case"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The example of the documentation, "Request signature", an upload.
    fn example() -> (Arrived, KeyRing) {
        let authorization = "q-sign-algorithm=sha1&q-ak=AKIDQjz3ltompVjBni5LitkWHFlFpwkn9U5q\
            &q-sign-time=1557989151;1557996351&q-key-time=1557989151;1557996351\
            &q-header-list=content-length;content-md5;content-type;date;host;x-cos-acl;x-cos-grant-read\
            &q-url-param-list=&q-signature=3b8851a11a569213c17ba8fa7dcf2abec6935172";
        let host = "examplebucket-1250000000.cos.ap-beijing.myqcloud.com";
        let headers = [
            ("date", "Thu, 16 May 2019 06:45:51 GMT"),
            ("host", host),
            ("content-type", "text/plain"),
            ("content-length", "13"),
            ("content-md5", "mQ/fVh815F3k6TAUm8m0eg=="),
            ("x-cos-acl", "private"),
            ("x-cos-grant-read", "uin=\"100000000011\""),
            ("authorization", authorization),
        ];
        let request = Arrived {
            method: "PUT".to_owned(),
            host: host.to_owned(),
            path: "/exampleobject(%E8%85%BE%E8%AE%AF%E4%BA%91)".to_owned(),
            query: String::new(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Bytes::from_static(b"ObjectContent"),
        };
        let keys = KeyRing::default();
        let secret = "BQYIM75p8x0iWVFSIgqEKwFprpRSVHlz".to_owned();
        let identity = Identity { secret, token: None, expires_at: None, scope: None };
        keys.add("AKIDQjz3ltompVjBni5LitkWHFlFpwkn9U5q", identity);
        (request, keys)
    }

    #[test]
    fn a_published_signature_is_accepted_and_nothing_else() {
        let (request, keys) = example();
        let now = 1_557_990_000;
        verify_q_sign(&request, &keys, now).map(drop).expect("valid");
        let code = |change: &dyn Fn(&mut Arrived), now: i64| {
            let mut changed = request.clone();
            change(&mut changed);
            verify_q_sign(&changed, &keys, now).map(drop).expect_err("changed").code
        };
        assert_eq!(code(&|r| r.method = "GET".to_owned(), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.path.push('x'), now), "SignatureDoesNotMatch");
        assert_eq!(code(&|r| r.headers[4].1 = "other".to_owned(), now), "SignatureDoesNotMatch");
        let swap = |from: &'static str, to: &'static str| {
            move |r: &mut Arrived| r.headers[7].1 = r.headers[7].1.replace(from, to)
        };
        assert_eq!(code(&swap("=AKIDQ", "=AKIDR"), now), "InvalidAccessKeyId");
        assert_eq!(code(&swap("date;host;", "date;"), now), "AccessDenied");
        assert_eq!(code(&swap("=sha1", "=md5"), now), "InvalidArgument");
        assert_eq!(code(&|_| {}, 1_557_996_352), "AccessDenied");
    }
}
