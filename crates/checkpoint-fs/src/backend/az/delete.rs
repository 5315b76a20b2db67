//! Deletes: one blob, or many to a request.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use rand::RngExt;

use super::batch::{self, Fault, Part};
use super::dialect::{service_error, verdict};
use super::storage::Inner;
use super::wire::{DELETE_SNAPSHOTS, INCLUDE};
use crate::backend::batches::{self, Batches, Fate, Outcome};
use crate::backend::doomed::{Doomed, one_by_one};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{Call, Failure, Transport};

/// Deletes one blob with its snapshots; a missing one is fine.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let mut request = inner.wire.blob(Method::DELETE, key, &[], Bytes::new());
    request.headers.insert(DELETE_SNAPSHOTS, INCLUDE);
    match inner.transport.send(call, &request).await {
        Err(failure) if is_gone(failure.error.service_code()) => Ok(()),
        Err(failure) => Err(failure.error),
        Ok(_) => Ok(()),
    }
}

/// Whether a failed delete found nothing to delete. A missing container is another matter, and so is what comes
/// from no blob service at all.
fn is_gone(code: Option<&str>) -> bool {
    matches!(code, Some("BlobNotFound" | "PathNotFound"))
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
    let Outcome { mut failures, left } = Box::pin(batches::delete(&**inner, &call, targets)).await?;
    let delete = |doomed: Doomed| async move { (Box::pin(one(inner, &doomed.call, &doomed.key)).await, doomed.path) };
    one_by_one(left, delete, &mut failures).await;
    Ok(failures)
}

#[async_trait]
impl Batches for Inner {
    fn transport(&self) -> &Transport {
        &self.transport
    }

    fn limits(&self) -> (usize, usize) {
        (batch::LIMIT, 1)
    }

    fn can_name(&self, _key: &str) -> bool {
        true
    }

    async fn ask(&self, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Fate>, Failure> {
        let parts = Box::pin(ask(self, call, targets)).await?;
        let kept = parts.into_iter().filter(|(_, part)| !part.status.is_success());
        let fates = kept.filter_map(|(number, part)| {
            let said = service_error(&part.headers, part.body.as_bytes());
            let verdict = verdict(part.status, &said, false);
            (!is_gone(Some(&said.code))).then(|| (number, Fate::kept(verdict, said)))
        });
        Ok(fates.collect())
    }

    /// Services that know no batches say so. Azurite breaks down, without a code, over a batch that comes with an
    /// account's shared access signature.
    fn is_unknown(&self, failure: &Failure) -> bool {
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
