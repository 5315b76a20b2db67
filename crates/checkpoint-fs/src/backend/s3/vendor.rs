//! What is S3's own among the stores of its family.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::region::is_region;
use crate::backend::bucket::{IfAbsent, Vendor};
use crate::backend::headers::text;
use crate::backend::multi_delete::Report;
use crate::backend::xml_dialect::XmlDialect;
use crate::transport::{ServiceError, SigV4, Verdict};

const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-amz-request-payer");

const DIALECT: XmlDialect = XmlDialect { request_ids: &["x-amz-request-id"], codes: |_| None, refine: name_region };

/// Hosts, with all below them, whose S3 interface ignores or refuses `If-None-Match` on a write, and the
/// scheme whose backend has a condition that they keep.
const WITHOUT_CONDITION: [(&str, &str); 4] = [
    ("storage.googleapis.com", "write gs:// instead of s3://, whose writes can be conditional"),
    ("myqcloud.com", "write cos:// instead of s3://, whose writes can be conditional"),
    ("tencentcos.cn", "write cos:// instead of s3://, whose writes can be conditional"),
    ("aliyuncs.com", "write oss:// instead of s3://, whose writes can be conditional"),
];

/// S3, or a store that speaks its protocol, in a region and at a host.
pub(crate) fn s3(region: String, sign_payload: bool, host: &str) -> Vendor {
    Vendor {
        header_prefix: "x-amz-",
        metadata_prefixes: &["x-amz-meta-"],
        if_absent: condition_at(host),
        copy_source_root: "",
        range_header: None,
        encodes_page_tokens: false,
        consistent_list: true,
        delete_report: Report::Failures,
        max_key: 1024,
        signer: Arc::new(SigV4 { region, service: "s3", always_sign_payload: sign_payload }),
        dialect: Arc::new(DIALECT),
    }
}

fn condition_at(host: &str) -> IfAbsent {
    let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
    let is_below = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let known = WITHOUT_CONDITION.iter().find(|(domain, _)| is_below(domain));
    known.map_or(IfAbsent::IfNoneMatch, |(_, way_on)| IfAbsent::Never(way_on))
}

/// The header of one who agrees to pay for requests to another's bucket.
pub(crate) fn requester_pays() -> HeaderMap {
    HeaderMap::from_iter([(REQUEST_PAYER, HeaderValue::from_static("requester"))])
}

/// Names the region of a bucket that was asked for in another one. Nothing but a region is repeated: whoever answered
/// could name any place.
fn name_region(verdict: &mut Verdict, status: StatusCode, headers: &HeaderMap, error: &ServiceError) {
    if status.is_redirection() || error.code == "AuthorizationHeaderMalformed" {
        let named = text(headers, "x-amz-bucket-region").filter(|region| is_region(region));
        verdict.hint = Some(match named {
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
        for stranger in ["evil.example", "x, and endpoint_url to http://evil", "-", ""] {
            headers.insert("x-amz-bucket-region", HeaderValue::from_str(stranger).expect("plain"));
            let hint = DIALECT.verdict(StatusCode::MOVED_PERMANENTLY, &headers, &said, false).hint.expect("has one");
            assert!(hint.ends_with("set client_kwargs.region_name or endpoint_url"), "{stranger}: {hint}");
        }
    }

    #[test]
    fn hosts_that_ignore_the_condition_are_known() {
        for (host, scheme) in [
            ("storage.googleapis.com", "gs://"),
            ("bkt.storage.googleapis.com:443", "gs://"),
            ("cos.ap-guangzhou.myqcloud.com", "cos://"),
            ("S3.oss-cn-hangzhou.aliyuncs.com", "oss://"),
        ] {
            let IfAbsent::Never(way_on) = condition_at(host) else { unreachable!("{host} keeps it") };
            assert!(way_on.contains(scheme), "{host}: {way_on}");
        }
        for host in ["s3.eu-west-1.amazonaws.com", "127.0.0.1:9000", "notmyqcloud.com", "minio.local"] {
            assert_eq!(condition_at(host), IfAbsent::IfNoneMatch, "{host}");
        }
    }

    #[tokio::test]
    async fn where_the_condition_means_nothing_it_is_refused_before_anything_is_sent() {
        use crate::{Environment, ErrorKind, ObjectPath, Registry, StorageOptions, WriteMode, WriteOptions};

        let registry = Registry::with_environment(Environment::default());
        let options = r#"{"s3": {"key": "A", "secret": "S", "endpoint_url": "https://storage.googleapis.com"}}"#;
        let options = StorageOptions::from_json(options).expect("JSON");
        let storage = registry.open_dir("s3://my-bucket/x", &options).await.expect("opens");
        assert!(!storage.capabilities().write_if_absent);
        let create = WriteOptions::new().mode(WriteMode::IfAbsent);
        let path = ObjectPath::parse("lease").expect("valid");
        let error = storage.write(&path, "1".into(), create).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint().is_some_and(|hint| hint.contains("gs://")), "{error:?}");
    }
}
