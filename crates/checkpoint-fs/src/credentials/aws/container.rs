//! The agents that give credentials to containers: those of ECS and EKS.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value as Json;
use url::{Host, Url};

use super::answer;
use super::service::{Exchange, Route, Services};
use crate::credentials::{Credentials, Secret, ShownPath};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Environment;
use crate::transport::{Again, Dialect, DocumentFault, ServiceError, Verdict};

const RELATIVE_URI: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";

/// The host that relative URIs belong to.
const AGENT: &str = "http://169.254.170.2";
/// Hosts that are asked without TLS, besides this machine itself.
const AGENTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// The time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;

/// What shows the agent who is asking.
#[derive(Debug)]
enum Token {
    None,
    Given(Secret),
    File(PathBuf),
}

/// The URL of an agent.
#[derive(Debug)]
pub(super) struct Container {
    url: Url,
    token: Token,
}

impl Container {
    /// From the variables. One that is set to nothing is set.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for what is no URL, or that of a host which might be
    /// anybody's and is to be asked without TLS.
    pub(super) fn find(environment: &Environment) -> Result<Option<Self>> {
        let (variable, text) = match (environment.raw(RELATIVE_URI), environment.raw(FULL_URI)) {
            (Some(path), _) => (RELATIVE_URI, format!("{AGENT}{path}")),
            (None, Some(url)) => (FULL_URI, url.to_owned()),
            (None, None) => return Ok(None),
        };
        let wrong = |what: &str| {
            Error::invalid_config(format!("{what}: variable={variable}")).with_hint(
                "give an https URL, or an http one of 169.254.170.2, 169.254.170.23, fd00:ec2::23 or this machine",
            )
        };
        let url = Url::parse(&text).map_err(|_| wrong("the variable is not a URL"))?;
        let trusted = match url.scheme() {
            "https" => true,
            "http" => is_local(&url),
            _ => false,
        };
        if !trusted {
            return Err(wrong("credentials are not asked for without TLS from just any host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("a user or a password has no place in the URL"));
        }
        let token = match (environment.raw(TOKEN_FILE), environment.raw(TOKEN)) {
            (Some(path), _) => Token::File(path.into()),
            (None, Some(token)) => Token::Given(Secret::new(token)),
            (None, None) => Token::None,
        };
        Ok(Some(Self { url, token }))
    }

    /// Asks the agent. A token in a file is read afresh, as it is replaced from time to time.
    pub(super) async fn load(&self, services: &Services) -> Result<Credentials> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = self.token().await? {
            headers.insert(AUTHORIZATION, token);
        }
        let exchange = Exchange {
            operation: "get container credentials",
            method: Method::GET,
            url: self.url.to_string(),
            // The path may be what shows that one may ask.
            shown: self.url.origin().ascii_serialization(),
            headers,
            body: Bytes::new(),
            secrets: telling(&self.url),
            route: Route::Direct,
            signed: None,
            dialect: Arc::new(AgentDialect),
            retry: services.context().retry.with_attempts(ATTEMPTS),
            timeout: TIMEOUT,
        };
        let answer = services.exchange(exchange).await.map_err(|failure| failure.error)?;
        answer::read(&answer.body).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "the answer of the container's agent holds no credentials")
                .with_url(self.url.origin().ascii_serialization())
        })
    }

    async fn token(&self) -> Result<Option<HeaderValue>> {
        let (text, variable) = match &self.token {
            Token::None => return Ok(None),
            Token::Given(token) => (token.clone(), TOKEN),
            Token::File(path) => {
                let text = tokio::fs::read_to_string(path).await.map_err(|e| {
                    let what = "the token for the container's agent cannot be read";
                    Error::invalid_config(format!("{what}: variable={TOKEN_FILE} path={}", ShownPath(path)))
                        .with_source(e)
                })?;
                (Secret::new(text), TOKEN_FILE)
            }
        };
        let mut value = HeaderValue::from_str(text.expose()).map_err(|_| {
            Error::invalid_config(format!(
                "the token for the container's agent has line breaks or other control characters: variable={variable}"
            ))
            .with_hint("take out the line break at the end of the file or variable")
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// What in a URL may show that one may ask: its query, and the segments that are IDs and no words.
fn telling(url: &Url) -> Vec<Secret> {
    let is_id = |segment: &&str| segment.len() >= 16 && segment.bytes().any(|b| b.is_ascii_digit());
    url.path_segments().into_iter().flatten().filter(is_id).chain(url.query()).map(Secret::new).collect()
}

/// Whether a URL's host is this machine, or an agent's address.
fn is_local(url: &Url) -> bool {
    let ip = match url.host() {
        Some(Host::Domain(name)) => return name == "localhost",
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        None => return false,
    };
    ip.is_loopback() || AGENTS.iter().any(|agent| agent.parse() == Ok(ip))
}

/// Agents are asked again whatever they answer; what they say is not repeated.
#[derive(Debug)]
struct AgentDialect;

impl Dialect for AgentDialect {
    fn service_error(&self, _: &HeaderMap, body: &[u8]) -> ServiceError {
        let json: Json = serde_json::from_slice(body).unwrap_or_default();
        let text = |names: [&str; 2]| {
            let found = names.iter().find_map(|name| json.get(*name)).and_then(Json::as_str);
            found.unwrap_or_default().to_owned()
        };
        ServiceError { code: text(["code", "Code"]), message: text(["message", "Message"]), request_id: String::new() }
    }

    fn verdict(&self, status: StatusCode, _: &HeaderMap, _: &ServiceError, _: bool) -> Verdict {
        let hint =
            "check that this container has a role, and AWS_CONTAINER_AUTHORIZATION_TOKEN where the agent wants one";
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimited,
            _ if status.is_server_error() => ErrorKind::Io,
            _ => ErrorKind::Unauthenticated,
        };
        Verdict::new(kind, Again::Later, false, hint)
    }

    fn check_document(&self, _: &HeaderMap, body: &[u8]) -> Result<(), DocumentFault> {
        answer::check_json(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pairs: &[(&str, &str)]) -> Result<Option<Container>> {
        Container::find(&pairs.iter().copied().collect())
    }

    #[test]
    fn which_url() {
        let url = |pairs: &[_]| find(pairs).expect("valid").map(|c| c.url.to_string());
        assert_eq!(url(&[]), None);
        let both = [(RELATIVE_URI, "/v2/credentials?id=1"), (FULL_URI, "http://localhost:1/x")];
        assert_eq!(url(&both).as_deref(), Some("http://169.254.170.2/v2/credentials?id=1"));
        for full in [
            "http://localhost:1/x",
            "http://127.0.0.9/x",
            "http://[::1]:8/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
            "https://anywhere.example/x",
        ] {
            assert_eq!(url(&[(FULL_URI, full)]).as_deref(), Some(full));
        }
    }

    #[test]
    fn hosts_that_only_look_right_are_refused() {
        for full in [
            "",
            "http://example.com/x",
            "http://169.254.170.2.example.com/x",
            "http://169.254.170.2@example.com/x",
            "http://localhost.example.com/x",
            "http://169.254.169.254/x",
            "http://10.0.0.1/x",
            "http://[fd00:ec2::254]/x",
            "ftp://localhost/x",
            "file:///etc/passwd",
            "https://user:hunter2@example.com/x",
        ] {
            let error = find(&[(FULL_URI, full)]).expect_err(full);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        for relative in ["@example.com/x", ".example.com/x", ":x/y", "0/x"] {
            assert!(find(&[(RELATIVE_URI, relative)]).is_err(), "{relative}");
        }
    }
}
