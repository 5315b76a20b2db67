//! Deleting: one object, or a hundred in one request with each object's own result.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};

use super::batch;
use super::dialect::{GsDialect, is_missing_bucket, judge};
use super::storage::Inner;
use crate::backend::doomed::{Doomed, one_by_one};
use crate::backend::mixed::{Fault, Part, by_number, parts};
use crate::backend::settle::fresh_token;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{Again, AnswerForm, Call, Dialect, Failure};

/// Objects that one request can name.
pub(super) const DELETE_BATCH: usize = 100;
/// Batches under way at once: the service works through each one by one.
const BATCHES: usize = 8;

/// Deletes one object; a missing one is fine, a missing bucket is not.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let request = inner.request(Method::DELETE, inner.object_url(key, &[]), Bytes::new(), AnswerForm::Bytes);
    match inner.transport.send(call, &request).await {
        Err(failure) if !failure.error.is_not_found() || is_missing_bucket(&failure.error) => Err(failure.error),
        _ => Ok(()),
    }
}

/// Deletes many, a hundred to a request.
pub(super) async fn many(
    inner: &Arc<Inner>,
    paths: Vec<ObjectPath>,
    guard: Option<&Guard>,
) -> Result<Vec<DeleteFailure>> {
    let call = inner.call("delete_many", &ObjectPath::root(), guard);
    Guard::check(guard).map_err(|e| call.named(e))?;
    let mut targets = Doomed::all(paths, |path| inner.call("delete", path, guard), |path, call| inner.key(path, call))?;
    let mut batches = Vec::new();
    while !targets.is_empty() {
        let rest = targets.split_off(targets.len().min(DELETE_BATCH));
        batches.push(std::mem::replace(&mut targets, rest));
    }
    let mut running =
        stream::iter(batches).map(|targets| Box::pin(batch(inner, &call, targets))).buffer_unordered(BATCHES);
    let (mut failures, mut singles) = (Vec::new(), Vec::new());
    while let Some(ended) = running.next().await {
        let (mut kept, left) = ended.map_err(|f| f.error)?;
        failures.append(&mut kept);
        singles.extend(left);
    }
    let delete = |doomed: Doomed| async move { (Box::pin(one(inner, &doomed.call, &doomed.key)).await, doomed.path) };
    one_by_one(singles, delete, &mut failures).await;
    Ok(failures)
}

/// Deletes one batch, and those objects again whose own failure may pass. Gives the failures that last, and all
/// objects that are left because the server takes no batches.
async fn batch(inner: &Inner, call: &Call, targets: Vec<Doomed>) -> Result<(Vec<DeleteFailure>, Vec<Doomed>), Failure> {
    let policy = inner.transport.retry();
    let mut left = targets;
    let mut failures = Vec::new();
    let mut attempt = 0;
    while !left.is_empty() {
        attempt += 1;
        let mut said = match ask(inner, call, &left).await {
            Ok(parts) => parts,
            Err(f) if f.status.is_some_and(takes_no_batches) => return Ok((failures, left)),
            Err(failure) => return Err(failure),
        };
        let mut again = Vec::new();
        for (number, target) in left.into_iter().enumerate() {
            let Some(part) = said.remove(&number) else {
                let error = Error::new(ErrorKind::Corrupt, "the answer to a batch says nothing of an object");
                return Err(Failure { error: target.call.named(error), status: None, maybe_applied: true });
            };
            match judge_part(&part) {
                None => {}
                Some((_, Again::Later | Again::Renewed)) if attempt < policy.attempts() => again.push(target),
                Some((error, again)) => {
                    let retry = if again == Again::Never { Retry::Never } else { Retry::Exhausted };
                    let error = target.call.named(error.with_retry(retry));
                    failures.push(DeleteFailure { path: target.path, error });
                }
            }
        }
        left = again;
        if !left.is_empty() {
            tokio::time::sleep(policy.pause(attempt, None)).await;
        }
    }
    Ok((failures, left))
}

fn takes_no_batches(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED)
}

/// Sends one batch, and gives the answers by the place of their objects.
async fn ask(inner: &Inner, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Part>, Failure> {
    let boundary = format!("batch-{}", fresh_token());
    let lines: Vec<String> = targets.iter().map(|t| inner.config.target_in_batch(&t.key)).collect();
    let body = batch::deletes(&boundary, lines.iter().map(String::as_str));
    let content_type = batch::content_type("mixed", &boundary)
        .ok_or_else(|| Failure::unsent(call.named(Error::invalid_config("the boundary is no header"))))?;
    let mut request = inner.request(Method::POST, inner.config.batch_url(), Bytes::from(body), AnswerForm::Document);
    request.headers.insert(CONTENT_TYPE, content_type);
    let answer = inner.transport.send(call, &request).await?;
    let numbered = parts(&answer.headers, &answer.body).and_then(|parts| {
        by_number(parts, targets.len()).map_err(|fault| match fault {
            Fault::Whole(part) => format!("a part without a number: status={}", part.status.as_u16()),
            Fault::Damaged(why) => why,
        })
    });
    numbered.map_err(|why| {
        let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
        Failure { error: call.named(error), status: None, maybe_applied: true }
    })
}

/// Why an object was kept, and whether another attempt makes sense; `None` for one that is gone.
fn judge_part(part: &Part) -> Option<(Error, Again)> {
    if part.status.is_success() {
        return None;
    }
    let said = GsDialect.service_error(&part.headers, part.body.as_bytes());
    let verdict = judge(part.status, &said);
    let message = format!("the service kept the object: {}: status={}", said.message, part.status.as_u16());
    let mut error = Error::new(verdict.kind, message);
    if error.is_not_found() && !is_missing_bucket(&error) {
        return None;
    }
    if !said.code.is_empty() {
        error = error.with_service_code(said.code);
    }
    if let Some(hint) = verdict.hint {
        error = error.with_hint(hint);
    }
    Some((error, verdict.again))
}
