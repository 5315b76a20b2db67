//! Listing: page by page, asked afresh.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;
use serde::Deserialize;

use super::config::list_query;
use super::resource::Resource;
use super::storage::Inner;
use crate::backend::listed::listed_path;
use crate::error::{Error, ErrorKind, Result};
use crate::path::ObjectPath;
use crate::storage::{Entry, ListOptions};
use crate::transport::{AnswerForm, Call};

struct Listing {
    inner: Arc<Inner>,
    call: Call,
    prefix: String,
    recursive: bool,
    after: Option<ObjectPath>,
    /// The token of the next page; `None` for the first.
    next: Option<String>,
    ended: bool,
}

/// Lists what is below a directory.
pub(super) fn list(inner: Arc<Inner>, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
    let call = inner.call("list", prefix, options.guard.as_ref());
    let directory = inner.root().join_path(prefix);
    let listing = Listing {
        prefix: if directory.is_root() { String::new() } else { format!("{directory}/") },
        inner,
        call,
        recursive: options.recursive,
        after: options.start_after,
        next: None,
        ended: false,
    };
    stream::try_unfold(listing, |listing| async move {
        if listing.ended {
            return Ok(None);
        }
        Box::pin(listing.page()).await.map(Some)
    })
    .map_ok(|entries| stream::iter(entries.into_iter().map(Ok)))
    .try_flatten()
    .boxed()
}

/// One page as the service sends it; what is empty is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default)]
    items: Vec<Resource>,
    #[serde(default)]
    prefixes: Vec<String>,
    next_page_token: Option<String>,
}

impl Listing {
    /// Asks for the next page.
    async fn page(mut self) -> Result<(Vec<Entry>, Self)> {
        let mut query = list_query(&self.prefix, self.recursive);
        let after = self.after.as_ref().map(|path| self.inner.root().join_path(path));
        if let Some(after) = &after {
            // The service begins with this name itself, which is dropped below.
            query.push(("startOffset", after.as_str()));
        }
        if let Some(token) = &self.next {
            query.push(("pageToken", token));
        }
        let url = self.inner.config.in_bucket("/o", &query);
        let request = self.inner.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
        let answer = self.inner.transport.send(&self.call, &request).await.map_err(|f| f.error)?;
        let page: Page = serde_json::from_slice(&answer.body).map_err(|e| self.damaged(&e.to_string()))?;
        let mut entries = Vec::with_capacity(page.items.len() + page.prefixes.len());
        for resource in page.items {
            if let Some(path) = self.path_of(&resource.name, false)? {
                let meta = resource.meta().map_err(|why| self.damaged(&why))?;
                entries.push(Entry::File { path, meta });
            }
        }
        for key in page.prefixes {
            if let Some(path) = self.path_of(&key, true)? {
                entries.push(Entry::Dir { path });
            }
        }
        if let Some(after) = &self.after {
            entries.retain(|entry| entry.path() > after);
        }
        match page.next_page_token.filter(|token| !token.is_empty()) {
            None => self.ended = true,
            next if next == self.next => return Err(self.damaged("the next page is this page")),
            next => self.next = next,
        }
        Ok((entries, self))
    }

    fn path_of(&self, key: &str, is_directory: bool) -> Result<Option<ObjectPath>> {
        listed_path(self.inner.root(), &self.prefix, key, is_directory).map_err(|e| self.call.named(e))
    }

    fn damaged(&self, why: &str) -> Error {
        self.call.named(Error::new(ErrorKind::Corrupt, format!("the listing is damaged: {why}")))
    }
}
