//! Deletes: one blob, or many to a request.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use rand::RngExt;

use super::batch::{self, Fault, Part};
use super::dialect::{service_error, verdict};
use super::storage::Inner;
use super::wire::{DELETE_SNAPSHOTS, INCLUDE};
use crate::backend::doomed::{Doomed, one_by_one};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{Again, Call, Failure};

/// Deletes one blob with its snapshots; a missing one is fine.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let mut request = inner.wire.blob(Method::DELETE, key, &[], Bytes::new());
    request.headers.insert(DELETE_SNAPSHOTS, INCLUDE);
    match inner.transport.send(call, &request).await {
        Err(failure) if is_gone(failure.error.kind(), failure.error.service_code()) => Ok(()),
        Err(failure) => Err(failure.error),
        Ok(_) => Ok(()),
    }
}

/// Whether a failed delete found nothing to delete. A missing container is another matter.
fn is_gone(kind: ErrorKind, code: Option<&str>) -> bool {
    kind == ErrorKind::NotFound && code != Some("ContainerNotFound")
}

/// Deletes many, 256 to a request.
pub(super) async fn many(
    inner: &Arc<Inner>,
    paths: Vec<ObjectPath>,
    guard: Option<&Guard>,
) -> Result<Vec<DeleteFailure>> {
    let call = inner.call("delete_many", &ObjectPath::root(), guard);
    Guard::check(guard).map_err(|e| call.named(e))?;
    let targets = Doomed::all(paths, |path| inner.call("delete", path, guard), |path, call| inner.key(path, call))?;
    let mut failures = Vec::new();
    let mut singles = Vec::new();
    let mut targets = targets.into_iter().peekable();
    while targets.peek().is_some() {
        let mut left: Vec<Doomed> = targets.by_ref().take(batch::LIMIT).collect();
        match Box::pin(several(inner, &call, &mut left, &mut failures)).await {
            Ok(()) => {}
            Err(failure) if takes_no_batches(&failure) => {
                singles.append(&mut left);
                singles.extend(targets.by_ref());
            }
            Err(failure) => return Err(failure.error),
        }
    }
    let delete = |doomed: Doomed| async move { (Box::pin(one(inner, &doomed.call, &doomed.key)).await, doomed.path) };
    one_by_one(singles, delete, &mut failures).await;
    Ok(failures)
}

/// Services that know no batches say so; the same is then done one by one. Azurite breaks down, without a
/// code, over a batch that comes with an account's shared access signature.
fn takes_no_batches(failure: &Failure) -> bool {
    let broke_down =
        failure.status == Some(StatusCode::INTERNAL_SERVER_ERROR) && failure.error.service_code().is_none();
    broke_down
        || matches!(failure.status, Some(StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED))
        || matches!(
            failure.error.service_code(),
            Some(
                "UnsupportedQueryParameter"
                    | "InvalidQueryParameterValue"
                    | "UnsupportedHttpVerb"
                    | "FeatureNotSupported"
            )
        )
}

/// Deletes one batch, and those blobs again whose own failure may pass.
async fn several(
    inner: &Inner,
    call: &Call,
    left: &mut Vec<Doomed>,
    failures: &mut Vec<DeleteFailure>,
) -> Result<(), Failure> {
    let policy = inner.transport.retry();
    let mut attempt = 0;
    while !left.is_empty() {
        attempt += 1;
        let mut parts = ask(inner, call, left).await?;
        let mut again = Vec::new();
        for (number, target) in std::mem::take(left).into_iter().enumerate() {
            let Some(part) = parts.remove(&number).filter(|part| !part.status.is_success()) else { continue };
            let said = service_error(&part.headers, part.body.as_bytes());
            let verdict = verdict(part.status, &said, false);
            if is_gone(verdict.kind, Some(&said.code)) {
                continue;
            }
            let passing = verdict.again == Again::Later;
            if passing && attempt < policy.attempts() {
                again.push(target);
                continue;
            }
            let mut error = Error::new(verdict.kind, format!("the service kept the object: {}", said.message))
                .with_retry(if passing { Retry::Exhausted } else { Retry::Never })
                .with_service_code(said.code)
                .with_request_id(said.request_id);
            if let Some(hint) = verdict.hint {
                error = error.with_hint(hint);
            }
            failures.push(DeleteFailure { error: target.call.named(error), path: target.path });
        }
        *left = again;
        if !left.is_empty() {
            tokio::time::sleep(policy.pause(attempt, None)).await;
        }
    }
    Ok(())
}

/// Sends one batch, and gives the answers by the number of their target.
async fn ask(inner: &Inner, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Part>, Failure> {
    let boundary = format!("batch_{:032x}", rand::rng().random::<u128>());
    let paths: Vec<String> = targets.iter().map(|target| inner.wire.blob_path(&target.key)).collect();
    let query = [("restype", "container"), ("comp", "batch")];
    let mut request = inner.wire.container(Method::POST, &query, batch::body(&boundary, &paths));
    let kind = HeaderValue::from_str(&batch::content_type(&boundary))
        .map_err(|e| Failure::unsent(call.named(Error::invalid_config("not a header").with_source(e))))?;
    request.headers.insert(CONTENT_TYPE, kind);
    let answer = inner.transport.send(call, &request).await?;
    let damaged = |why: String| {
        let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
        Failure { error: call.named(error), status: None, maybe_applied: true }
    };
    let parts = batch::parts(&answer.headers, &answer.body).map_err(damaged)?;
    batch::by_number(parts, targets.len()).map_err(|fault| match fault {
        Fault::Damaged(why) => damaged(why),
        Fault::Whole(part) => {
            let said = service_error(&part.headers, part.body.as_bytes());
            let kind = verdict(part.status, &said, false).kind;
            let error = Error::new(kind, format!("the service refused the batch: {}", said.message))
                .with_service_code(said.code)
                .with_request_id(said.request_id);
            Failure { error: call.named(error), status: Some(part.status), maybe_applied: false }
        }
    })
}
