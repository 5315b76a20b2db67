//! Listing: page by page, asked afresh.

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::config::list_query;
use super::resource::Resource;
use super::storage::Inner;
use crate::backend::headers::STRANGER;
use crate::backend::listing::{Page, Pages, Question, damaged};
use crate::error::Result;
use crate::transport::{AnswerForm, Call};

/// What the service calls a page of a listing. An empty page has nothing else, so without it the `{}` of any other
/// program would be an empty bucket.
const KIND: &str = "storage#objects";

/// One page as the service sends it; what is empty is left out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sent {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(super) items: Vec<Resource>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

impl Sent {
    /// Reads a page that was asked for with its `kind`.
    ///
    /// # Errors
    /// `Corrupt` for what is no page of the service.
    pub(super) fn parse(call: &Call, body: &[u8]) -> Result<Self> {
        let sent: Self = serde_json::from_slice(body).map_err(|e| damaged(call, &e.to_string()).with_hint(STRANGER))?;
        if sent.kind == KIND {
            return Ok(sent);
        }
        let why = format!("it is not one of the service: kind={:?} expected={KIND:?}", sent.kind);
        Err(damaged(call, &why).with_hint(STRANGER))
    }
}

#[async_trait]
impl Pages for Inner {
    async fn page(&self, call: &Call, question: Question<'_>) -> Result<Page> {
        let mut query = list_query(question.prefix, question.recursive);
        if let Some(after) = question.after {
            // The service begins with this name itself.
            query.push(("startOffset", after));
        }
        if let Some(token) = question.next {
            query.push(("pageToken", token));
        }
        let url = self.config.in_bucket("/o", &query);
        let request = self.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
        let answer = Box::pin(self.transport.send(call, &request)).await.map_err(|f| f.error)?;
        let sent = Sent::parse(call, &answer.body)?;
        let files = sent.items.into_iter().map(|resource| Ok((resource.name.clone(), resource.meta()?)));
        Ok(Page {
            files: files.collect::<std::result::Result<_, String>>().map_err(|why| damaged(call, &why))?,
            prefixes: sent.prefixes,
            next: sent.next_page_token.filter(|token| !token.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_page_says_that_it_is_one() {
        let call = Call::new("list", "gs://bucket/root".to_owned(), None);
        let empty = Sent::parse(&call, br#"{"kind": "storage#objects"}"#).expect("an empty page");
        assert!(empty.items.is_empty() && empty.prefixes.is_empty());
        let strangers =
            [r#"{}"#, r#"{"items": [{"name": "k", "size": "1"}]}"#, r#"{"kind": "storage#buckets"}"#, "[]", "null"];
        for body in strangers {
            let error = Sent::parse(&call, body.as_bytes()).expect_err(body);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{body}");
        }
        let error = Sent::parse(&call, b"{}").expect_err("no page");
        assert!(error.hint().is_some_and(|hint| hint.contains("endpoint")), "{error:?}");
    }
}
