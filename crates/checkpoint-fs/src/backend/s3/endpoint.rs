//! S3's own rules about where requests go: AWS's endpoints, and which addressing style applies.

use crate::backend::bucket::{Addressing, Endpoint, is_host_name};

/// Chooses the addressing style, and says why.
///
/// A configured endpoint gets `path` unless `virtual` is asked for, AWS the other way round. An IP address
/// as host and a bucket whose name cannot be a host name get `path` in any case.
pub(crate) fn choose_addressing(
    asked: Option<Addressing>,
    endpoint: &Endpoint,
    configured: bool,
    bucket: &str,
) -> (Addressing, &'static str) {
    let dots_are_safe = configured && !endpoint.is_encrypted() && asked == Some(Addressing::Virtual);
    if endpoint.is_ip() {
        (Addressing::Path, "an IP address has no sub-hosts")
    } else if !is_host_name(bucket, dots_are_safe) {
        (Addressing::Path, "the bucket's name cannot be part of the host")
    } else if let Some(asked) = asked {
        (asked, "options: config_kwargs.s3.addressing_style")
    } else if configured {
        (Addressing::Path, "default of a configured endpoint")
    } else {
        (Addressing::Virtual, "default of AWS")
    }
}

/// AWS's own endpoint of a region.
pub(crate) fn aws_endpoint(region: &str, tls: bool) -> Endpoint {
    let domain = match region {
        r if r.starts_with("cn-") => "amazonaws.com.cn",
        r if r.starts_with("us-iso-") => "c2s.ic.gov",
        r if r.starts_with("us-isob-") => "sc2s.sgov.gov",
        _ => "amazonaws.com",
    };
    let host = if region == "us-east-1" { format!("s3.{domain}") } else { format!("s3.{region}.{domain}") };
    Endpoint::at_host(host, tls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Addressing::{Path, Virtual};

    use crate::backend::bucket::BucketAddress;

    fn url(endpoint: Option<&str>, asked: Option<Addressing>, bucket: &str) -> String {
        let parsed = match endpoint {
            Some(text) => Endpoint::parse(text, "test").expect("valid"),
            None => aws_endpoint("eu-west-1", true),
        };
        let (addressing, _) = choose_addressing(asked, &parsed, endpoint.is_some(), bucket);
        BucketAddress::new(&parsed, addressing, bucket).url("dir/obj.bin", "")
    }

    #[test]
    fn object_urls() {
        for (endpoint, asked, bucket, expected) in [
            (None, None, "my-bucket", "https://my-bucket.s3.eu-west-1.amazonaws.com/dir/obj.bin"),
            (None, Some(Path), "my-bucket", "https://s3.eu-west-1.amazonaws.com/my-bucket/dir/obj.bin"),
            (None, None, "my.dotted.bucket", "https://s3.eu-west-1.amazonaws.com/my.dotted.bucket/dir/obj.bin"),
            (None, Some(Virtual), "MyBucket", "https://s3.eu-west-1.amazonaws.com/MyBucket/dir/obj.bin"),
            (None, None, "my_bucket", "https://s3.eu-west-1.amazonaws.com/my_bucket/dir/obj.bin"),
            (None, None, "ab", "https://s3.eu-west-1.amazonaws.com/ab/dir/obj.bin"),
            (Some("http://127.0.0.1:9000"), None, "my-bucket", "http://127.0.0.1:9000/my-bucket/dir/obj.bin"),
            (Some("http://127.0.0.1:9000"), Some(Virtual), "my-bucket", "http://127.0.0.1:9000/my-bucket/dir/obj.bin"),
            (Some("http://[::1]:9000"), Some(Virtual), "my-bucket", "http://[::1]:9000/my-bucket/dir/obj.bin"),
            (Some("http://localhost:9000"), Some(Virtual), "my-bucket", "http://my-bucket.localhost:9000/dir/obj.bin"),
            (
                Some("https://minio.local/pre/"),
                Some(Virtual),
                "my-bucket",
                "https://my-bucket.minio.local/pre/dir/obj.bin",
            ),
            (Some("https://minio.local/pre/"), None, "my-bucket", "https://minio.local/pre/my-bucket/dir/obj.bin"),
            (Some("https://minio.local"), Some(Virtual), "my.dotted", "https://minio.local/my.dotted/dir/obj.bin"),
            (Some("http://minio.local"), Some(Virtual), "my.dotted", "http://my.dotted.minio.local/dir/obj.bin"),
            (Some("http://minio.local"), None, "my.dotted", "http://minio.local/my.dotted/dir/obj.bin"),
            (Some("https://MinIO.local:443"), None, "my-bucket", "https://minio.local/my-bucket/dir/obj.bin"),
            (Some(" http://minio.local "), None, "my-bucket", "http://minio.local/my-bucket/dir/obj.bin"),
            (
                Some("https://s3.eu-west-1.amazonaws.com"),
                None,
                "bkt",
                "https://s3.eu-west-1.amazonaws.com/bkt/dir/obj.bin",
            ),
        ] {
            assert_eq!(url(endpoint, asked, bucket), expected, "{endpoint:?} {asked:?} {bucket}");
        }
    }

    #[test]
    fn aws_endpoints() {
        for (region, expected) in [
            ("us-east-1", "https://s3.amazonaws.com"),
            ("eu-west-1", "https://s3.eu-west-1.amazonaws.com"),
            ("cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
        ] {
            assert_eq!(aws_endpoint(region, true).to_string(), expected);
        }
        assert_eq!(aws_endpoint("us-east-1", false).to_string(), "http://s3.amazonaws.com");
    }
}
