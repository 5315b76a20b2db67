//! AWS's own endpoints of S3.

use crate::backend::bucket::Endpoint;
use crate::credentials::aws::domain;
use crate::error::{Error, Result};

/// The name of the place outside all regions. Requests to it are signed for [`GLOBAL_REGION`].
pub(super) const GLOBAL: &str = "aws-global";
/// The region of that place, and of those who name none.
pub(super) const GLOBAL_REGION: &str = "us-east-1";

/// Partitions without FIPS endpoints and acceleration.
const PLAIN_DOMAIN: &str = "amazonaws.com.cn";
/// Partitions without endpoints over IPv6.
const IPV4_DOMAINS: [&str; 2] = ["cloud.adc-e.uk", "csp.hci.ic.gov"];

/// Which of a region's endpoints is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Variant {
    /// With validated cryptography.
    pub(super) fips: bool,
    /// Over IPv4 and IPv6.
    pub(super) dual_stack: bool,
    /// By the nearest edge of the network.
    pub(super) accelerate: bool,
    /// That of us-east-1 itself instead of the one without a region.
    pub(super) regional: bool,
}

impl Variant {
    /// The endpoint of a region.
    pub(super) fn endpoint(self, region: &str, tls: bool) -> Result<Endpoint> {
        let domain = self.domain(region)?;
        let plain = !self.fips && !self.dual_stack;
        let host = match region {
            GLOBAL if plain => format!("s3.{domain}"),
            GLOBAL_REGION if plain && !self.regional => format!("s3.{domain}"),
            region => {
                let region = if region == GLOBAL { GLOBAL_REGION } else { region };
                format!("s3{}{}.{region}.{domain}", if self.fips { "-fips" } else { "" }, self.stack())
            }
        };
        Ok(Endpoint::at_host(host, tls))
    }

    /// The endpoint that requests go to when acceleration is asked for.
    pub(super) fn accelerated(self, region: &str, tls: bool) -> Result<Endpoint> {
        Ok(Endpoint::at_host(format!("s3-accelerate{}.{}", self.stack(), self.domain(region)?), tls))
    }

    fn stack(self) -> &'static str {
        if self.dual_stack { ".dualstack" } else { "" }
    }

    fn domain(self, region: &str) -> Result<&'static str> {
        let domain = domain(region, false);
        let refused = |what: &str| {
            Err(Error::invalid_config(format!("{what}: region={region}"))
                .with_hint("take the setting out, or choose another region"))
        };
        if self.fips && domain == PLAIN_DOMAIN {
            return refused("the region's partition has no FIPS endpoints");
        }
        if self.accelerate && domain == PLAIN_DOMAIN {
            return refused("acceleration is not there in the region's partition");
        }
        if self.accelerate && self.fips {
            return refused("acceleration has no FIPS endpoints");
        }
        if self.dual_stack && IPV4_DOMAINS.contains(&domain) {
            return refused("the region's partition has no dual-stack endpoints");
        }
        Ok(domain)
    }
}

/// Whether a configured endpoint is that of AWS's acceleration.
pub(super) fn is_accelerated(endpoint: &Endpoint) -> bool {
    matches!(endpoint.host.as_str(), "s3-accelerate.amazonaws.com" | "s3-accelerate.dualstack.amazonaws.com")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Variant = Variant { fips: false, dual_stack: false, accelerate: false, regional: false };

    #[test]
    fn endpoints_by_region_and_variant() {
        let fips = Variant { fips: true, ..PLAIN };
        let dual = Variant { dual_stack: true, ..PLAIN };
        for (variant, region, expected) in [
            (PLAIN, "us-east-1", "https://s3.amazonaws.com"),
            (PLAIN, "aws-global", "https://s3.amazonaws.com"),
            (PLAIN, "eu-west-1", "https://s3.eu-west-1.amazonaws.com"),
            (PLAIN, "cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn"),
            (PLAIN, "eusc-de-east-1", "https://s3.eusc-de-east-1.amazonaws.eu"),
            (Variant { regional: true, ..PLAIN }, "us-east-1", "https://s3.us-east-1.amazonaws.com"),
            (Variant { regional: true, ..PLAIN }, "aws-global", "https://s3.amazonaws.com"),
            (fips, "us-east-1", "https://s3-fips.us-east-1.amazonaws.com"),
            (fips, "aws-global", "https://s3-fips.us-east-1.amazonaws.com"),
            (dual, "us-east-1", "https://s3.dualstack.us-east-1.amazonaws.com"),
            (dual, "us-iso-east-1", "https://s3.dualstack.us-iso-east-1.c2s.ic.gov"),
            (
                Variant { dual_stack: true, ..fips },
                "us-gov-west-1",
                "https://s3-fips.dualstack.us-gov-west-1.amazonaws.com",
            ),
        ] {
            assert_eq!(variant.endpoint(region, true).expect(region).to_string(), expected);
        }
        assert_eq!(PLAIN.endpoint("us-east-1", false).expect("valid").to_string(), "http://s3.amazonaws.com");
        let fast = Variant { accelerate: true, ..dual };
        let url = fast.accelerated("eu-west-1", true).expect("valid");
        assert_eq!(url.to_string(), "https://s3-accelerate.dualstack.amazonaws.com");
    }

    #[test]
    fn what_a_partition_lacks_is_refused() {
        let accelerate = Variant { accelerate: true, ..PLAIN };
        for (variant, region) in [
            (Variant { fips: true, ..PLAIN }, "cn-north-1"),
            (accelerate, "cn-north-1"),
            (Variant { fips: true, ..accelerate }, "us-west-2"),
            (Variant { dual_stack: true, ..PLAIN }, "eu-isoe-west-1"),
        ] {
            assert!(variant.endpoint(region, true).is_err(), "{region} {variant:?}");
        }
    }
}
