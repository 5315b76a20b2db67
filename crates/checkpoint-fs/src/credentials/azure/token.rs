//! Asking a token service of Azure: what is sent, and what its answers mean.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, HeaderName, Method};
use serde_json::Value;

use crate::credentials::Secret;
use crate::credentials::service::{Exchange, JsonDialect, Route, Services, Wanted};
use crate::error::{Error, ErrorKind};
use crate::transport::{Failure, RetryPolicy, ServiceError};

/// A token, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) expires_at: Option<SystemTime>,
}

/// A question to a token service. Not `Debug`: its form may hold a secret.
pub(super) struct Question {
    /// What errors call it.
    pub(super) operation: &'static str,
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) header: Option<(&'static str, Secret)>,
    /// The body, encoded as a form.
    pub(super) form: Vec<(&'static str, Secret)>,
    /// Whose values in the form are secrets.
    pub(super) secret_fields: &'static [&'static str],
    pub(super) route: Route,
    /// Statuses that pass on this service, besides those that pass everywhere.
    pub(super) passing: &'static [u16],
    /// What to do about a refusal.
    pub(super) hint: &'static str,
}

/// Sends questions.
#[derive(Debug, Clone)]
pub(super) struct TokenClient {
    pub(super) services: Services,
    pub(super) retry: RetryPolicy,
    /// The time that one attempt may take.
    pub(super) timeout: Duration,
}

impl TokenClient {
    /// Asks until there is an answer, or the attempts are used up.
    ///
    /// # Errors
    /// [`Unauthenticated`](ErrorKind::Unauthenticated) when the service refuses, with its own code.
    pub(super) async fn ask(&self, question: Question) -> Result<Token, Failure> {
        let shown = question.url.split('?').next().unwrap_or_default().to_owned();
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = question.header {
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| {
                let error = Error::invalid_config(format!("the value of a header cannot be sent: header={name}"));
                Failure::unsent(error.with_hint("take out line breaks and other control characters"))
            })?;
            // What is the same for everybody is no secret.
            value.set_sensitive(value != "true");
            headers.insert(HeaderName::from_static(name), value);
        }
        if !question.form.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        }
        let (body, secrets) = encoded(question.form, question.secret_fields);
        let exchange = Exchange {
            operation: question.operation,
            method: question.method,
            url: question.url,
            shown: shown.clone(),
            headers,
            body: Bytes::from(body),
            secrets,
            route: question.route,
            signed: None,
            dialect: Arc::new(JsonDialect {
                wanted: Wanted::Field("access_token"),
                said: words,
                passing: question.passing,
                hint: question.hint.to_owned(),
            }),
            retry: self.retry,
            timeout: self.timeout,
        };
        let answer = self.services.exchange(exchange).await?;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        read(&answer, self.services.clock().now()).ok_or_else(|| {
            let error = Error::new(ErrorKind::Corrupt, "the token service's answer holds no token");
            Failure::unsent(error.with_operation(question.operation).with_url(shown))
        })
    }
}

/// A form as it is sent, and the secrets in it.
fn encoded(form: Vec<(&'static str, Secret)>, secret_fields: &[&str]) -> (String, Vec<Secret>) {
    let mut text = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in &form {
        text.append_pair(name, value.expose());
    }
    let secrets = form.into_iter().filter(|(name, _)| secret_fields.contains(name)).map(|(_, value)| value);
    (text.finish(), secrets.collect())
}

/// The service's words. The first line says what is wrong; the others are IDs and times.
fn words(answer: &Value) -> ServiceError {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    let message = text("error_description").lines().next().unwrap_or_default().trim();
    ServiceError { code: text("error").to_owned(), message: message.to_owned(), request_id: String::new() }
}

fn read(answer: &Value, now: SystemTime) -> Option<Token> {
    let token = answer.get("access_token").and_then(Value::as_str).filter(|t| !t.is_empty())?;
    let at = seconds(answer, "expires_on").and_then(|s| UNIX_EPOCH.checked_add(s));
    let expires_at = at.or_else(|| seconds(answer, "expires_in").and_then(|s| now.checked_add(s)));
    Some(Token { secret: Secret::new(token), expires_at })
}

/// A number of seconds, which some services write as text.
fn seconds(answer: &Value, key: &str) -> Option<Duration> {
    let value = answer.get(key)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_in_all_their_forms() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        for (answer, seconds) in [
            (json!({"access_token": "T", "expires_in": 3599}), Some(4_599)),
            (json!({"access_token": "T", "expires_in": "3599"}), Some(4_599)),
            (json!({"access_token": "T", "expires_on": "5000", "expires_in": "9"}), Some(5_000)),
            (json!({"access_token": "T", "expires_on": "12/1/2030 1:00:00 PM", "expires_in": 60}), Some(1_060)),
            (json!({"access_token": "T"}), None),
        ] {
            let token = read(&answer, now).expect("a token");
            assert_eq!(token.expires_at, seconds.map(|s| UNIX_EPOCH + Duration::from_secs(s)), "{answer}");
        }
        for answer in [json!({}), json!({"access_token": ""}), json!({"access_token": 5}), Value::Null] {
            assert_eq!(read(&answer, now), None, "{answer}");
        }
    }

    #[test]
    fn the_first_line_of_a_refusal_is_its_message() {
        let said =
            json!({"error": "invalid_client", "error_description": "AADSTS7000215: wrong secret\r\nTrace ID: 1"});
        let found = words(&said);
        assert_eq!((found.code.as_str(), found.message.as_str()), ("invalid_client", "AADSTS7000215: wrong secret"));
        assert_eq!(words(&json!({"error": 5})), ServiceError::default());
    }
}
