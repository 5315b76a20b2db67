//! Deleting several objects with one request, again as long as that helps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::stream::{self, StreamExt};

use super::doomed::Doomed;
use crate::error::{Error, Result, Retry};
use crate::storage::DeleteFailure;
use crate::transport::{Again, Call, Failure, ServiceError, Transport, Verdict};

/// What is known of an object that a request did not certainly delete.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The service kept it: why, without the name of the call, and whether another attempt makes sense.
    Kept(Error, Again),
    /// The answer does not say.
    #[cfg_attr(not(any(feature = "_bucket", feature = "gs")), allow(dead_code, reason = "not every store is so curt"))]
    Unsaid,
}

impl Fate {
    /// Kept, in the service's own words.
    pub(crate) fn kept(verdict: Verdict, said: ServiceError) -> Self {
        let mut error = Error::new(verdict.kind, format!("the service kept the object: {}", said.message));
        if !said.code.is_empty() {
            error = error.with_service_code(said.code);
        }
        if !said.request_id.is_empty() {
            error = error.with_request_id(said.request_id);
        }
        if let Some(hint) = verdict.hint {
            error = error.with_hint(hint);
        }
        Self::Kept(error, verdict.again)
    }
}

/// A store's request that deletes several objects.
#[async_trait]
pub(crate) trait Batches: Send + Sync {
    /// What sends it.
    fn transport(&self) -> &Transport;

    /// Objects that it can name, and how many of it may be under way at once.
    fn limits(&self) -> (usize, usize);

    /// Whether it can name this key.
    fn can_name(&self, key: &str) -> bool;

    /// Sends it once, and gives by their place those objects that are not known to be gone.
    async fn ask(&self, call: &Call, targets: &[Doomed]) -> Result<HashMap<usize, Fate>, Failure>;

    /// Whether a failure says that the service has no such request.
    fn is_unknown(&self, failure: &Failure) -> bool;
}

/// What requests for several objects came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What could not be deleted.
    pub(crate) failures: Vec<DeleteFailure>,
    /// What has to be deleted in another way: the service has no such request, it cannot name the key, or its
    /// answer did not.
    pub(crate) left: Vec<Doomed>,
}

/// Deletes as many as one request can name with each. A failure of an object that may pass is tried again like
/// that of a request; where credentials are refused for single objects, they are renewed once.
///
/// # Errors
/// What makes a whole request fail. Some objects may be gone then.
pub(crate) async fn delete<B: Batches>(by: &B, call: &Call, targets: Vec<Doomed>) -> Result<Outcome> {
    let (limit, at_once) = by.limits();
    let (mut named, left): (Vec<_>, Vec<_>) = targets.into_iter().partition(|target| by.can_name(&target.key));
    let mut all = Outcome { failures: Vec::new(), left };
    let mut batches = Vec::new();
    while !named.is_empty() {
        let rest = named.split_off(named.len().min(limit));
        batches.push(std::mem::replace(&mut named, rest));
    }
    let is_unknown = AtomicBool::new(false);
    let batches = batches.into_iter().map(|targets| Box::pin(batch(by, call, targets, &is_unknown)));
    let mut running = stream::iter(batches).buffer_unordered(at_once);
    while let Some(ended) = running.next().await {
        let Outcome { failures, left } = ended.map_err(|f| f.error)?;
        all.failures.extend(failures);
        all.left.extend(left);
    }
    drop(running);
    Ok(all)
}

async fn batch<B: Batches>(
    by: &B,
    call: &Call,
    targets: Vec<Doomed>,
    is_unknown: &AtomicBool,
) -> Result<Outcome, Failure> {
    let policy = by.transport().retry();
    let mut outcome = Outcome::default();
    let mut asked = targets;
    let (mut attempt, mut is_renewed) = (0, false);
    while !asked.is_empty() {
        if is_unknown.load(Ordering::Relaxed) {
            outcome.left.append(&mut asked);
            break;
        }
        attempt += 1;
        let used = by.transport().credentials(call).await?;
        let mut fates = match by.ask(call, &asked).await {
            Ok(fates) => fates,
            Err(failure) if by.is_unknown(&failure) => {
                is_unknown.store(true, Ordering::Relaxed);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let (mut later, mut refused) = (Vec::new(), Vec::new());
        for (place, target) in asked.into_iter().enumerate() {
            match fates.remove(&place) {
                None => {}
                Some(Fate::Unsaid) => outcome.left.push(target),
                Some(Fate::Kept(_, Again::Later)) if attempt < policy.attempts() => later.push(target),
                Some(Fate::Kept(error, Again::Renewed)) if !is_renewed => refused.push((target, error)),
                Some(Fate::Kept(error, again)) => {
                    let retry = if again == Again::Later { Retry::Exhausted } else { Retry::Never };
                    outcome.failures.push(failed(target, error.with_retry(retry)));
                }
            }
        }
        if !later.is_empty() {
            tokio::time::sleep(policy.pause(attempt, None)).await;
        }
        asked = later;
        if !refused.is_empty() {
            is_renewed = true;
            match by.transport().renew(call, &used).await {
                Ok(true) => asked.extend(refused.into_iter().map(|(target, _)| target)),
                Ok(false) => outcome.failures.extend(refused.into_iter().map(|(target, error)| failed(target, error))),
                Err(cause) => {
                    let failed = |(target, error): (Doomed, Error)| failed(target, error.with_source(cause.repeated()));
                    outcome.failures.extend(refused.into_iter().map(failed));
                }
            }
        }
    }
    Ok(outcome)
}

fn failed(target: Doomed, error: Error) -> DeleteFailure {
    DeleteFailure { error: target.call.named(error), path: target.path }
}
