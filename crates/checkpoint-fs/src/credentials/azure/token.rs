//! Asking a token service: one small request, tried again where that can help.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode};
use serde_json::Value;

use crate::credentials::Secret;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::transport::{ClientSettings, RetryPolicy, WallClock};

/// The most of a service's words that an error repeats.
const MESSAGE_LIMIT: usize = 200;
/// The longest answer that is read as one.
const ANSWER_LIMIT: usize = 1 << 20;

/// A token, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) secret: Secret,
    pub(super) expires_at: Option<SystemTime>,
}

/// A question to a token service.
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, Secret)>,
    /// The body, encoded as a form.
    pub(super) form: Vec<(&'static str, Secret)>,
    /// Statuses that pass on this service, besides those that pass everywhere.
    pub(super) passing: &'static [u16],
}

/// Sends questions.
#[derive(Clone)]
pub(super) struct TokenClient {
    pub(super) settings: ClientSettings,
    pub(super) clock: Arc<dyn WallClock>,
    pub(super) retry: RetryPolicy,
    /// The time that one attempt may take.
    pub(super) timeout: Duration,
}

impl fmt::Debug for TokenClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenClient").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl TokenClient {
    /// Asks until there is an answer, or the attempts are used up.
    ///
    /// # Errors
    /// [`Unauthenticated`](ErrorKind::Unauthenticated) when the service refuses, with its own code.
    pub(super) async fn ask(&self, question: &Question) -> Result<Token> {
        let client = self.settings.build()?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(&client, question).await {
                Ok(token) => return Ok(token),
                Err(error) => error,
            };
            if error.retry() != Retry::Maybe {
                return Err(error);
            }
            if attempt >= self.retry.attempts() {
                return Err(error.with_retry(Retry::Exhausted));
            }
            tracing::debug!(attempt, %error, "the token service did not answer well");
            tokio::time::sleep(self.retry.pause(attempt, None)).await;
        }
    }

    async fn attempt(&self, client: &reqwest::Client, question: &Question) -> Result<Token> {
        let mut request = client.request(question.method.clone(), &question.url).timeout(self.timeout);
        for (name, value) in &question.headers {
            request = request.header(*name, value.expose());
        }
        if !question.form.is_empty() {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            for (name, value) in &question.form {
                form.append_pair(name, value.expose());
            }
            request = request.header("content-type", "application/x-www-form-urlencoded").body(form.finish());
        }
        let response = request.send().await.map_err(lost)?;
        let status = response.status();
        let body = response.bytes().await.map_err(lost)?;
        let answer: Value = match serde_json::from_slice(&body) {
            Ok(answer) if body.len() <= ANSWER_LIMIT => answer,
            _ => Value::Null,
        };
        if status.is_success() {
            return read(&answer, self.clock.now());
        }
        Err(refusal(status, &answer, question.passing))
    }
}

fn read(answer: &Value, now: SystemTime) -> Result<Token> {
    let Some(token) = answer.get("access_token").and_then(Value::as_str).filter(|t| !t.is_empty()) else {
        let error = Error::new(ErrorKind::Corrupt, "the token service's answer holds no token");
        return Err(error.with_retry(Retry::Maybe));
    };
    let at = seconds(answer, "expires_on").and_then(|s| UNIX_EPOCH.checked_add(s));
    let expires_at = at.or_else(|| seconds(answer, "expires_in").and_then(|s| now.checked_add(s)));
    Ok(Token { secret: Secret::new(token), expires_at })
}

/// A number of seconds, which some services write as text.
fn seconds(answer: &Value, key: &str) -> Option<Duration> {
    let value = answer.get(key)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).map(Duration::from_secs)
}

fn refusal(status: StatusCode, answer: &Value, passing: &[u16]) -> Error {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
    let (code, words) = (text("error"), text("error_description"));
    // The first line says what is wrong; the others are IDs and times.
    let words: String = words.lines().next().unwrap_or_default().chars().take(MESSAGE_LIMIT).collect();
    let passes = matches!(status.as_u16(), 408 | 429 | 500..=599) || passing.contains(&status.as_u16());
    let kind = match status.as_u16() {
        429 => ErrorKind::RateLimited,
        _ if passes => ErrorKind::Io,
        _ => ErrorKind::Unauthenticated,
    };
    let separator = if words.is_empty() { "" } else { ": " };
    let mut error = Error::new(
        kind,
        format!("the token service gave no token{separator}{}: status={}", words.trim(), status.as_u16()),
    );
    if !code.is_empty() {
        error = error.with_service_code(code.chars().take(MESSAGE_LIMIT).collect::<String>());
    }
    error.with_retry(if passes { Retry::Maybe } else { Retry::Never })
}

fn lost(error: reqwest::Error) -> Error {
    let error = error.without_url();
    let (kind, what) = match (error.is_connect(), error.is_timeout()) {
        (_, true) => (ErrorKind::Timeout, "the token service did not answer in time"),
        (true, false) => (ErrorKind::Io, "no connection to the token service"),
        (false, false) => (ErrorKind::Io, "the connection to the token service broke"),
    };
    let lasting = error.is_builder();
    let wrapped = Error::new(kind, what).with_source(error);
    wrapped.with_retry(if lasting { Retry::Never } else { Retry::Maybe })
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
            assert_eq!(read(&answer, now).expect_err("none").kind(), ErrorKind::Corrupt, "{answer}");
        }
    }

    #[test]
    fn refusals_are_told_apart() {
        let said =
            json!({"error": "invalid_client", "error_description": "AADSTS7000215: wrong secret\r\nTrace ID: 1"});
        let error = refusal(StatusCode::UNAUTHORIZED, &said, &[]);
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unauthenticated, Retry::Never));
        assert_eq!(error.service_code(), Some("invalid_client"));
        assert!(error.to_string().contains("AADSTS7000215") && !error.to_string().contains("Trace"), "{error}");
        assert_eq!(refusal(StatusCode::TOO_MANY_REQUESTS, &Value::Null, &[]).kind(), ErrorKind::RateLimited);
        assert_eq!(refusal(StatusCode::BAD_GATEWAY, &Value::Null, &[]).retry(), Retry::Maybe);
        assert_eq!(refusal(StatusCode::NOT_FOUND, &Value::Null, &[]).retry(), Retry::Never);
        assert_eq!(refusal(StatusCode::NOT_FOUND, &Value::Null, &[404]).retry(), Retry::Maybe);
    }
}
