//! Sending: the loop of attempts, and one attempt.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use http::header::{DATE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio::sync::Semaphore;

use super::body::{self, Body, UNKNOWN_LENGTH};
use super::{
    Again, Answer, AnswerForm, Call, Dialect, DocumentFault, Failure, Request, RetryPolicy, ServiceError, Signer,
    WallClock,
};
use crate::backend::headers::STRANGER;
use crate::credentials::{CredentialCache, Credentials, Issued};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::guard::Guard;

/// The slowest transfer that an attempt waits for, in bytes a second.
const SLOWEST: u64 = 256 << 10;
/// How much longer a document may take, since the service works before it answers.
const DOCUMENT_PATIENCE: u32 = 4;
/// Bodies above this are signed off the async threads.
const BIG_BODY: usize = 1 << 20;
/// The most of a service's message that an error repeats.
const MESSAGE_LIMIT: usize = 300;

/// What a transport is made of.
pub(crate) struct TransportParts {
    pub(crate) client: reqwest::Client,
    pub(crate) credentials: CredentialCache,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) dialect: Arc<dyn Dialect>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) retry: RetryPolicy,
    /// The time that one attempt may take, besides the transfer of its bytes.
    pub(crate) attempt_timeout: Duration,
    /// Requests in flight at once.
    pub(crate) concurrency: usize,
}

/// Sends requests of one opened location.
pub(crate) struct Transport {
    parts: TransportParts,
    slots: Semaphore,
}

/// An attempt that failed.
struct Trouble {
    error: Error,
    status: Option<StatusCode>,
    again: Again,
    maybe_applied: bool,
    retry_after: Option<Duration>,
}

impl Trouble {
    fn passing(error: Error, maybe_applied: bool) -> Self {
        Self { error, status: None, again: Again::Later, maybe_applied, retry_after: None }
    }

    fn lasting(error: Error) -> Self {
        Self { error, status: None, again: Again::Never, maybe_applied: false, retry_after: None }
    }
}

impl Transport {
    pub(crate) fn new(parts: TransportParts) -> Self {
        let slots = Semaphore::new(parts.concurrency.max(1));
        Self { parts, slots }
    }

    /// How failed attempts are repeated.
    pub(crate) fn retry(&self) -> RetryPolicy {
        self.parts.retry
    }

    /// The credentials of the moment, for a request whose answer may refuse them in its inside.
    #[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
    pub(crate) async fn credentials(&self, call: &Call) -> Result<Arc<Issued>, Failure> {
        within_guard(call, self.parts.credentials.get()).await.map_err(|error| Failure::unsent(call.named(error)))
    }

    /// Loads credentials again, after the service refused those in the inside of an answer. `false` where the
    /// source still gives the same.
    #[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
    pub(crate) async fn renew(&self, call: &Call, used: &Issued) -> Result<bool> {
        Ok(within_guard(call, self.parts.credentials.renew(used)).await?.is_some())
    }

    /// Sends until an answer counts, the failure is lasting, the attempts are used up, or the guard ends it.
    pub(crate) async fn send(&self, call: &Call, request: &Request) -> Result<Answer, Failure> {
        let mut maybe_applied = false;
        let mut renewed = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let issued = match within_guard(call, self.parts.credentials.get()).await {
                Ok(issued) => issued,
                Err(error) => return Err(Failure { error: call.named(error), status: None, maybe_applied }),
            };
            let trouble = match Box::pin(self.attempt(call, request, &issued.credentials)).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            maybe_applied |= trouble.maybe_applied;
            tracing::debug!(
                operation = call.operation, url = call.url, method = %request.method, attempt,
                error = %trouble.error, "attempt failed"
            );
            let Trouble { error, status, again, retry_after, .. } = trouble;
            let fail = |error: Error| Failure { error: call.named(error), status, maybe_applied };
            match again {
                Again::Renewed if !renewed => {
                    renewed = true;
                    match within_guard(call, self.parts.credentials.renew(&issued)).await {
                        Ok(Some(_)) => {}
                        Ok(None) => return Err(fail(error)),
                        Err(cause) => return Err(fail(error.with_source(cause))),
                    }
                }
                Again::Never | Again::Renewed => return Err(fail(error)),
                Again::Later if attempt >= self.parts.retry.attempts() => {
                    return Err(fail(error.with_retry(Retry::Exhausted)));
                }
                Again::Later => {
                    let pause = self.parts.retry.pause(attempt, retry_after);
                    match Guard::check(call.guard.as_ref()) {
                        Err(guard) => return Err(fail(guard)),
                        Ok(Some(left)) if left <= pause => {
                            let hint = "the caller's time ended before another attempt could be made";
                            return Err(fail(error.with_retry(Retry::Exhausted).with_hint(hint)));
                        }
                        Ok(_) => tokio::time::sleep(pause).await,
                    }
                }
            }
        }
    }

    async fn attempt(&self, call: &Call, request: &Request, credentials: &Credentials) -> Result<Answer, Trouble> {
        let _slot = self.slots.acquire().await.map_err(|_| Trouble::lasting(closed()))?;
        let outgoing = self.prepare(request, credentials).await.map_err(Trouble::lasting)?;
        let patience = if request.answer == AnswerForm::Document { DOCUMENT_PATIENCE } else { 1 };
        let limit = self.parts.attempt_timeout * patience + transfer_time(request.body.len() as u64);
        let limit = bounded(limit, call)?;

        let sent = tokio::time::timeout(limit, self.parts.client.execute(outgoing)).await;
        let response = match sent {
            Err(_) => return Err(Trouble::passing(too_slow("no answer", limit), true)),
            Ok(Err(error)) => return Err(not_sent(error)),
            Ok(Ok(response)) => response,
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let length = body::content_length(&headers);
        let is_delimited = length.is_some() || body::says_its_end(&response);
        let is_object = matches!(request.answer, AnswerForm::Object(_)) && status.is_success();
        let bounds = body::bounds(request.answer, status, &headers).map_err(Trouble::lasting)?;
        let limit = self.parts.attempt_timeout + transfer_time(length.unwrap_or(UNKNOWN_LENGTH).min(bounds.most));
        let limit = bounded(limit, call).map_err(|t| Trouble { maybe_applied: true, ..t })?;
        let Body { bytes: body, is_longer } =
            match tokio::time::timeout(limit, body::read(response, length, bounds.most)).await {
                Err(_) => return Err(Trouble::passing(too_slow("the answer stopped half way", limit), true)),
                Ok(Err(error)) => return Err(cut_short(error)),
                Ok(Ok(body)) => body,
            };
        if is_longer && !bounds.is_cut {
            let what = if is_object { "goes on behind its end" } else { "is longer than any that the service has" };
            let error = Error::new(ErrorKind::Corrupt, format!("the answer {what}: limit={}", bounds.most));
            let again = if is_object { Again::Later } else { Again::Never };
            return Err(Trouble { again, ..Trouble::passing(error, true) });
        }
        // Not before its body is in: what the dialect learns may end the guard.
        self.parts.dialect.answered(&headers);
        if let Some(length) = length
            && request.method != Method::HEAD
            && !is_longer
            && length != body.len() as u64
        {
            let error = Error::new(
                ErrorKind::Corrupt,
                format!("the answer is not as long as it says: length={length} received={}", body.len()),
            );
            return Err(Trouble::passing(error, true));
        }
        tracing::trace!(operation = call.operation, url = call.url, method = %request.method, %status, "answered");
        if !request.answer.accepts(status) {
            let said = self.parts.dialect.service_error(&headers, &body);
            return Err(self.refused(status, &headers, &said, credentials));
        }
        if request.answer.needs_mark() && status != StatusCode::NO_CONTENT && !self.parts.dialect.is_own(&headers) {
            let error = Error::new(ErrorKind::Corrupt, "the answer is not one of the store").with_hint(STRANGER);
            return Err(Trouble::passing(error, true));
        }
        if is_object && !is_delimited {
            let error = Error::new(ErrorKind::Corrupt, "the answer does not say where it ends, so it may be cut short")
                .with_hint("a proxy or server on the way answers without Content-Length: reach the store directly");
            return Err(Trouble::passing(error, true));
        }
        if request.answer.is_checked() {
            match self.parts.dialect.check_document(&headers, &body) {
                Ok(()) => {}
                Err(DocumentFault::Failed(said)) => return Err(self.refused(status, &headers, &said, credentials)),
                Err(DocumentFault::Damaged(why)) => {
                    let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
                    return Err(Trouble::passing(error, true));
                }
            }
        }
        Ok(Answer { status, headers, body })
    }

    /// Adds the user agent and the signature.
    async fn prepare(&self, request: &Request, credentials: &Credentials) -> Result<reqwest::Request> {
        let unfit = "the request's URL cannot be sent";
        // The client sends a host in lower case and leaves out a port that is the scheme's own: sign the same.
        let url = reqwest::Url::parse(&request.url).map_err(|e| Error::invalid_config(unfit).with_source(e))?;
        let mut outgoing = http::Request::builder()
            .method(request.method.clone())
            .uri(url.as_str())
            .body(request.body.clone())
            .map_err(|e| Error::invalid_config(unfit).with_source(e))?;
        *outgoing.headers_mut() = request.headers.clone();
        let agent = HeaderValue::from_static(concat!("checkpoint-fs/", env!("CARGO_PKG_VERSION")));
        outgoing.headers_mut().insert(USER_AGENT, agent);
        if !credentials.is_anonymous() {
            let now = self.parts.clock.now();
            if outgoing.body().len() > BIG_BODY {
                let (signer, credentials) = (Arc::clone(&self.parts.signer), credentials.clone());
                outgoing = tokio::task::spawn_blocking(move || {
                    signer.sign(&mut outgoing, &credentials, now).map(|()| outgoing)
                })
                .await
                .map_err(|e| Error::new(ErrorKind::Io, "signing was interrupted").with_source(e))??;
            } else {
                self.parts.signer.sign(&mut outgoing, credentials, now)?;
            }
        }
        reqwest::Request::try_from(outgoing)
            .map_err(|e| Error::invalid_config("the request's URL cannot be sent").with_source(e.without_url()))
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, said: &ServiceError, used: &Credentials) -> Trouble {
        let verdict = self.parts.dialect.verdict(status, headers, said, used.session_token().is_some());
        let message = if said.message.is_empty() {
            format!("the service answered with an error: status={}", status.as_u16())
        } else {
            let message = without_secrets(&said.message, used);
            format!("the service answered: {}: status={}", one_line(&message), status.as_u16())
        };
        let mut error = Error::new(verdict.kind, message);
        if !said.code.is_empty() {
            error = error.with_service_code(one_line(&said.code));
        }
        if !said.request_id.is_empty() {
            error = error.with_request_id(one_line(&said.request_id));
        }
        if let Some(hint) = verdict.hint {
            error = error.with_hint(hint);
        }
        Trouble {
            error,
            status: Some(status),
            again: verdict.again,
            maybe_applied: verdict.maybe_applied,
            retry_after: retry_after(headers, self.parts.clock.now()),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("credentials", &self.parts.credentials)
            .field("signer", &self.parts.signer)
            .field("retry", &self.parts.retry)
            .field("concurrency", &self.parts.concurrency)
            .finish_non_exhaustive()
    }
}

/// Waits for credentials, no longer than the guard allows.
async fn within_guard<T>(call: &Call, wait: impl Future<Output = Result<T>>) -> Result<T> {
    match Guard::check(call.guard.as_ref())? {
        None => wait.await,
        Some(left) => tokio::time::timeout(left, wait).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Timeout, "there were no credentials within the time that the caller allows"))
        }),
    }
}

/// Cuts a time limit to what the guard leaves, or ends the call where it leaves nothing.
fn bounded(limit: Duration, call: &Call) -> Result<Duration, Trouble> {
    match Guard::check(call.guard.as_ref()) {
        Err(error) => Err(Trouble::lasting(error)),
        Ok(Some(left)) if left.is_zero() => {
            Err(Trouble::lasting(Error::new(ErrorKind::Timeout, "the time that the caller allows has run out")))
        }
        Ok(left) => Ok(left.map_or(limit, |left| limit.min(left))),
    }
}

fn transfer_time(bytes: u64) -> Duration {
    Duration::from_secs(bytes / SLOWEST)
}

/// How long the service wants to be left alone: in seconds, or until a date by its own clock, which the
/// answer's `Date` tells (by ours where it has none).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| SystemTime::try_from(DateTime::from_str(text.trim(), Format::HttpDate).ok()?).ok();
    let now = headers.get(DATE).and_then(|sent| date(sent.to_str().ok()?)).unwrap_or(now);
    Some(date(text)?.duration_since(now).unwrap_or_default())
}

fn not_sent(error: reqwest::Error) -> Trouble {
    let error = error.without_url();
    if error.is_builder() {
        return Trouble::lasting(Error::invalid_config("the request cannot be sent").with_source(error));
    }
    let unreached = error.is_connect();
    let (kind, what) = match (unreached, error.is_timeout()) {
        (true, true) => (ErrorKind::Timeout, "no connection within the time allowed"),
        (true, false) => (ErrorKind::Io, "no connection to the service"),
        (false, true) => (ErrorKind::Timeout, "no answer within the time allowed"),
        (false, false) => (ErrorKind::Io, "the connection broke before the answer"),
    };
    let mut wrapped = Error::new(kind, what).with_source(error);
    if unreached {
        wrapped = wrapped.with_hint("check the endpoint, the network, and proxy variables such as https_proxy");
    }
    Trouble::passing(wrapped, !unreached)
}

fn cut_short(error: reqwest::Error) -> Trouble {
    let error = Error::new(ErrorKind::Corrupt, "the answer was cut short").with_source(error.without_url());
    Trouble::passing(error, true)
}

fn too_slow(what: &str, limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("{what}: seconds={}", limit.as_secs_f32()))
}

fn closed() -> Error {
    Error::new(ErrorKind::Io, "the storage was closed")
}

/// A service's words without what only we and it should know; some repeat the headers or the query that they got.
fn without_secrets(text: &str, used: &Credentials) -> String {
    let secrets = [Some(used.secret_access_key()), used.session_token()];
    let forms = secrets.into_iter().flatten().flat_map(|secret| forms(secret.expose()));
    forms.filter(|form| !form.is_empty()).fold(text.to_owned(), |text, form| text.replace(&form, "***"))
}

/// A secret in the spellings in which it may come back. Of a shared access signature, which is a query, the signature
/// alone is a secret as well.
fn forms(secret: &str) -> Vec<String> {
    let signature = secret.split('&').find_map(|pair| pair.strip_prefix("sig="));
    let spellings = |secret: &str| {
        let decoded = percent_decode_str(secret).decode_utf8_lossy().into_owned();
        let encoded = utf8_percent_encode(&decoded, NON_ALPHANUMERIC).to_string();
        [secret.to_owned(), decoded, encoded]
    };
    std::iter::once(secret).chain(signature).flat_map(spellings).collect()
}

fn one_line(text: &str) -> String {
    text.chars().take(MESSAGE_LIMIT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_service_that_repeats_a_secret_is_not_repeated() {
        let used = Credentials::new("AKID", "hunter2").with_session_token(Some("t0ken".to_owned()));
        let said = without_secrets("bad token t0ken of AKID, secret hunter2", &used);
        assert_eq!(said, "bad token *** of AKID, secret ***");
        assert_eq!(without_secrets("as it is", &Credentials::anonymous()), "as it is");
        let key = Credentials::new("AKID", "a/b+c=");
        assert_eq!(without_secrets("?secret=a%2Fb%2Bc%3D or a/b+c=", &key), "?secret=*** or ***");
    }

    #[test]
    fn a_shared_access_signature_is_hidden_without_the_rest_of_its_query() {
        let used = Credentials::new("SAS", "sv=2021-01-01&sig=abc%2B%2Fxyz%3D&se=2099");
        for said in ["abc%2B%2Fxyz%3D", "abc+/xyz=", "sv=2021-01-01&sig=abc%2B%2Fxyz%3D&se=2099"] {
            assert_eq!(without_secrets(&format!("it was {said}."), &used), "it was ***.");
        }
        assert_eq!(without_secrets("sv=2021-01-01 is old", &used), "sv=2021-01-01 is old");
    }

    #[test]
    fn both_forms_of_retry_after_are_read() {
        // 2013-05-24T00:00:00Z
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let read = |pairs: &[(http::HeaderName, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            retry_after(&HeaderMap::from_iter(headers), now).map(|pause| pause.as_secs())
        };
        for (after, date, expected) in [
            ("7", None, Some(7)),
            (" 0 ", None, Some(0)),
            ("Fri, 24 May 2013 00:00:30 GMT", None, Some(30)),
            ("Fri, 24 May 2013 00:00:30 GMT", Some("Fri, 24 May 2013 00:00:10 GMT"), Some(20)),
            ("Fri, 24 May 2013 00:00:30 GMT", Some("long ago"), Some(30)),
            ("Fri, 24 May 2013 00:00:30 GMT", Some("Fri, 24 May 2013 01:00:00 GMT"), Some(0)),
            ("soon", None, None),
            ("-1", None, None),
        ] {
            let sent: Vec<_> = [(RETRY_AFTER, after)].into_iter().chain(date.map(|d| (DATE, d))).collect();
            assert_eq!(read(&sent), expected, "{after} {date:?}");
        }
        assert_eq!(read(&[]), None);
    }
}
