//! Where the services are that give credentials.

use url::Url;

use super::partition;
use super::setup::Setup;
use crate::error::{Error, Result};

/// A service, as the settings name it.
#[derive(Debug)]
pub(super) struct Service {
    /// The variable of its own endpoint.
    pub(super) variable: &'static str,
    /// Its name in `services` sections.
    pub(super) section: &'static str,
    /// The first part of its host in AWS.
    pub(super) host: &'static str,
}

/// The Security Token Service, which gives credentials for roles.
pub(super) const STS: Service = Service { variable: "AWS_ENDPOINT_URL_STS", section: "sts", host: "sts" };
/// The portal of single sign-on, which gives credentials for its tokens.
pub(super) const SSO: Service = Service { variable: "AWS_ENDPOINT_URL_SSO", section: "sso", host: "portal.sso" };
/// Where tokens of single sign-on are renewed.
pub(super) const SSO_OIDC: Service =
    Service { variable: "AWS_ENDPOINT_URL_SSO_OIDC", section: "sso_oidc", host: "oidc" };

/// The variable of every service's endpoint.
const ENDPOINT_OF_ALL: &str = "AWS_ENDPOINT_URL";

/// Regions that one STS endpoint without a region in its name stands for, where the old way is asked for.
const LEGACY_STS_REGIONS: [&str; 16] = [
    "ap-northeast-1",
    "ap-south-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "aws-global",
    "ca-central-1",
    "eu-central-1",
    "eu-north-1",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
];

/// The region that requests to the STS endpoint without one are signed for.
const GLOBAL_REGION: &str = "us-east-1";

/// Where STS is, and the region that requests to it are signed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StsEndpoint {
    pub(super) url: String,
    pub(super) region: String,
}

impl StsEndpoint {
    /// Finds it by the settings.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) for an endpoint that is no URL or comes without
    /// a region, and for a region or a setting that is none.
    pub(super) fn find(setup: &Setup<'_>) -> Result<Self> {
        let variable = "AWS_STS_REGIONAL_ENDPOINTS";
        let legacy = match setup.setting(variable, "sts_regional_endpoints").unwrap_or_default() {
            "" | "regional" => false,
            "legacy" => true,
            _ => {
                return Err(Error::invalid_config(format!("the setting is not known: variable={variable}"))
                    .with_hint("write regional or legacy"));
            }
        };
        let region = setup.context.region.as_deref();
        if let Some(region) = region {
            check_region(region)?;
        }
        if let Some(url) = configured(setup, &STS)? {
            let region = region.ok_or_else(|| {
                Error::invalid_config("the endpoint of STS is set, and no region to sign for")
                    .with_hint("set AWS_DEFAULT_REGION, or AWS_ENDPOINT_URL_S3 to redirect S3 alone")
            })?;
            return Ok(Self { url, region: region.to_owned() });
        }
        let plain = !setup.is_on("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint")
            && !setup.is_on("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
        let region = region.unwrap_or("aws-global");
        if plain && (region == "aws-global" || (legacy && LEGACY_STS_REGIONS.contains(&region))) {
            return Ok(Self { url: "https://sts.amazonaws.com".to_owned(), region: GLOBAL_REGION.to_owned() });
        }
        let region = if region == "aws-global" { GLOBAL_REGION } else { region };
        Ok(Self { url: setup.service_url(&STS, region)?, region: region.to_owned() })
    }
}

/// The endpoint that is set for a service: by its variable, by that of all services, or by the profile.
pub(super) fn configured(setup: &Setup<'_>, service: &Service) -> Result<Option<String>> {
    if setup.is_on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls") {
        return Ok(None);
    }
    let variable = [service.variable, ENDPOINT_OF_ALL]
        .into_iter()
        .find_map(|name| Some((setup.context.environment.get(name)?, name)));
    let found = match variable {
        Some(found) => Some(found),
        None => setup.profile.endpoint_url(service.section)?,
    };
    found.map(|(url, source)| check_url(url, source)).transpose()
}

/// AWS's own endpoint in a region.
pub(super) fn of_region(host: &str, region: &str, fips: bool, dual_stack: bool) -> String {
    // In this partition the usual endpoints are FIPS ones.
    let marked = fips && (dual_stack || !region.starts_with("us-gov-"));
    let mark = if marked { "-fips" } else { "" };
    format!("https://{host}{mark}.{region}.{}", partition::domain(region, dual_stack))
}

/// Refuses what would change the host that a region is put into.
pub(super) fn check_region(region: &str) -> Result<()> {
    let fits = region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if region.is_empty() || region.len() > 63 || !fits || region.starts_with('-') || region.ends_with('-') {
        return Err(Error::invalid_config(format!("the region is not valid: region={region:?}"))
            .with_hint("a region looks like us-east-1"));
    }
    Ok(())
}

/// Whether a text is a URL of HTTP that holds no secret: no user, no password, no query.
pub(super) fn is_plain(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

fn check_url(url: &str, source: &str) -> Result<String> {
    if !is_plain(url) {
        return Err(Error::invalid_config(format!("the endpoint is not a plain URL: source={source:?}"))
            .with_hint("write it as https://host or http://host:port"));
    }
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::setup::AwsContext;
    use super::*;
    use crate::transport::{RetryPolicy, SystemClock};

    fn sts(region: Option<&str>, variables: &[(&str, &str)]) -> Result<StsEndpoint> {
        let context = AwsContext {
            environment: variables.iter().copied().collect(),
            profile: None,
            region: region.map(str::to_owned),
            retry: RetryPolicy::default(),
            clock: Arc::new(SystemClock),
        };
        StsEndpoint::find(&Setup::read(&context)?)
    }

    /// What botocore 1.43 does with the same settings.
    #[test]
    fn where_sts_is() {
        const LEGACY: (&str, &str) = ("AWS_STS_REGIONAL_ENDPOINTS", "legacy");
        const FIPS: (&str, &str) = ("AWS_USE_FIPS_ENDPOINT", "true");
        const DUAL: (&str, &str) = ("AWS_USE_DUALSTACK_ENDPOINT", "True");
        const ALL: (&str, &str) = ("AWS_ENDPOINT_URL", "http://x:1/p/");
        for (region, variables, host, signed_for) in [
            (None, &[][..], "https://sts.amazonaws.com", "us-east-1"),
            (Some("us-east-1"), &[], "https://sts.us-east-1.amazonaws.com", "us-east-1"),
            (Some("cn-north-1"), &[], "https://sts.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            (Some("us-gov-west-1"), &[], "https://sts.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
            (Some("aws-global"), &[], "https://sts.amazonaws.com", "us-east-1"),
            (Some("weird"), &[], "https://sts.weird.amazonaws.com", "weird"),
            (Some("us-iso-east-1"), &[], "https://sts.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
            (None, &[LEGACY], "https://sts.amazonaws.com", "us-east-1"),
            (Some("eu-west-1"), &[LEGACY], "https://sts.amazonaws.com", "us-east-1"),
            (Some("eu-south-1"), &[LEGACY], "https://sts.eu-south-1.amazonaws.com", "eu-south-1"),
            (Some("cn-north-1"), &[LEGACY], "https://sts.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            (Some("us-east-1"), &[LEGACY, FIPS], "https://sts-fips.us-east-1.amazonaws.com", "us-east-1"),
            (
                Some("eu-west-1"),
                &[("AWS_STS_REGIONAL_ENDPOINTS", "")],
                "https://sts.eu-west-1.amazonaws.com",
                "eu-west-1",
            ),
            (Some("eu-west-1"), &[FIPS], "https://sts-fips.eu-west-1.amazonaws.com", "eu-west-1"),
            (Some("us-gov-west-1"), &[FIPS], "https://sts.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
            (Some("eu-west-1"), &[DUAL], "https://sts.eu-west-1.api.aws", "eu-west-1"),
            (Some("eu-west-1"), &[DUAL, FIPS], "https://sts-fips.eu-west-1.api.aws", "eu-west-1"),
            (Some("eu-west-1"), &[ALL], "http://x:1/p/", "eu-west-1"),
            (Some("eu-west-1"), &[ALL, FIPS], "http://x:1/p/", "eu-west-1"),
            (Some("eu-west-1"), &[ALL, ("AWS_ENDPOINT_URL_STS", "http://y")], "http://y", "eu-west-1"),
            (Some("eu-west-1"), &[ALL, ("AWS_ENDPOINT_URL_STS", "")], "http://x:1/p/", "eu-west-1"),
            (
                Some("eu-west-1"),
                &[ALL, ("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "True")],
                "https://sts.eu-west-1.amazonaws.com",
                "eu-west-1",
            ),
        ] {
            let found = sts(region, variables).expect("valid");
            assert_eq!((found.url.as_str(), found.region.as_str()), (host, signed_for), "{region:?} {variables:?}");
        }
        for (region, variables) in [
            (None, &[ALL][..]),
            (Some("eu_west 1"), &[]),
            (Some("evil.example/"), &[]),
            (Some("eu-west-1"), &[("AWS_STS_REGIONAL_ENDPOINTS", "x")]),
            (Some("eu-west-1"), &[("AWS_ENDPOINT_URL", "nohttp")]),
            (Some("eu-west-1"), &[("AWS_ENDPOINT_URL", "http://x/?q=1")]),
            (Some("eu-west-1"), &[("AWS_ENDPOINT_URL", "http://user:hunter2@x/")]),
        ] {
            let error = sts(region, variables).expect_err("wrong");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
