//! Workload identity federation: another provider's token, exchanged for one of Google's.

use http::{HeaderMap, HeaderName, Method};
use serde_json::{Value, json};

use super::exchange::{Asked, CLOUD_SCOPE, Exchange, Question, TOKEN, sensitive};
use super::key::{External, Subject};
use super::{AccessToken, impersonate};
use crate::credentials::service::{Route, Wanted};
use crate::credentials::{Secret, ShownPath};
use crate::error::{Error, ErrorKind, Result};

const EXCHANGED: Asked = Asked {
    operation: "exchange a federated identity's token",
    hint: "check the identity pool's provider, and that the token of `credential_source` is fresh",
    wanted: TOKEN,
};
const SUBJECT: Asked = Asked {
    operation: "get the other provider's token",
    hint: "check `credential_source.url` and its headers in the credential file",
    wanted: Wanted::Text,
};

/// A token of a scope: by exchange alone, or by acting as a service account after it.
pub(super) async fn token(exchange: &Exchange, key: &External, scope: &str) -> Result<AccessToken> {
    let subject = Box::pin(subject(exchange, key)).await?;
    let asked_scope = if key.impersonation.is_some() { CLOUD_SCOPE } else { scope };
    // A workforce's user names a project that pays, unless a client of its own does.
    let options = key.user_project.as_ref().filter(|_| key.client.is_none());
    let options = options.map(|project| json!({"userProject": project}).to_string());
    let mut form = vec![
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("audience", &key.audience),
        ("scope", asked_scope),
        ("subject_token_type", &key.subject_token_type),
        ("subject_token", subject.expose()),
    ];
    if let Some(options) = &options {
        form.push(("options", options));
    }
    let own = exchange.issue(EXCHANGED, &key.token_url, &form, &["subject_token"], key.client.as_ref()).await?;
    match &key.impersonation {
        None => Ok(own),
        Some(impersonation) => impersonate::token(exchange, impersonation, &own, scope).await,
    }
}

/// The other provider's token, which is renewed by others: read afresh each time.
async fn subject(exchange: &Exchange, key: &External) -> Result<Secret> {
    let text = match &key.subject {
        Subject::File(path) => tokio::fs::read(path).await.map_err(|e| {
            let message = format!("the other provider's token cannot be read ({}): path={}", e.kind(), ShownPath(path));
            Error::invalid_config(message).with_hint("check `credential_source.file` in the credential file")
        })?,
        Subject::Url { url, headers } => {
            let mut sent = HeaderMap::new();
            for (name, value) in headers {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                    Error::invalid_config("a header of the other provider has no name that can be sent")
                        .with_hint(SUBJECT.hint)
                })?;
                sent.append(name, sensitive(value.expose())?);
            }
            let question = Question {
                method: Method::GET,
                url: url.clone(),
                headers: sent,
                body: String::new(),
                secrets: Vec::new(),
                route: Route::Direct,
            };
            exchange.ask(SUBJECT, question).await.map_err(|failure| failure.error)?.into()
        }
    };
    let wrong =
        |why: &str| Error::new(ErrorKind::Corrupt, format!("the other provider's token {why}")).with_hint(SUBJECT.hint);
    let text = String::from_utf8(text).map_err(|_| wrong("is no text"))?;
    let found = match &key.subject_field {
        None => text.trim().to_owned(),
        Some(field) => {
            let value: Value = serde_json::from_str(&text).map_err(|_| wrong("is not JSON"))?;
            let found = value.get(field).and_then(Value::as_str);
            found.ok_or_else(|| wrong("is not in the field that the credential file names"))?.to_owned()
        }
    };
    if found.is_empty() {
        return Err(wrong("is empty"));
    }
    Ok(Secret::new(found))
}
