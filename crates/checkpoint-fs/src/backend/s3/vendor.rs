//! What is S3's own among the stores of its family.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::backend::bucket::{DeleteReport, IfAbsent, Vendor, XmlDialect};
use crate::transport::{ServiceError, SigV4, Verdict};

const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-amz-request-payer");

const DIALECT: XmlDialect = XmlDialect { request_ids: &["x-amz-request-id"], codes: |_| None, refine: name_region };

/// S3, or a store that speaks its protocol, in a region.
pub(crate) fn s3(region: String, sign_payload: bool) -> Vendor {
    Vendor {
        header_prefix: "x-amz-",
        metadata_prefixes: &["x-amz-meta-"],
        if_absent: IfAbsent::IfNoneMatch,
        copy_source_root: "",
        range_header: None,
        encodes_page_tokens: false,
        delete_report: DeleteReport::Failures,
        max_key: 1024,
        signer: Arc::new(SigV4 { region, service: "s3", always_sign_payload: sign_payload }),
        dialect: Arc::new(DIALECT),
    }
}

/// The header of one who agrees to pay for requests to another's bucket.
pub(crate) fn requester_pays() -> HeaderMap {
    HeaderMap::from_iter([(REQUEST_PAYER, HeaderValue::from_static("requester"))])
}

/// Names the region of a bucket that was asked for in another one.
fn name_region(verdict: &mut Verdict, status: StatusCode, headers: &HeaderMap, error: &ServiceError) {
    if status.is_redirection() || error.code == "AuthorizationHeaderMalformed" {
        verdict.hint = Some(match headers.get("x-amz-bucket-region").and_then(|r| r.to_str().ok()) {
            Some(region) => format!("the bucket is in another region: set client_kwargs.region_name to {region}"),
            None => "the bucket is in another region or behind another endpoint: set client_kwargs.region_name \
                     or endpoint_url"
                .to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Dialect;

    #[test]
    fn a_wrong_region_names_the_right_one() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-bucket-region", HeaderValue::from_static("eu-west-1"));
        let said = ServiceError { code: "PermanentRedirect".to_owned(), ..ServiceError::default() };
        let verdict = DIALECT.verdict(StatusCode::MOVED_PERMANENTLY, &headers, &said, false);
        assert!(verdict.hint.expect("has one").contains("eu-west-1"));
    }
}
