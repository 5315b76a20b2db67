//! Copies inside the bucket, made by the service, in as many steps as it wants.

use std::future::ready;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::read::{damaged, describe, stat};
use super::resource::{COPIED_FIELDS, Resource};
use super::storage::Inner;
use crate::backend::encode::encode_query;
use crate::backend::settle::{Mark, WRITE_TOKEN, fresh_token, settle};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::storage::{WriteMode, WriteOutcome};
use crate::transport::{AnswerForm, Call, Failure};

/// Steps that a copy may take; the service copies a gigabyte or more in each.
const STEPS: usize = 100_000;

/// What the service says of a step.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    done: bool,
    #[serde(default)]
    rewrite_token: String,
    resource: Option<Resource>,
}

/// Copies an object with its description, both as they are now; the copy carries a token of its own.
pub(super) async fn copy(inner: &Inner, call: &Call, from: &str, to: &str, mode: WriteMode) -> Result<WriteOutcome> {
    if mode == WriteMode::IfAbsent && !inner.capabilities().copy_if_absent {
        return Err(call.named(
            Error::unsupported("this endpoint is not known to honour the condition of a copy")
                .with_hint("the service itself does; a test server in its place copies over what is there"),
        ));
    }
    let source = Box::pin(describe(inner, call, from, COPIED_FIELDS)).await.map_err(|f| f.error)?;
    let token = fresh_token();
    let size = source.meta().map_err(|why| damaged(call, &why).error)?.size;
    let copied = Box::pin(rewrite(inner, call, from, to, &source, &token, mode)).await;
    let failure = match copied.and_then(|copied| copied.meta().map_err(|why| damaged(call, &why))) {
        Ok(meta) => return Ok(WriteOutcome::Done(meta)),
        Err(failure) => failure,
    };
    // One status for two conditions: that the source is the one described, and that nothing is at the target.
    let mark = Mark { token: &token, size };
    if failure.status != Some(StatusCode::PRECONDITION_FAILED) || failure.maybe_applied {
        return settle(failure, mode, mark, Box::pin(stat(inner, call, to))).await;
    }
    if mode == WriteMode::Overwrite {
        return Err(source_changed(call));
    }
    match Box::pin(stat(inner, call, to)).await {
        Err(there) if there.error.is_not_found() => Err(source_changed(call)),
        there => settle(failure, mode, mark, ready(there)).await,
    }
}

fn source_changed(call: &Call) -> Error {
    call.named(Error::new(ErrorKind::Conflict, "the source changed while it was copied").with_retry(Retry::Maybe))
}

async fn rewrite(
    inner: &Inner,
    call: &Call,
    from: &str,
    to: &str,
    source: &Resource,
    token: &str,
    mode: WriteMode,
) -> Result<Resource, Failure> {
    let body = description(source, token).map_err(|e| Failure::unsent(call.named(e)))?;
    let path = format!("/o/{}/rewriteTo/b/{}/o/{}", encode_query(from), inner.config.bucket(), encode_query(to));
    let mut progress = String::new();
    for _ in 0..STEPS {
        let mut query: Vec<(&str, &str)> = Vec::new();
        if let Some(generation) = &source.generation {
            query.push(("ifSourceGenerationMatch", generation));
        }
        if mode == WriteMode::IfAbsent {
            query.push(("ifGenerationMatch", "0"));
        }
        if !progress.is_empty() {
            query.push(("rewriteToken", &progress));
        }
        let url = inner.config.in_bucket(&path, &query);
        let mut request = inner.request(Method::POST, url, body.clone(), AnswerForm::Document);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
        let answer = inner.transport.send(call, &request).await?;
        let step: Step =
            serde_json::from_slice(&answer.body).map_err(|e| damaged(call, &format!("no step of a copy: {e}")))?;
        match (step.done, step.resource) {
            (true, Some(resource)) => return Ok(resource),
            (true, None) => return Err(damaged(call, "the end of a copy without the copy")),
            (false, _) if step.rewrite_token.is_empty() => {
                return Err(damaged(call, "a step of a copy without a way to the next"));
            }
            (false, _) => progress = step.rewrite_token,
        }
    }
    Err(damaged(call, "a step of a copy that has no end"))
}

/// The description that the copy gets: the source's, with our token in it.
fn description(source: &Resource, token: &str) -> Result<Bytes> {
    let mut metadata = source.metadata.clone();
    metadata.insert(WRITE_TOKEN.to_owned(), token.to_owned());
    let mut description = serde_json::to_value(&source.kept)
        .map_err(|e| Error::invalid_config("the object's description cannot be copied").with_source(e))?;
    description["metadata"] = json!(metadata);
    Ok(Bytes::from(description.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_the_description_and_has_its_own_token() {
        let source = Resource::parse(
            br#"{"name":"a","size":"1","contentType":"text/x","metadata":{"k":"v","checkpoint-write-token":"old"}}"#,
        )
        .expect("valid");
        let text = description(&source, "new").expect("valid");
        let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(value, json!({"contentType": "text/x", "metadata": {"k": "v", "checkpoint-write-token": "new"}}));
    }
}
