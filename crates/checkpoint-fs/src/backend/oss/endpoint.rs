//! Where requests of a bucket go: OSS's own hosts and what their names tell, and other people's.

use crate::backend::bucket::{Addressing, BucketAddress, Endpoint, check_bucket, is_host_name};
use crate::error::{Error, Result};
use crate::resolution::Setting;

const OWN_DOMAIN: &str = ".aliyuncs.com";
const INTERNAL: &str = "-internal";
/// Keys in one page of a listing: the most that OSS gives, which is ten times its default.
const PAGE_SIZE: &str = "1000";

/// An endpoint as configured, and what its host's name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OssEndpoint {
    /// Without the bucket.
    pub(crate) endpoint: Endpoint,
    /// Whether the host is one of OSS's own, which take the bucket before the host and nowhere else.
    pub(crate) is_own: bool,
    /// The region, where the host names it.
    pub(crate) region: Option<String>,
    /// The bucket, where the host began with one.
    pub(crate) bucket: Option<String>,
}

impl OssEndpoint {
    /// Parses a configured endpoint; one without a scheme is meant to be `https://`.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that names the source.
    pub(crate) fn parse(text: &str, source: &str) -> Result<Self> {
        let text = text.trim();
        let endpoint = if text.is_empty() || text.contains("://") {
            Endpoint::parse(text, source)?
        } else {
            Endpoint::parse(&format!("https://{text}"), source)?
        };
        if !endpoint.prefix.is_empty() {
            return Err(Error::invalid_config(format!("the endpoint has a path: source={source}"))
                .with_hint("OSS signs bucket and key alone: leave the path out"));
        }
        let host = endpoint.plain_host();
        let (name, port) = host.split_once(':').unwrap_or((&host, ""));
        let Some(inner) = name.strip_suffix(OWN_DOMAIN) else {
            return Ok(Self { endpoint, is_own: false, region: None, bucket: None });
        };
        let labels: Vec<&str> = inner.split('.').collect();
        let Some((before, region)) = service_of(&labels) else {
            // Private links and others: what their names tell is not known here.
            return Ok(Self { endpoint, is_own: false, region: None, bucket: None });
        };
        let region = region.map(|r| r.strip_suffix(INTERNAL).unwrap_or(r).to_owned());
        let bucket = match before {
            [] => None,
            ["s3"] => {
                return Err(Error::invalid_config(format!("the endpoint speaks S3's protocol: source={source}"))
                    .with_hint("leave `s3.` out of the host, or use the s3:// scheme with this endpoint"));
            }
            labels => Some(labels.join(".")),
        };
        let taken = bucket.as_ref().map_or(0, |bucket| bucket.len() + 1);
        let rest = name.get(taken..).unwrap_or_default();
        let host = if port.is_empty() { rest.to_owned() } else { format!("{rest}:{port}") };
        let endpoint = Endpoint::at_host(host, endpoint.is_encrypted());
        Ok(Self { endpoint, is_own: true, region, bucket })
    }

    /// The public endpoint of a region.
    pub(crate) fn of_region(region: &str) -> Self {
        Self {
            endpoint: Endpoint::at_host(format!("oss-{region}{OWN_DOMAIN}"), true),
            is_own: true,
            region: Some(region.to_owned()),
            bucket: None,
        }
    }

    /// The address of a bucket, and why it is addressed like that.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for what OSS would refuse: a path style, a
    /// bucket's name that it cannot have, or another bucket in the endpoint.
    pub(crate) fn address(
        &self,
        bucket: &str,
        is_cname: bool,
        asked: Option<&Setting<Addressing>>,
    ) -> Result<(BucketAddress, Setting<Addressing>)> {
        check_bucket(bucket)?;
        let fits = is_host_name(bucket, false);
        if is_cname {
            let setting = Setting::new(Addressing::Virtual, "options: is_cname");
            return Ok((BucketAddress::at_domain(&self.endpoint).with_page_size(PAGE_SIZE), setting));
        }
        if self.is_own {
            self.check_own(bucket, fits, asked)?;
        }
        let host = self.endpoint.host.as_str();
        let is_local = self.endpoint.is_ip() || host == "localhost" || host.starts_with("localhost:");
        let setting = if is_local {
            Setting::new(Addressing::Path, "an IP address or localhost has no sub-hosts")
        } else if !fits {
            Setting::new(Addressing::Path, "the bucket's name cannot be part of the host")
        } else {
            asked.cloned().unwrap_or_else(|| Setting::new(Addressing::Virtual, "default"))
        };
        Ok((BucketAddress::new(&self.endpoint, setting.value, bucket).with_page_size(PAGE_SIZE), setting))
    }

    fn check_own(&self, bucket: &str, fits: bool, asked: Option<&Setting<Addressing>>) -> Result<()> {
        if let Some(Setting { value: Addressing::Path, source }) = asked {
            let host = &self.endpoint.host;
            return Err(Error::invalid_config(format!("OSS refuses path style: host={host} source={source}"))
                .with_hint("leave the option out: the bucket then goes before the host"));
        }
        if !fits {
            return Err(Error::invalid_config(format!("the bucket's name is not valid: bucket={bucket:?}"))
                .with_hint("a bucket of OSS has 3 to 63 lower-case letters, digits and `-`"));
        }
        match &self.bucket {
            Some(other) if other != bucket => {
                let message =
                    format!("the endpoint holds another bucket than the URL: endpoint={other} bucket={bucket}");
                Err(Error::invalid_config(message)
                    .with_hint(format!("write the endpoint without a bucket: {}", self.endpoint)))
            }
            _ => Ok(()),
        }
    }
}

/// The labels before those of a service of OSS, and its region, where it has one of its own.
fn service_of<'a, 'l>(labels: &'a [&'l str]) -> Option<(&'a [&'l str], Option<&'l str>)> {
    match labels {
        [before @ .., "oss-accelerate" | "oss-accelerate-overseas"] => Some((before, None)),
        // Dual stack, and the accelerators inside a region.
        [before @ .., region, "oss" | "oss-data-acc"] => Some((before, Some(*region))),
        [before @ .., service] => {
            let region = service.strip_prefix("oss-").or_else(|| service.strip_prefix("vpc100-oss-"))?;
            Some((before, Some(region)))
        }
        [] => None,
    }
}

/// A region as it is signed for, from how people write it: `cn-hangzhou` or `oss-cn-hangzhou`.
///
/// # Errors
/// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for a text that is no region.
pub(crate) fn region_of(written: Setting<String>) -> Result<Setting<String>> {
    let Setting { value, source } = written;
    let text = value.trim();
    let region = text.strip_prefix("oss-").unwrap_or(text);
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if region.is_empty() || !region.bytes().all(plain) {
        return Err(Error::invalid_config(format!("the region is not valid: source={source}"))
            .with_hint("a region looks like cn-hangzhou"));
    }
    Ok(Setting::new(region.to_owned(), source))
}

#[cfg(test)]
mod tests {
    use Addressing::{Path, Virtual};

    use super::*;
    use crate::ErrorKind;

    fn parse(text: &str) -> OssEndpoint {
        OssEndpoint::parse(text, "test").expect(text)
    }

    #[test]
    fn hosts_tell_their_region_and_bucket() {
        for (text, shown, region, bucket) in [
            ("oss-cn-hangzhou.aliyuncs.com", "https://oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou", ""),
            (" http://oss-cn-hangzhou.aliyuncs.com/ ", "http://oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou", ""),
            ("oss-us-west-1-internal.aliyuncs.com", "https://oss-us-west-1-internal.aliyuncs.com", "us-west-1", ""),
            ("http://OSS-cn-beijing.aliyuncs.com:80", "http://oss-cn-beijing.aliyuncs.com", "cn-beijing", ""),
            ("vpc100-oss-cn-beijing.aliyuncs.com", "https://vpc100-oss-cn-beijing.aliyuncs.com", "cn-beijing", ""),
            ("cn-hangzhou.oss.aliyuncs.com", "https://cn-hangzhou.oss.aliyuncs.com", "cn-hangzhou", ""),
            (
                "cn-beijing-internal.oss-data-acc.aliyuncs.com",
                "https://cn-beijing-internal.oss-data-acc.aliyuncs.com",
                "cn-beijing",
                "",
            ),
            ("oss-accelerate.aliyuncs.com", "https://oss-accelerate.aliyuncs.com", "", ""),
            ("b-1.oss-accelerate-overseas.aliyuncs.com", "https://oss-accelerate-overseas.aliyuncs.com", "", "b-1"),
            (
                "https://b-1.oss-cn-hangzhou.aliyuncs.com:8443",
                "https://oss-cn-hangzhou.aliyuncs.com:8443",
                "cn-hangzhou",
                "b-1",
            ),
            ("b-1.cn-hangzhou.oss.aliyuncs.com", "https://cn-hangzhou.oss.aliyuncs.com", "cn-hangzhou", "b-1"),
        ] {
            let parsed = parse(text);
            assert!(parsed.is_own, "{text}");
            let got = (parsed.endpoint.to_string(), parsed.region, parsed.bucket);
            let some = |t: &str| (!t.is_empty()).then(|| t.to_owned());
            assert_eq!(got, (shown.to_owned(), some(region), some(bucket)), "{text}");
        }
        for text in [
            "http://127.0.0.1:9000",
            "data.example.com",
            "aliyuncs.com",
            "http://b.oss-cn-x.aliyuncs.com.example",
            "ep-1.oss.cn-hangzhou.privatelink.aliyuncs.com",
        ] {
            let parsed = parse(text);
            assert_eq!((parsed.is_own, parsed.region, parsed.bucket), (false, None, None), "{text}");
        }
        for bad in ["", "ftp://x", "http://oss-cn-x.aliyuncs.com/bucket", "https://s3.oss-cn-hangzhou.aliyuncs.com"] {
            let error = OssEndpoint::parse(bad, "options: endpoint").expect_err(bad);
            assert!(error.to_string().contains("options: endpoint"), "{error}");
        }
    }

    #[test]
    fn object_urls() {
        let own = "https://oss-cn-hangzhou.aliyuncs.com";
        for (endpoint, cname, asked, bucket, expected) in [
            (own, false, None, "bkt", "https://bkt.oss-cn-hangzhou.aliyuncs.com/dir/a%20b"),
            (own, false, Some(Virtual), "bkt", "https://bkt.oss-cn-hangzhou.aliyuncs.com/dir/a%20b"),
            (
                "http://bkt.oss-cn-hangzhou.aliyuncs.com",
                false,
                None,
                "bkt",
                "http://bkt.oss-cn-hangzhou.aliyuncs.com/dir/a%20b",
            ),
            ("https://data.example.com", true, None, "bkt", "https://data.example.com/dir/a%20b"),
            ("https://data.example.com", false, None, "bkt", "https://bkt.data.example.com/dir/a%20b"),
            ("https://data.example.com", false, Some(Path), "bkt", "https://data.example.com/bkt/dir/a%20b"),
            ("https://data.example.com", false, None, "My_bkt", "https://data.example.com/My_bkt/dir/a%20b"),
            ("http://127.0.0.1:9000", false, None, "bkt", "http://127.0.0.1:9000/bkt/dir/a%20b"),
            ("http://127.0.0.1:9000", false, Some(Virtual), "bkt", "http://127.0.0.1:9000/bkt/dir/a%20b"),
            ("http://localhost:9000", false, None, "bkt", "http://localhost:9000/bkt/dir/a%20b"),
            ("http://[::1]:9000", false, None, "bkt", "http://[::1]:9000/bkt/dir/a%20b"),
        ] {
            let asked = asked.map(|style| Setting::new(style, "options: is_path_style"));
            let (address, _) = parse(endpoint).address(bucket, cname, asked.as_ref()).expect(endpoint);
            assert_eq!(address.object_url("dir/a b"), expected);
        }
        let (address, _) = parse("data.example.com").address("bkt", true, None).expect("valid");
        assert_eq!(address.url("", "delete="), "https://data.example.com/?delete=");
    }

    #[test]
    fn what_oss_would_refuse_is_refused_before() {
        let own = parse("oss-cn-hangzhou.aliyuncs.com");
        let path = Setting::new(Path, "options: is_path_style");
        for (endpoint, asked, bucket, expected) in [
            (own.clone(), Some(&path), "bkt", "refuses path style"),
            (own.clone(), None, "My_bkt", "bucket's name is not valid"),
            (own, None, "a.b.c", "bucket's name is not valid"),
            (parse("other.oss-cn-hangzhou.aliyuncs.com"), None, "bkt", "holds another bucket"),
        ] {
            let error = endpoint.address(bucket, false, asked).expect_err(expected);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected) && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn regions_as_people_write_them() {
        for text in ["cn-hangzhou", "oss-cn-hangzhou", " cn-hangzhou "] {
            assert_eq!(region_of(Setting::new(text.to_owned(), "test")).expect("valid").value, "cn-hangzhou");
        }
        for bad in ["", "oss-", "CN", "cn hangzhou", "cn/x"] {
            assert!(region_of(Setting::new(bad.to_owned(), "test")).is_err(), "{bad}");
        }
    }
}
