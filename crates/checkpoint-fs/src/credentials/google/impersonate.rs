//! Acting as a service account.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::json;

use super::AccessToken;
use super::exchange::{Asked, Exchange, Question, damaged, sensitive};
use super::key::Impersonation;
use crate::credentials::Secret;
use crate::credentials::service::{Route, Wanted};
use crate::error::Result;

const ASKED: Asked = Asked {
    operation: "get an impersonated service account's token",
    hint: "the principal needs the role Service Account Token Creator on that account",
    wanted: Wanted::Field("accessToken"),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Generated {
    access_token: String,
    expire_time: String,
}

/// A token of the account, asked for with the caller's own.
pub(super) async fn token(
    exchange: &Exchange,
    account: &Impersonation,
    own: &AccessToken,
    scope: &str,
) -> Result<AccessToken> {
    let body = json!({
        "scope": [scope],
        "delegates": account.delegates,
        "lifetime": format!("{}s", account.lifetime_seconds),
    })
    .to_string();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", own.token.expose()))?);
    let (url, secrets) = (account.url.clone(), vec![own.token.clone()]);
    let question = Question { method: Method::POST, url, headers, body, secrets, route: Route::Proxied };
    let answer = exchange.ask(ASKED, question).await.map_err(|failure| failure.error)?;
    let generated: Generated = serde_json::from_slice(&answer).map_err(|_| damaged(ASKED))?;
    let end = DateTime::from_str(&generated.expire_time, Format::DateTimeWithOffset).map_err(|_| damaged(ASKED))?;
    let end = SystemTime::try_from(end).map_err(|_| damaged(ASKED))?;
    Ok(AccessToken { token: Secret::new(generated.access_token), expires_at: Some(end) })
}
