//! Deleting: one object, or many in one request with each object's own result.
//!
//! The service takes a thousand names in a multi-delete of its XML API. The servers that stand in for it take a
//! batch of its JSON API, of a hundred requests.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};

use super::batch;
use super::dialect::{CHECK_BUCKET, GsDialect, Missing, judge, missing};
use super::list::Sent;
use super::storage::Inner;
use crate::backend::batches::{self, Batches, Fate, Outcome};
use crate::backend::doomed::{Doomed, one_by_one};
use crate::backend::mixed::{Fault, Part, by_number, parts};
use crate::backend::multi_delete::{self, Report};
use crate::backend::settle::fresh_token;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{AnswerForm, Call, Dialect, Failure, Transport};

/// Requests that a batch of the JSON API holds.
pub(super) const PARTS: usize = 100;
/// Batches under way at once: the service works through each one by one.
const BATCHES: usize = 8;
/// Multi-deletes under way at once.
const MULTI_DELETES: usize = 4;

/// Deletes one object; a missing one is fine, a missing bucket is not.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let request = inner.request(Method::DELETE, inner.object_url(key, &[]), Bytes::new(), AnswerForm::Bytes);
    match inner.transport.send(call, &request).await {
        Ok(_) => Ok(()),
        Err(Failure { error, .. }) if error.is_not_found() => {
            match missing(error.service_code().unwrap_or_default(), error.message()) {
                Missing::Object => Ok(()),
                Missing::Bucket => Err(error),
                Missing::Unclear => Box::pin(look(inner, call, key, error)).await,
            }
        }
        Err(failure) => Err(failure.error),
    }
}

/// Looks whether an object is gone whose delete was answered with a 404 that could mean anything: the bucket has to
/// be there, and not to list it.
async fn look(inner: &Inner, call: &Call, key: &str, unclear: Error) -> Result<()> {
    let url = inner.config.in_bucket("/o", &[("prefix", key), ("fields", "kind,items(name)")]);
    let request = inner.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
    let answer = match inner.transport.send(call, &request).await {
        Ok(answer) => answer,
        Err(Failure { error, .. }) if error.is_not_found() => return Err(error.with_hint(CHECK_BUCKET)),
        Err(failure) => return Err(failure.error),
    };
    // Its own name comes first among those that begin with it.
    match Sent::parse(call, &answer.body) {
        Ok(page) if page.items.iter().all(|item| item.name != key) => Ok(()),
        _ => Err(unclear),
    }
}

/// Deletes many.
pub(super) async fn many(
    inner: &Arc<Inner>,
    paths: Vec<ObjectPath>,
    guard: Option<&Guard>,
) -> Result<Vec<DeleteFailure>> {
    let call = inner.call("delete_many", &ObjectPath::root(), guard);
    Guard::check(guard).map_err(|e| call.named(e))?;
    let mut left = Doomed::all(paths, |path| inner.call("delete", path, guard), |path, call| inner.key(path, call))?;
    let mut failures = Vec::new();
    if inner.config.is_google() {
        let outcome = Box::pin(batches::delete(&MultiDelete(inner), &call, left)).await?;
        failures.extend(outcome.failures);
        left = outcome.left;
    }
    let Outcome { failures: kept, left } = Box::pin(batches::delete(&JsonBatch(inner), &call, left)).await?;
    failures.extend(kept);
    let delete = |doomed: Doomed| async move { (Box::pin(one(inner, &doomed.call, &doomed.key)).await, doomed.path) };
    one_by_one(left, delete, &mut failures).await;
    Ok(failures)
}

/// The multi-delete of the XML API.
struct MultiDelete<'i>(&'i Inner);

#[async_trait]
impl Batches for MultiDelete<'_> {
    fn transport(&self) -> &Transport {
        &self.0.transport
    }

    fn limits(&self) -> (usize, usize) {
        (multi_delete::LIMIT, MULTI_DELETES)
    }

    fn can_name(&self, key: &str) -> bool {
        multi_delete::can_name(key)
    }

    async fn ask(&self, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Fate>, Failure> {
        let unsent = |error: Error| Failure::unsent(call.named(error));
        let (body, headers) = multi_delete::request(targets, Report::Deleted).map_err(unsent)?;
        let url = self.0.config.multi_delete_url();
        let mut request = self.0.request(Method::POST, url, body, AnswerForm::Document);
        request.headers.extend(headers);
        request.headers.extend(self.0.config.payer_header().map_err(unsent)?);
        let answer = Box::pin(self.0.transport.send(call, &request)).await?;
        let judge = |said: &_| GsDialect.verdict(StatusCode::OK, &HeaderMap::new(), said, false);
        multi_delete::answer(&answer.body, targets, Report::Deleted, judge).map_err(|why| damaged(call, &why))
    }

    /// A private cloud, or what stands before the service, may know the JSON API alone.
    fn is_unknown(&self, failure: &Failure) -> bool {
        let code = failure.error.service_code();
        match failure.status.map(|status| status.as_u16()) {
            Some(405 | 501) => true,
            Some(404) => code != Some("NoSuchBucket"),
            Some(400) => code == Some("InvalidArgument"),
            _ => false,
        }
    }
}

/// A batch of the JSON API.
struct JsonBatch<'i>(&'i Inner);

#[async_trait]
impl Batches for JsonBatch<'_> {
    fn transport(&self) -> &Transport {
        &self.0.transport
    }

    fn limits(&self) -> (usize, usize) {
        (PARTS, BATCHES)
    }

    fn can_name(&self, _key: &str) -> bool {
        true
    }

    async fn ask(&self, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Fate>, Failure> {
        let boundary = format!("batch-{}", fresh_token());
        let lines: Vec<String> = targets.iter().map(|t| self.0.config.target_in_batch(&t.key)).collect();
        let body = batch::deletes(&boundary, lines.iter().map(String::as_str));
        let content_type = batch::content_type("mixed", &boundary)
            .ok_or_else(|| Failure::unsent(call.named(Error::invalid_config("the boundary is no header"))))?;
        let url = self.0.config.batch_url();
        let mut request = self.0.request(Method::POST, url, Bytes::from(body), AnswerForm::Document);
        request.headers.insert(CONTENT_TYPE, content_type);
        let answer = Box::pin(self.0.transport.send(call, &request)).await?;
        let numbered = parts(&answer.headers, &answer.body).and_then(|parts| {
            by_number(parts, targets.len()).map_err(|fault| match fault {
                Fault::Whole(part) => format!("a part without a number: status={}", part.status.as_u16()),
                Fault::Damaged(why) => why,
            })
        });
        let numbered = numbered.map_err(|why| damaged(call, &why))?;
        Ok(numbered.into_iter().filter_map(|(number, part)| Some((number, fate(&part)?))).collect())
    }

    fn is_unknown(&self, failure: &Failure) -> bool {
        matches!(
            failure.status,
            Some(StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
        )
    }
}

fn damaged(call: &Call, why: &str) -> Failure {
    let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
    Failure { error: call.named(error), status: None, maybe_applied: true }
}

/// What became of the object of a part; `None` where it is gone.
fn fate(part: &Part) -> Option<Fate> {
    if part.status.is_success() {
        return None;
    }
    let said = GsDialect.service_error(&part.headers, part.body.as_bytes());
    let verdict = judge(part.status, &said);
    match missing(&said.code, &said.message) {
        Missing::Object if part.status == StatusCode::NOT_FOUND => None,
        Missing::Unclear if part.status == StatusCode::NOT_FOUND => Some(Fate::Unsaid),
        _ => Some(Fate::kept(verdict, said)),
    }
}
