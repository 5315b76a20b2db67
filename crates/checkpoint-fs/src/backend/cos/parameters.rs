//! `s3_additional_kwargs` of COS: parameters under the names that S3 has for them, headers under COS's own.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::error::{Error, Result};

/// S3's headers, and those that mean the same to COS.
const HEADERS: [(&str, &str); 11] = [
    ("x-amz-acl", "x-cos-acl"),
    ("x-amz-grant-full-control", "x-cos-grant-full-control"),
    ("x-amz-grant-read", "x-cos-grant-read"),
    ("x-amz-grant-read-acp", "x-cos-grant-read-acp"),
    ("x-amz-grant-write-acp", "x-cos-grant-write-acp"),
    ("x-amz-request-payer", "x-cos-request-payer"),
    ("x-amz-server-side-encryption", ENCRYPTION),
    ("x-amz-server-side-encryption-aws-kms-key-id", "x-cos-server-side-encryption-cos-kms-key-id"),
    ("x-amz-server-side-encryption-context", "x-cos-server-side-encryption-context"),
    ("x-amz-storage-class", "x-cos-storage-class"),
    ("x-amz-tagging", "x-cos-tagging"),
];

const ENCRYPTION: &str = "x-cos-server-side-encryption";
/// What COS encrypts with.
const ENCRYPTIONS: [&str; 2] = ["AES256", "cos/kms"];

/// The same headers in COS's words. Those of HTTP itself stay as they are.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a parameter that COS does not have, which would
/// otherwise do nothing, and for an encryption that is AWS's.
pub(super) fn translated(headers: HeaderMap) -> Result<HeaderMap> {
    let mut own = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter() {
        let name = match HEADERS.iter().find(|(amazons, _)| *amazons == name.as_str()) {
            Some((_, own)) => HeaderName::from_static(own),
            None if name.as_str().starts_with("x-amz-") => {
                return Err(Error::invalid_config(format!(
                    "s3_additional_kwargs asks for what COS does not have: header={name}"
                ))
                .with_hint("take the parameter out: COS would ignore it"));
            }
            None => name.clone(),
        };
        if name == ENCRYPTION && !ENCRYPTIONS.iter().any(|known| value == known) {
            return Err(Error::invalid_config("s3_additional_kwargs.ServerSideEncryption is not one of COS's")
                .with_hint(format!("write one of: {}", ENCRYPTIONS.join(", "))));
        }
        own.append(name, HeaderValue::clone(value));
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn of(pairs: &[(&'static str, &'static str)]) -> Result<Vec<String>> {
        let headers =
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let own = translated(headers.collect())?;
        Ok(own.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect())
    }

    #[test]
    fn what_cos_has_goes_by_its_own_name() {
        for (amazons, own) in HEADERS {
            let value = if own == ENCRYPTION { "cos/kms" } else { "x" };
            assert_eq!(of(&[(amazons, value)]).expect(amazons), [format!("{own}: {value}")]);
        }
        assert_eq!(of(&[("cache-control", "no-store")]).expect("HTTP's"), ["cache-control: no-store"]);
    }

    #[test]
    fn what_is_of_aws_alone_is_refused_by_name() {
        for pair in [
            ("x-amz-expected-bucket-owner", "1"),
            ("x-amz-object-lock-mode", "COMPLIANCE"),
            ("x-amz-server-side-encryption-bucket-key-enabled", "true"),
            ("x-amz-server-side-encryption", "aws:kms"),
        ] {
            let error = of(&[pair]).expect_err(pair.0);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.hint().is_some(), "{error}");
        }
        let error = of(&[("x-amz-object-lock-mode", "COMPLIANCE")]).expect_err("refused");
        assert!(error.to_string().contains("header=x-amz-object-lock-mode"), "{error}");
    }
}
