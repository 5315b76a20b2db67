//! The tokens of single sign-on, where `aws sso login` keeps them.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use rand::RngExt;
use serde_json::{Map, Value as Json, json};
use sha1::{Digest, Sha1};

use super::endpoint;
use super::path;
use super::service::{Exchange, Route, Services};
use super::setup::Setup;
use super::sso::SsoDialect;
use crate::credentials::{Secret, expiry};
use crate::error::{Error, ErrorKind, Result};

/// How long before its end a token is renewed.
const MARGIN: Duration = Duration::from_secs(900);
/// The time of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where a token is kept, and where it is renewed.
#[derive(Debug)]
pub(super) struct SsoToken {
    profile: String,
    file: PathBuf,
    start_url: String,
    region: String,
    /// Where it is renewed; tokens that belong to no session are not.
    renewal_url: Option<String>,
}

impl SsoToken {
    /// The token of a session, or, for profiles of the older kind, of a start page.
    pub(super) fn new(
        setup: &Setup<'_>,
        profile: &str,
        session: Option<String>,
        start_url: String,
        region: String,
    ) -> Result<Self> {
        let name = session.as_deref().unwrap_or(&start_url);
        let digest: String = Sha1::digest(name.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
        let file = path::expand_home("~/.aws/sso/cache", &setup.context.environment).join(format!("{digest}.json"));
        let renewal_url = session.map(|_| setup.service_url(&endpoint::SSO_OIDC, &region)).transpose()?;
        Ok(Self { profile: profile.to_owned(), file, start_url, region, renewal_url })
    }

    /// What the user does about a token that is not good any more.
    pub(super) fn sign_in_hint(&self) -> String {
        format!("sign in again by `aws sso login --profile {}`", self.profile)
    }

    /// Whether there is a file with a token, good or not.
    pub(super) fn is_kept(&self) -> bool {
        self.file.is_file()
    }

    /// A token that is good now. One that ends within 15 minutes is renewed first, where the file holds
    /// what that takes, and the file is written anew.
    pub(super) async fn load(&self, services: &Services) -> Result<Secret> {
        let text = tokio::fs::read(&self.file).await.map_err(|e| self.unusable("there is no token").with_source(e))?;
        let kept: Json = serde_json::from_slice(&text).map_err(|_| self.unusable("the token's file is not JSON"))?;
        let (Some(token), Some(end)) = (text_of(&kept, "accessToken"), time_of(&kept, "expiresAt")) else {
            return Err(self.unusable("the token's file is not complete"));
        };
        let now = services.context().clock.now();
        if end > now + MARGIN || (self.renewal_url.is_none() && end > now) {
            return Ok(Secret::new(token));
        }
        if let Some(renewed) = self.renew(services, &kept, now).await {
            return Ok(renewed);
        }
        if end <= now {
            return Err(self.unusable("the token has expired"));
        }
        Ok(Secret::new(token))
    }

    /// A new token, or `None` where there is none to be had: the old one may still be good.
    async fn renew(&self, services: &Services, kept: &Json, now: SystemTime) -> Option<Secret> {
        let url = format!("{}/token", self.renewal_url.as_ref()?);
        let refresh = text_of(kept, "refreshToken")?;
        let (client, secret) = (text_of(kept, "clientId")?, text_of(kept, "clientSecret")?);
        if time_of(kept, "registrationExpiresAt")? <= now {
            tracing::debug!(profile = self.profile, "the registration that would renew the token has ended");
            return None;
        }
        let body = json!({
            "grantType": "refresh_token", "clientId": client, "clientSecret": secret, "refreshToken": refresh,
        });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let exchange = Exchange {
            operation: "renew sso token",
            method: Method::POST,
            shown: url.clone(),
            url,
            headers,
            body: Bytes::from(body.to_string()),
            secrets: vec![Secret::new(secret), Secret::new(refresh)],
            route: Route::Proxied,
            signed: None,
            dialect: Arc::new(SsoDialect { hint: self.sign_in_hint() }),
            retry: services.context().retry,
            timeout: TIMEOUT,
        };
        let answer = match services.exchange(exchange).await {
            Ok(answer) => serde_json::from_slice::<Json>(&answer.body).unwrap_or_default(),
            Err(failure) => {
                tracing::warn!(profile = self.profile, error = %failure.error, "the sso token was not renewed");
                return None;
            }
        };
        let (Some(token), Some(life)) =
            (text_of(&answer, "accessToken"), answer.get("expiresIn").and_then(Json::as_u64))
        else {
            tracing::warn!(profile = self.profile, "the answer that renews the sso token holds none");
            return None;
        };
        let mut renewed: Map<String, Json> = kept.as_object().cloned().unwrap_or_default();
        renewed.insert("startUrl".to_owned(), self.start_url.as_str().into());
        renewed.insert("region".to_owned(), self.region.as_str().into());
        renewed.insert("accessToken".to_owned(), token.into());
        renewed.insert("expiresAt".to_owned(), written(now + Duration::from_secs(life)).into());
        match text_of(&answer, "refreshToken") {
            Some(refresh) => renewed.insert("refreshToken".to_owned(), refresh.into()),
            None => renewed.remove("refreshToken"),
        };
        if let Err(error) = replace(&self.file, Json::Object(renewed).to_string()).await {
            tracing::warn!(path = %self.file.display(), %error, "the renewed sso token cannot be kept");
        }
        Some(Secret::new(token))
    }

    fn unusable(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unauthenticated, format!("single sign-on: {what}: path={}", self.file.display()))
            .with_hint(self.sign_in_hint())
    }
}

fn text_of<'j>(json: &'j Json, name: &str) -> Option<&'j str> {
    json.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn time_of(json: &Json, name: &str) -> Option<SystemTime> {
    expiry::parse(text_of(json, name)?)
}

/// A time as the other tools write it, to the second.
fn written(time: SystemTime) -> String {
    let seconds = DateTime::from_secs(DateTime::from(time).secs());
    seconds.fmt(Format::DateTime).unwrap_or_default()
}

/// Puts a new file in the place of another, which readers see whole or not at all.
async fn replace(path: &Path, text: String) -> std::io::Result<()> {
    let path = path.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let draft = path.with_extension(format!("{:016x}.tmp", rand::rng().random::<u64>()));
        let written = write_new(&draft, &text).and_then(|()| rename(&draft, &path));
        if written.is_err() {
            // What is left of it is of no use to anybody.
            let _ = std::fs::remove_file(&draft);
        }
        written
    });
    done.await.map_err(std::io::Error::other)?
}

fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[expect(clippy::disallowed_methods, reason = "a file of the AWS tools is replaced, which is no publishing of ours")]
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}
