//! Listing: page by page, asked afresh.

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use serde::Deserialize;

use super::config::list_query;
use super::resource::Resource;
use super::storage::Inner;
use crate::backend::listing::{Page, Pages, Question, damaged};
use crate::error::Result;
use crate::transport::{AnswerForm, Call};

/// One page as the service sends it; what is empty is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent {
    #[serde(default)]
    items: Vec<Resource>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
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
        let sent: Sent = serde_json::from_slice(&answer.body).map_err(|e| damaged(call, &e.to_string()))?;
        let files = sent.items.into_iter().map(|resource| Ok((resource.name.clone(), resource.meta()?)));
        Ok(Page {
            files: files.collect::<std::result::Result<_, String>>().map_err(|why| damaged(call, &why))?,
            prefixes: sent.prefixes,
            next: sent.next_page_token.filter(|token| !token.is_empty()),
        })
    }
}
