//! What is OSS's own among the stores of its family.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::dialect::OssDialect;
use crate::backend::bucket::{IfAbsent, Vendor};
use crate::backend::multi_delete::Report;
use crate::transport::Oss4;

const FORBID_OVERWRITE: HeaderName = HeaderName::from_static("x-oss-forbid-overwrite");
const RANGE_BEHAVIOR: HeaderName = HeaderName::from_static("x-oss-range-behavior");
const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-oss-request-payer");

/// OSS in a region, for one bucket.
pub(crate) fn oss(region: String, bucket: String, bucket_in_path: bool) -> Vendor {
    Vendor {
        header_prefix: "x-oss-",
        metadata_prefixes: &["x-oss-meta-"],
        if_absent: IfAbsent::ForbidOverwrite(FORBID_OVERWRITE),
        copy_source_root: "/",
        // Without it a range that ends behind the object is answered with all of it.
        range_header: Some((RANGE_BEHAVIOR, HeaderValue::from_static("standard"))),
        encodes_page_tokens: true,
        // The vendor promises what concerns an object, and says nothing of listings.
        consistent_list: false,
        // The short report has no body at all when nothing failed.
        delete_report: Report::Deleted,
        max_key: 1023,
        signer: Arc::new(Oss4 { region, bucket, bucket_in_path, additional_headers: &[] }),
        dialect: Arc::new(OssDialect),
    }
}

/// The headers of every request.
pub(crate) fn headers(requester_pays: bool) -> HeaderMap {
    let payer = requester_pays.then_some((REQUEST_PAYER, HeaderValue::from_static("requester")));
    HeaderMap::from_iter(payer)
}
