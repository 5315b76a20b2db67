//! Acting as a service account.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use serde::Deserialize;
use serde_json::json;

use super::AccessToken;
use super::exchange::{Asked, Exchange};
use super::key::Impersonation;
use crate::credentials::Secret;
use crate::error::{Error, ErrorKind, Result};

const ASKED: Asked = Asked {
    what: "the token of an impersonated service account",
    hint: "the principal needs the role Service Account Token Creator on that account",
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
    let answer = exchange
        .ask(ASKED, || {
            let request = exchange.client().post(&account.url).header("content-type", "application/json");
            request.bearer_auth(own.token.expose()).body(body.clone())
        })
        .await?;
    let damaged = || Error::new(ErrorKind::Corrupt, format!("{} was not given: the answer is damaged", ASKED.what));
    let generated = Generated::deserialize(answer).map_err(|_| damaged())?;
    let end = DateTime::from_str(&generated.expire_time, Format::DateTimeWithOffset).map_err(|_| damaged())?;
    let end = SystemTime::try_from(end).map_err(|_| damaged())?;
    Ok(AccessToken { token: Secret::new(generated.access_token), expires_at: Some(end) })
}
