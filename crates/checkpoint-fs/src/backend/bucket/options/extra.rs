//! `s3_additional_kwargs`: parameters of S3's operations, which become headers.

use http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::Reader;
use crate::options::{KwArgs, OptionUse};

/// Parameters of every operation, with their headers.
const ALWAYS: [(&str, &str); 2] =
    [("ExpectedBucketOwner", "x-amz-expected-bucket-owner"), ("RequestPayer", "x-amz-request-payer")];

/// Parameters of the operations that make an object (put, multipart upload, copy), with their headers.
const WRITES: [(&str, &str); 21] = [
    ("ACL", "x-amz-acl"),
    ("BucketKeyEnabled", "x-amz-server-side-encryption-bucket-key-enabled"),
    ("CacheControl", "cache-control"),
    ("ContentDisposition", "content-disposition"),
    ("ContentEncoding", "content-encoding"),
    ("ContentLanguage", "content-language"),
    ("ContentType", "content-type"),
    ("Expires", "expires"),
    ("GrantFullControl", "x-amz-grant-full-control"),
    ("GrantRead", "x-amz-grant-read"),
    ("GrantReadACP", "x-amz-grant-read-acp"),
    ("GrantWriteACP", "x-amz-grant-write-acp"),
    ("ObjectLockLegalHoldStatus", "x-amz-object-lock-legal-hold"),
    ("ObjectLockMode", "x-amz-object-lock-mode"),
    ("ObjectLockRetainUntilDate", "x-amz-object-lock-retain-until-date"),
    ("SSEKMSEncryptionContext", "x-amz-server-side-encryption-context"),
    ("SSEKMSKeyId", "x-amz-server-side-encryption-aws-kms-key-id"),
    ("ServerSideEncryption", "x-amz-server-side-encryption"),
    ("StorageClass", "x-amz-storage-class"),
    ("Tagging", "x-amz-tagging"),
    ("WebsiteRedirectLocation", "x-amz-website-redirect-location"),
];

/// Parameters that S3 knows and that would change what a call means, or need more than a header.
const REFUSED: [&str; 28] = [
    "BypassGovernanceRetention",
    "ContentLength",
    "ContentMD5",
    "CopySourceIfMatch",
    "CopySourceIfModifiedSince",
    "CopySourceIfNoneMatch",
    "CopySourceIfUnmodifiedSince",
    "CopySourceSSECustomerAlgorithm",
    "CopySourceSSECustomerKey",
    "CopySourceSSECustomerKeyMD5",
    "IfMatch",
    "IfModifiedSince",
    "IfNoneMatch",
    "IfUnmodifiedSince",
    "MFA",
    "Metadata",
    "MetadataDirective",
    "PartNumber",
    "Range",
    "ResponseContentType",
    "SSECustomerAlgorithm",
    "SSECustomerKey",
    "SSECustomerKeyMD5",
    "TaggingDirective",
    "VersionId",
    "MaxKeys",
    "StartAfter",
    "WriteOffsetBytes",
];

impl Reader<'_> {
    /// Reads them. Names that no operation knows are dropped, as s3fs drops them, with a warning.
    pub(super) fn additional_kwargs(&mut self, kw: &mut KwArgs<'_>) {
        let given = self.options.get(self.protocols).and_then(|kwargs| kwargs.get("s3_additional_kwargs"));
        let sent = ALWAYS.iter().chain(&WRITES).map(|(name, _)| (*name, OptionUse::Honoured));
        let others = REFUSED.iter().map(|name| (*name, OptionUse::Refused));
        let object = kw.object("s3_additional_kwargs", sent.chain(others));
        let Some(given) = given.filter(|_| object) else { return };
        for (name, value) in given.as_object().into_iter().flatten() {
            let table =
                |table: &[(&str, &'static str)]| table.iter().find(|(n, _)| n == name).map(|(_, header)| *header);
            let (headers, header) = match (table(&ALWAYS), table(&WRITES)) {
                (Some(header), _) => (&mut self.read.headers, header),
                (None, Some(header)) => (&mut self.read.write_headers, header),
                (None, None) if REFUSED.contains(&name.as_str()) => {
                    kw.problem(format!(
                        "s3_additional_kwargs.{name} is not supported: it would change what calls mean"
                    ));
                    continue;
                }
                (None, None) => {
                    tracing::warn!(parameter = name, "s3_additional_kwargs names a parameter that is not sent");
                    continue;
                }
            };
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Array(_) | Value::Object(_) => String::from('\n'),
            };
            match HeaderValue::from_str(&text) {
                Ok(value) => {
                    headers.insert(HeaderName::from_static(header), value);
                }
                Err(_) => kw.problem(format!("s3_additional_kwargs.{name} must be text without line breaks")),
            }
        }
    }
}
