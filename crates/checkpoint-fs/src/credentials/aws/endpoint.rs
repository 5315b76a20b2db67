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

fn check_url(url: &str, source: &str) -> Result<String> {
    let parsed = Url::parse(url).ok().filter(|parsed| {
        matches!(parsed.scheme(), "http" | "https") && parsed.host_str().is_some() && parsed.query().is_none()
    });
    if parsed.is_none() {
        return Err(Error::invalid_config(format!("the endpoint is not a URL: source={source:?}"))
            .with_hint("write it as https://host or http://host:port"));
    }
    Ok(url.trim_end_matches('/').to_owned())
}
