//! Deleting: one object, or a thousand in one request with each key's own result.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode};

use super::address::encode_key;
use super::storage::Inner;
use crate::backend::batches::{self, Batches, Fate, Outcome};
use crate::backend::doomed::{Doomed, one_by_one};
use crate::backend::multi_delete::{self, Report};
use crate::backend::xml_dialect::is_missing_object;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{AnswerForm, Call, Failure, Transport};

/// Deletes one object; a missing one is fine, a missing bucket is not.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let live = inner.live(call);
    let answered = live.operator.delete(&encode_key(key)).await;
    match live.settle(answered) {
        Err(f) if !f.error.service_code().is_some_and(is_missing_object) => Err(f.error),
        _ => Ok(()),
    }
}

/// Deletes many, a thousand to a request.
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
        (multi_delete::LIMIT, 1)
    }

    fn can_name(&self, key: &str) -> bool {
        multi_delete::can_name(key)
    }

    async fn ask(&self, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Fate>, Failure> {
        let report = self.config.vendor.delete_report;
        let query = if report == Report::Deleted { "delete=&encoding-type=url" } else { "delete=" };
        let (body, headers) = multi_delete::request(targets, report).map_err(|e| Failure::unsent(call.named(e)))?;
        let url = self.config.address.url("", query);
        let mut request = self.wire.request(Method::POST, url, body, AnswerForm::Document);
        request.headers.extend(headers);
        let answer = Box::pin(self.transport.send(call, &request)).await?;
        let dialect = &self.config.vendor.dialect;
        let judge = |said: &_| dialect.verdict(StatusCode::OK, &HeaderMap::new(), said, false);
        multi_delete::answer(&answer.body, targets, report, judge).map_err(|why| {
            let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
            Failure { error: call.named(error), status: None, maybe_applied: true }
        })
    }

    fn is_unknown(&self, failure: &Failure) -> bool {
        matches!(failure.status, Some(StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED))
    }
}
