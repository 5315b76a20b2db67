//! The metadata service of EC2 instances, asked with a session token where it gives one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, StatusCode};
use rand::RngExt;

use super::answer;
use super::endpoint;
use super::service::{Exchange, Route, Services};
use super::setup::Setup;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Again, Answer, Dialect, DocumentFault, Failure, RetryPolicy, ServiceError, Verdict};

const DISABLED: &str = "AWS_EC2_METADATA_DISABLED";
const ENDPOINT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
const ENDPOINT_MODE: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE";

const IPV4: &str = "http://169.254.169.254";
const IPV6: &str = "http://[fd00:ec2::254]";
const TOKEN_PATH: &str = "/latest/api/token";
const ROLE_PATH: &str = "/latest/meta-data/iam/security-credentials/";
const TOKEN_LIFE: &str = "21600";

/// Credentials with less life than this, and somewhat more, are taken for the last ones that a service in
/// trouble can give, and are used on.
const SOON: Duration = Duration::from_secs(900);

/// Where the service is, and how long it is waited for.
#[derive(Debug)]
pub(super) struct InstanceMetadata {
    url: String,
    timeout: Duration,
    attempts: u32,
    needs_token: bool,
}

impl InstanceMetadata {
    /// From variables and the profile; `None` when it is turned off.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for a setting that is wrong, even when it is turned off.
    pub(super) fn find(setup: &Setup<'_>) -> Result<Option<Self>> {
        let mode = setup.setting(ENDPOINT_MODE, "ec2_metadata_service_endpoint_mode").map(str::to_ascii_lowercase);
        let ipv6 = match mode.as_deref() {
            Some("ipv4") => false,
            Some("ipv6") => true,
            None => setup.is_on("AWS_IMDS_USE_IPV6", "imds_use_ipv6"),
            Some(_) => {
                return Err(Error::invalid_config(format!("the setting is not known: variable={ENDPOINT_MODE}"))
                    .with_hint("write IPv4 or IPv6"));
            }
        };
        let given = setup.setting(ENDPOINT, "ec2_metadata_service_endpoint").filter(|url| !url.is_empty());
        let url = given.unwrap_or(if ipv6 { IPV6 } else { IPV4 }).trim_end_matches('/').to_owned();
        if !endpoint::is_plain(&url) {
            return Err(Error::invalid_config(format!("the endpoint is not a URL: variable={ENDPOINT}"))
                .with_hint("write it as http://host, or unset it"));
        }
        let seconds = setup.number("AWS_METADATA_SERVICE_TIMEOUT", "metadata_service_timeout", 1)?;
        let found = Self {
            url,
            timeout: Duration::from_secs(seconds.into()),
            attempts: setup.number("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "metadata_service_num_attempts", 1)?,
            needs_token: setup.is_on("AWS_EC2_METADATA_V1_DISABLED", "ec2_metadata_v1_disabled"),
        };
        let disabled = setup.context.environment.raw(DISABLED).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        Ok((!disabled).then_some(found))
    }

    /// Asks for a token, the role's name, and its credentials. `None` where there is no such service, or
    /// the instance has no role.
    ///
    /// # Errors
    /// [`Unauthenticated`](ErrorKind::Unauthenticated) when there is no token and one must be used.
    pub(super) async fn load(&self, services: &Services) -> Result<Option<Credentials>> {
        let mut ttl = HeaderMap::new();
        ttl.insert("x-aws-ec2-metadata-token-ttl-seconds", HeaderValue::from_static(TOKEN_LIFE));
        let token = match self.ask(services, Method::PUT, TOKEN_PATH, ttl).await {
            Ok(answer) => token(&answer),
            Err(failure) if failure.status == Some(StatusCode::BAD_REQUEST) => return Ok(None),
            Err(_) => None,
        };
        if token.is_none() && self.needs_token {
            return Err(Error::new(
                ErrorKind::Unauthenticated,
                format!("the metadata service gives no token, and must not be asked without: url={}", self.url),
            )
            .with_hint("set AWS_EC2_METADATA_DISABLED=true where this is no EC2 instance, or give credentials"));
        }
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert("x-aws-ec2-metadata-token", token);
        }
        let Ok(answer) = self.ask(services, Method::GET, ROLE_PATH, headers.clone()).await else { return Ok(None) };
        let Some(role) = std::str::from_utf8(&answer.body).ok().map(str::trim).filter(|role| is_role(role)) else {
            return Ok(None);
        };
        let path = format!("{ROLE_PATH}{role}");
        let Ok(answer) = self.ask(services, Method::GET, &path, headers).await else { return Ok(None) };
        let now = services.context().clock.now();
        Ok(answer::read(&answer.body).map(|found| used_on(found, now)))
    }

    async fn ask(
        &self,
        services: &Services,
        method: Method,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Answer, Failure> {
        let exchange = Exchange {
            operation: "ask instance metadata",
            method,
            url: format!("{}{path}", self.url),
            shown: self.url.clone(),
            headers,
            body: Bytes::new(),
            secrets: Vec::new(),
            route: Route::Direct,
            signed: None,
            dialect: Arc::new(MetadataDialect),
            retry: RetryPolicy::new(self.attempts, Duration::ZERO, Duration::ZERO),
            timeout: self.timeout,
        };
        services.exchange(exchange).await
    }
}

fn token(answer: &Answer) -> Option<HeaderValue> {
    let mut token = HeaderValue::from_bytes(&answer.body).ok().filter(|token| !token.is_empty())?;
    token.set_sensitive(true);
    Some(token)
}

/// Whether a text is the name of a role, and not a page of something else.
fn is_role(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+=,.@-_".contains(&b))
}

/// Gives credentials that end soon, or have ended, a while more: the service renews them long before, so
/// it is in trouble, and S3 takes them as long as it is.
fn used_on(found: Credentials, now: SystemTime) -> Credentials {
    let while_more = SOON + Duration::from_secs(rand::rng().random_range(120..=600));
    match found.expires_at() {
        Some(end) if end <= now + while_more => {
            tracing::warn!(
                "the metadata service gives credentials that end soon; they are used on, and asked for again"
            );
            found.with_expiry(Some(now + while_more))
        }
        _ => found,
    }
}

/// What the service answers is looked at by its status alone.
#[derive(Debug)]
struct MetadataDialect;

impl Dialect for MetadataDialect {
    fn service_error(&self, _: &HeaderMap, _: &[u8]) -> ServiceError {
        ServiceError::default()
    }

    fn verdict(&self, status: StatusCode, _: &HeaderMap, _: &ServiceError, _: bool) -> Verdict {
        let lasting = matches!(
            status,
            StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED
        );
        let again = if lasting { Again::Never } else { Again::Later };
        Verdict { kind: ErrorKind::Unauthenticated, again, maybe_applied: false, hint: None }
    }

    fn check_document(&self, _: &HeaderMap, _: &[u8]) -> Result<(), DocumentFault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn credentials_that_end_soon_are_used_on() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let end = |seconds_from_now: i64| {
            let end = UNIX_EPOCH + Duration::from_secs((1_000_000 + seconds_from_now).unsigned_abs());
            used_on(Credentials::new("AK", "SK").with_expiry(Some(end)), now).expires_at().expect("ends")
        };
        assert_eq!(end(7_200), now + Duration::from_secs(7_200));
        for soon in [-3_600, 0, 600, 1_000] {
            let life = end(soon).duration_since(now).expect("alive").as_secs();
            assert!((1_020..=1_500).contains(&life), "{soon}: {life}");
        }
    }

    #[test]
    fn names_of_roles() {
        assert!(is_role("my-role_1+=,.@"));
        for text in ["", "a b", "a/b", "<html>", "a?b", "../x"] {
            assert!(!is_role(text), "{text}");
        }
    }
}
