//! Deleting: one object, or a thousand in one request with each key's own result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use md5::{Digest, Md5};

use super::address::encode_key;
use super::list::decoded;
use super::storage::{DELETE_BATCH, Inner};
use super::vendor::DeleteReport;
use crate::backend::doomed::{Doomed, one_by_one};
use crate::backend::xml;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::guard::Guard;
use crate::path::ObjectPath;
use crate::storage::DeleteFailure;
use crate::transport::{Again, AnswerForm, Call, Failure, ServiceError};

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Deletes one object; a missing one is fine, a missing bucket is not.
pub(super) async fn one(inner: &Inner, call: &Call, key: &str) -> Result<()> {
    let live = inner.live(call);
    let answered = live.operator.delete(&encode_key(key)).await;
    match live.settle(answered) {
        Err(f) if !(f.error.is_not_found() && f.error.service_code() != Some("NoSuchBucket")) => Err(f.error),
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
    let mut batches: Vec<Vec<Doomed>> = Vec::new();
    let mut singles = Vec::new();
    let targets = Doomed::all(paths, |path| inner.call("delete", path, guard), |path, call| inner.key(path, call))?;
    for target in targets {
        match batches.last_mut() {
            _ if xml::escape(&target.key).is_none() => singles.push(target),
            Some(batch) if batch.len() < DELETE_BATCH => batch.push(target),
            _ => batches.push(vec![target]),
        }
    }
    let mut failures = Vec::new();
    for targets in batches {
        let mut left: HashMap<String, Doomed> = targets.into_iter().map(|t| (t.key.clone(), t)).collect();
        match Box::pin(batch(inner, &call, &mut left, &mut failures)).await {
            Ok(()) => {}
            // Stores without multi-delete say so; the same is then done one by one.
            Err(f) if matches!(f.status, Some(StatusCode::NOT_IMPLEMENTED | StatusCode::METHOD_NOT_ALLOWED)) => {
                singles.extend(left.into_values());
            }
            Err(failure) => return Err(failure.error),
        }
    }
    let delete = |doomed: Doomed| async move { (Box::pin(one(inner, &doomed.call, &doomed.key)).await, doomed.path) };
    one_by_one(singles, delete, &mut failures).await;
    Ok(failures)
}

/// Deletes one batch, and those keys again whose own failure may pass.
async fn batch(
    inner: &Inner,
    call: &Call,
    left: &mut HashMap<String, Doomed>,
    failures: &mut Vec<DeleteFailure>,
) -> Result<(), Failure> {
    let policy = inner.transport.retry();
    let mut attempt = 0;
    while !left.is_empty() {
        attempt += 1;
        let said = ask(inner, call, left).await?;
        let mut again = HashMap::new();
        for failed in said {
            let Some(target) = left.remove(&failed.key) else {
                let error = Error::new(
                    ErrorKind::Corrupt,
                    format!("the answer names a key that was not asked for: key={:?}", failed.key),
                );
                return Err(Failure { error: call.named(error), status: None, maybe_applied: true });
            };
            let said = ServiceError { code: failed.code, message: failed.message, ..ServiceError::default() };
            let verdict = inner.config.vendor.dialect.verdict(StatusCode::OK, &HeaderMap::new(), &said, false);
            // What is not mentioned at all has no code.
            let passing = verdict.again == Again::Later || said.code.is_empty();
            if passing && attempt < policy.attempts() {
                again.insert(target.key.clone(), target);
                continue;
            }
            if verdict.kind == ErrorKind::NotFound && said.code != "NoSuchBucket" {
                continue;
            }
            let mut error = Error::new(verdict.kind, format!("the service kept the object: {}", said.message))
                .with_service_code(said.code)
                .with_retry(if passing { Retry::Exhausted } else { Retry::Never });
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

struct KeptKey {
    key: String,
    code: String,
    message: String,
}

/// Sends one multi-delete, and gives the keys that the service did not delete.
async fn ask(inner: &Inner, call: &Call, keys: &HashMap<String, Doomed>) -> Result<Vec<KeptKey>, Failure> {
    let report = inner.config.vendor.delete_report;
    let (start, query) = match report {
        DeleteReport::Failures => {
            ("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>", "delete=")
        }
        DeleteReport::Deleted => ("<Delete><Quiet>false</Quiet>", "delete=&encoding-type=url"),
    };
    let mut body = String::from(start);
    for key in keys.keys() {
        // Keys that XML cannot hold were set aside before.
        let Some(escaped) = xml::escape(key) else { continue };
        body.push_str("<Object><Key>");
        body.push_str(&escaped);
        body.push_str("</Key></Object>");
    }
    body.push_str("</Delete>");
    let digest = BASE64_STANDARD.encode(Md5::digest(body.as_bytes()));
    let url = inner.config.address.url("", query);
    let mut request = inner.wire.request(Method::POST, url, Bytes::from(body), AnswerForm::Document);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    let digest = HeaderValue::from_str(&digest)
        .map_err(|e| Failure::unsent(call.named(Error::invalid_config("the digest is no header").with_source(e))))?;
    request.headers.insert(CONTENT_MD5, digest);
    let answer = inner.transport.send(call, &request).await?;
    let kept = kept_keys(&answer.body).and_then(|mut kept| {
        if matches!(report, DeleteReport::Deleted) {
            let unnamed = unnamed(&answer.body, keys, &kept)?;
            kept.extend(unnamed);
        }
        Ok(kept)
    });
    kept.map_err(|why| {
        let error = Error::new(ErrorKind::Corrupt, format!("the answer is damaged: {why}"));
        Failure { error: call.named(error), status: None, maybe_applied: true }
    })
}

/// The keys that are neither reported as gone nor as failed.
fn unnamed<T>(
    body: &[u8],
    asked: &HashMap<String, T>,
    failed: &[KeptKey],
) -> std::result::Result<Vec<KeptKey>, String> {
    let root = xml::parse(body)?;
    let encoded = root.child_text("EncodingType") == "url";
    let mut named: HashSet<String> = failed.iter().map(|kept| kept.key.clone()).collect();
    for deleted in root.children_named("Deleted") {
        let key = deleted.child_text("Key");
        named.insert(if encoded { decoded(key)? } else { key.to_owned() });
    }
    let silent = |key: &String| KeptKey {
        key: key.clone(),
        code: String::new(),
        message: "the answer does not name it".to_owned(),
    };
    Ok(asked.keys().filter(|key| !named.contains(*key)).map(silent).collect())
}

fn kept_keys(body: &[u8]) -> std::result::Result<Vec<KeptKey>, String> {
    let root = xml::parse(body)?;
    if root.name != "DeleteResult" {
        return Err(format!("a document of another kind: root={:?}", root.name));
    }
    root.children_named("Error")
        .map(|error| {
            Ok(KeptKey {
                key: error.child("Key").map(|k| k.text.clone()).ok_or("an error without its key")?,
                code: error.child_text("Code").trim().to_owned(),
                message: error.child_text("Message").trim().to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_reported_as_gone_is_still_there() {
        let asked: HashMap<String, ()> = ["a b", "c&d", "e", "f"].map(|key| (key.to_owned(), ())).into();
        let body = b"<DeleteResult><EncodingType>url</EncodingType><Deleted><Key>a%20b</Key></Deleted>\
            <Deleted><Key>c%26d</Key></Deleted></DeleteResult>";
        let failed = [KeptKey { key: "e".to_owned(), code: "AccessDenied".to_owned(), message: String::new() }];
        let silent = unnamed(body, &asked, &failed).expect("whole");
        let silent: Vec<(&str, &str)> = silent.iter().map(|k| (k.key.as_str(), k.code.as_str())).collect();
        assert_eq!(silent, [("f", "")]);
        assert!(kept_keys(body).expect("whole").is_empty());
        assert!(kept_keys(b"").is_err(), "an answer without a body says nothing");
    }
}
