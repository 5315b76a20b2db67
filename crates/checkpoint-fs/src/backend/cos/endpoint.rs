//! COS's endpoints: which hosts are its own, which region they name, and where the bucket's name stands.

use std::borrow::Cow;

use crate::backend::bucket::{Addressing, BucketAddress, Endpoint, is_host_name};
use crate::error::{Error, Result};
use crate::resolution::Setting;

/// The domains that are COS's own.
const DOMAINS: [&str; 3] = [".myqcloud.com", ".tencentcos.cn", ".tencentcos.com"];
/// The label before the region in a host of COS.
const SERVICES: [&str; 2] = ["cos", "cos-internal"];
/// What stands for the region in the host of global acceleration.
const ACCELERATE: &str = "accelerate";

/// An endpoint, taken apart where it is COS's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CosEndpoint {
    endpoint: Endpoint,
    own: Option<OwnHost>,
}

/// What a host of COS's own says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnHost {
    /// What stands before the service: a bucket that the endpoint already holds.
    bucket: Option<String>,
    region: Option<String>,
    /// The host without that bucket.
    service: String,
}

impl CosEndpoint {
    /// Parses a configured endpoint; `source` names it in errors. A host of COS's own may come without
    /// `https://`, as its console shows it.
    pub(crate) fn parse(text: &str, tls: bool, source: &str) -> Result<Self> {
        let text = text.trim();
        let scheme = if tls { "https" } else { "http" };
        let endpoint = match Endpoint::parse(text, source) {
            Ok(endpoint) => endpoint,
            Err(error) if text.contains("://") => return Err(error),
            Err(error) => match Endpoint::parse(&format!("{scheme}://{text}"), source) {
                Ok(endpoint) if is_own(&endpoint.plain_host()) => endpoint,
                _ => return Err(error),
            },
        };
        let endpoint = endpoint.with_host(endpoint.plain_host());
        let own = OwnHost::parse(&endpoint.host);
        if own.is_some() && !endpoint.prefix.is_empty() {
            return Err(Error::invalid_config(format!("the endpoint of COS holds a path: source={source}")).with_hint(
                "write it as https://cos.ap-guangzhou.myqcloud.com; the bucket and the path are the URL's",
            ));
        }
        Ok(Self { endpoint, own })
    }

    /// The public endpoint of a region.
    pub(crate) fn of_region(region: &str, tls: bool) -> Self {
        let endpoint = Endpoint::at_host(format!("cos.{region}.myqcloud.com"), tls);
        let own = OwnHost::parse(&endpoint.host);
        Self { endpoint, own }
    }

    /// The endpoint at another host name.
    fn at_host(&self, host: String) -> Endpoint {
        self.endpoint.with_host(host)
    }

    /// The region that the endpoint names.
    pub(crate) fn region(&self) -> Option<&str> {
        self.own.as_ref()?.region.as_deref()
    }

    /// The bucket that the endpoint holds already.
    pub(crate) fn held_bucket(&self) -> Option<&str> {
        self.own.as_ref()?.bucket.as_deref()
    }

    /// Whether the host is COS's own.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Whether requests go over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.endpoint.is_encrypted()
    }

    /// The endpoint's URL, without the bucket.
    pub(crate) fn url(&self) -> String {
        match &self.own {
            Some(own) => self.at_host(own.service.clone()).to_string(),
            None => self.endpoint.to_string(),
        }
    }

    /// Where the bucket is, and why there.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for what COS would refuse: a path-style request,
    /// a name that cannot be part of a host, an endpoint with another bucket in it.
    pub(crate) fn address(
        &self,
        bucket: &str,
        asked: Option<&Setting<Addressing>>,
    ) -> Result<(BucketAddress, Setting<Addressing>)> {
        if let Some(own) = &self.own {
            return self.own_address(own, bucket, asked);
        }
        let held = self.endpoint.host.strip_prefix(bucket).and_then(|rest| rest.strip_prefix('.'));
        let fits = is_host_name(bucket, !self.is_encrypted());
        let (endpoint, addressing, source) = match (asked, held) {
            _ if self.endpoint.is_ip() => (None, Addressing::Path, "an IP address has no sub-hosts".into()),
            (Some(Setting { value: Addressing::Path, source }), _) => (None, Addressing::Path, source.clone()),
            (_, Some(rest)) => (Some(self.at_host(rest.to_owned())), Addressing::Virtual, HELD.into()),
            _ if !fits => (None, Addressing::Path, "the bucket's name cannot be part of the host".into()),
            (Some(Setting { value: Addressing::Virtual, source }), _) => (None, Addressing::Virtual, source.clone()),
            (None, _) => (None, Addressing::Path, "default of a host that is not COS's own".into()),
        };
        let address = BucketAddress::new(endpoint.as_ref().unwrap_or(&self.endpoint), addressing, bucket);
        Ok((address, Setting::new(addressing, source)))
    }

    fn own_address(
        &self,
        own: &OwnHost,
        bucket: &str,
        asked: Option<&Setting<Addressing>>,
    ) -> Result<(BucketAddress, Setting<Addressing>)> {
        if let Some(Setting { value: Addressing::Path, source }) = asked {
            return Err(Error::invalid_config(format!(
                "COS refuses path-style requests: source={source} value={}",
                Addressing::Path
            ))
            .with_hint("set config_kwargs.s3.addressing_style to virtual, or leave it out"));
        }
        if !is_host_name(bucket, false) {
            return Err(Error::invalid_config(format!(
                "the bucket's name cannot be part of a host: bucket={bucket:?}"
            ))
            .with_hint("a bucket of COS is called name-APPID, for example data-1250000000, in lower case"));
        }
        let source: Cow<'static, str> = match (&own.bucket, asked) {
            (Some(held), _) if held != bucket => {
                let message = format!("the endpoint holds another bucket than the URL: endpoint={held} url={bucket}");
                return Err(Error::invalid_config(message)
                    .with_hint(format!("write the endpoint without a bucket: https://{}", own.service)));
            }
            (Some(_), _) => HELD.into(),
            (None, Some(asked)) => asked.source.clone(),
            (None, None) => "the only style that COS accepts".into(),
        };
        let endpoint = self.at_host(own.service.clone());
        let address = BucketAddress::new(&endpoint, Addressing::Virtual, bucket);
        Ok((address, Setting::new(Addressing::Virtual, source)))
    }
}

const HELD: &str = "the endpoint already holds the bucket";

/// Whether a host, perhaps with a port, is COS's own.
fn is_own(host: &str) -> bool {
    let name = host.split(':').next().unwrap_or_default();
    DOMAINS.iter().any(|domain| name.ends_with(domain))
}

impl OwnHost {
    fn parse(host: &str) -> Option<Self> {
        if !is_own(host) {
            return None;
        }
        let name = host.split(':').next().unwrap_or_default();
        let labels: Vec<&str> = name.split('.').collect();
        // The service is the last one of its name that a region and a domain follow: a bucket may be called so too.
        let at = (0..labels.len().saturating_sub(3)).rev().find(|at| SERVICES.contains(&labels[*at]));
        let Some(at) = at else {
            return Some(Self { bucket: None, region: None, service: host.to_owned() });
        };
        let bucket = labels[..at].join(".");
        let region = labels[at + 1..labels.len() - 2].join(".");
        Some(Self {
            service: host[if bucket.is_empty() { 0 } else { bucket.len() + 1 }..].to_owned(),
            bucket: (!bucket.is_empty()).then_some(bucket),
            region: (region != ACCELERATE).then_some(region),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const BUCKET: &str = "bkt-125";

    fn setting(asked: Option<Addressing>) -> Option<Setting<Addressing>> {
        asked.map(|style| Setting::new(style, "a test"))
    }

    fn endpoint(text: &str) -> CosEndpoint {
        CosEndpoint::parse(text, true, "test").expect(text)
    }

    #[test]
    fn regions_are_read_from_hosts() {
        for (text, region, url) in [
            ("https://cos.ap-guangzhou.myqcloud.com", Some("ap-guangzhou"), "https://cos.ap-guangzhou.myqcloud.com"),
            ("https://bkt-125.cos.ap-x.myqcloud.com", Some("ap-x"), "https://cos.ap-x.myqcloud.com"),
            ("cos.ap-x.myqcloud.com", Some("ap-x"), "https://cos.ap-x.myqcloud.com"),
            ("bkt-125.cos-internal.ap-x.tencentcos.cn", Some("ap-x"), "https://cos-internal.ap-x.tencentcos.cn"),
            ("http://cos.accelerate.myqcloud.com", None, "http://cos.accelerate.myqcloud.com"),
            ("https://COS.ap-x.myqcloud.com:8443/", Some("ap-x"), "https://cos.ap-x.myqcloud.com:8443"),
            ("https://cos.cos.ap-x.myqcloud.com", Some("ap-x"), "https://cos.ap-x.myqcloud.com"),
            ("http://127.0.0.1:9000/pre", None, "http://127.0.0.1:9000/pre"),
            ("https://myqcloud.com.evil.example", None, "https://myqcloud.com.evil.example"),
        ] {
            assert_eq!((endpoint(text).region(), endpoint(text).url().as_str()), (region, url), "{text}");
        }
        assert!(CosEndpoint::parse("minio.local", true, "test").is_err(), "only COS's own hosts need no scheme");
        assert!(CosEndpoint::parse("https://cos.ap-x.myqcloud.com/bkt-125", true, "test").is_err());
    }

    #[test]
    fn the_bucket_stands_where_the_host_wants_it() {
        use Addressing::{Path, Virtual};
        for (text, asked, expected) in [
            ("https://cos.ap-x.myqcloud.com", None, "https://bkt-125.cos.ap-x.myqcloud.com/k"),
            ("https://cos.ap-x.myqcloud.com", Some(Virtual), "https://bkt-125.cos.ap-x.myqcloud.com/k"),
            ("https://bkt-125.cos.ap-x.myqcloud.com", None, "https://bkt-125.cos.ap-x.myqcloud.com/k"),
            ("http://127.0.0.1:9000", None, "http://127.0.0.1:9000/bkt-125/k"),
            ("http://127.0.0.1:9000", Some(Virtual), "http://127.0.0.1:9000/bkt-125/k"),
            ("http://localhost:9000", None, "http://localhost:9000/bkt-125/k"),
            ("http://localhost:9000", Some(Path), "http://localhost:9000/bkt-125/k"),
            ("http://minio.local", Some(Virtual), "http://bkt-125.minio.local/k"),
            ("http://minio.local", None, "http://minio.local/bkt-125/k"),
            ("http://bkt-125.files.example", None, "http://bkt-125.files.example/k"),
            ("http://bkt-125.files.example", Some(Path), "http://bkt-125.files.example/bkt-125/k"),
            ("https://cos-internal.ap-x.tencentcos.cn", None, "https://bkt-125.cos-internal.ap-x.tencentcos.cn/k"),
        ] {
            let (address, _) = endpoint(text).address(BUCKET, setting(asked).as_ref()).expect(text);
            assert_eq!(address.object_url("k"), expected, "{text} {asked:?}");
        }
    }

    #[test]
    fn what_cos_would_refuse_is_refused_here() {
        let own = "https://cos.ap-x.myqcloud.com";
        for (text, bucket, asked, expected) in [
            (own, BUCKET, Some(Addressing::Path), "virtual"),
            ("https://bkt-125.cos.ap-x.myqcloud.com", BUCKET, Some(Addressing::Path), "virtual"),
            (own, "Bkt_125", None, "name-APPID"),
            ("https://other-1.cos.ap-x.myqcloud.com", BUCKET, None, "https://cos.ap-x.myqcloud.com"),
        ] {
            let error = endpoint(text).address(bucket, setting(asked).as_ref()).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.hint().is_some_and(|hint| hint.contains(expected)), "{error:?}");
        }
    }
}
