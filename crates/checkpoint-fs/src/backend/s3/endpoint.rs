//! S3's own rules about which addressing style applies.

use super::aws::is_accelerated;
use crate::backend::bucket::{Addressing, Endpoint, Given, is_host_name};
use crate::error::{Error, Result};
use crate::resolution::Setting;

/// Chooses the addressing style, and says why. `asked` is `None` inside for `auto`.
///
/// A configured endpoint gets `path` unless `virtual` is asked for, AWS the other way round. An IP address
/// as host and a bucket whose name cannot be a host name get `path` in any case.
pub(super) fn choose_addressing(
    asked: Given<Option<Addressing>>,
    endpoint: &Endpoint,
    configured: bool,
    bucket: &str,
) -> Setting<Addressing> {
    let asked = asked.and_then(|asked| Some(Setting::new(asked.value?, asked.source)));
    let wanted = asked.unwrap_or_else(|| match configured && !is_accelerated(endpoint) {
        true => Setting::new(Addressing::Path, "default of a configured endpoint"),
        false => Setting::new(Addressing::Virtual, "default of AWS"),
    });
    let dots_are_safe = configured && !endpoint.is_encrypted();
    match wanted.value {
        Addressing::Virtual if endpoint.is_ip() => Setting::new(Addressing::Path, "an IP address has no sub-hosts"),
        Addressing::Virtual if !is_host_name(bucket, dots_are_safe) => {
            Setting::new(Addressing::Path, "the bucket's name cannot be part of the host")
        }
        _ => wanted,
    }
}

/// Refuses a host that botocore takes for none: its labels are letters, digits and dashes.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that names where the endpoint comes from.
pub(super) fn check_host(endpoint: &Setting<Endpoint>) -> Result<()> {
    let host = endpoint.value.host.as_str();
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    let is_label = |label: &str| {
        let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        (1..=63).contains(&label.len()) && plain && !label.starts_with('-') && !label.ends_with('-')
    };
    if host.starts_with('[') || name.strip_suffix('.').unwrap_or(name).split('.').all(is_label) {
        return Ok(());
    }
    Err(Error::invalid_config(format!("the endpoint has no valid host: source={}", endpoint.source))
        .with_hint("the parts of a host name are letters, digits and dashes; no other tool around S3 takes `_`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Addressing::{Path, Virtual};

    use crate::backend::bucket::BucketAddress;

    fn url(endpoint: Option<&str>, asked: Option<Addressing>, bucket: &str) -> String {
        let parsed = match endpoint {
            Some(text) => Endpoint::parse(text, "test").expect("valid"),
            None => Endpoint::at_host("s3.eu-west-1.amazonaws.com".to_owned(), true),
        };
        let asked = asked.map(|style| Setting::new(Some(style), "test"));
        let addressing = choose_addressing(asked, &parsed, endpoint.is_some(), bucket).value;
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
            (Some(" https://MinIO.local:443"), None, "my-bucket", "https://MinIO.local:443/my-bucket/dir/obj.bin"),
            (
                Some("https://s3-accelerate.amazonaws.com"),
                None,
                "bkt",
                "https://bkt.s3-accelerate.amazonaws.com/dir/obj.bin",
            ),
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
    fn hosts_that_are_none() {
        let check = |url: &str| check_host(&Setting::new(Endpoint::parse(url, "test").expect("a URL"), "test"));
        for good in ["http://minio", "http://minio.local.:9000", "http://[::1]:9000", "http://127.0.0.1", "http://A-1"]
        {
            check(good).expect(good);
        }
        for bad in ["http://my_minio:9000", "http://-minio.local", "http://b\u{fc}cher.local", "http://a..b"] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
