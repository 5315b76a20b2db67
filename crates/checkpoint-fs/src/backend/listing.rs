//! Listings of object stores: page by page, asked afresh.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

use super::listed::listed_path;
use crate::error::{Error, ErrorKind, Result};
use crate::path::ObjectPath;
use crate::storage::{Entry, ListOptions, ObjectMeta};
use crate::transport::Call;

/// Pages in a row that have no entry. Some services send a few, where much was deleted, each for a thousand keys or
/// more; a listing that has no end is told from one that is merely slow.
const MAX_EMPTY: u32 = 100_000;

/// One page as the service sent it, keys decoded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) files: Vec<(String, ObjectMeta)>,
    pub(crate) prefixes: Vec<String>,
    /// The token of the page after it.
    pub(crate) next: Option<String>,
}

/// What one page is asked with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'q> {
    /// Ends in `/`, or is empty.
    pub(crate) prefix: &'q str,
    pub(crate) recursive: bool,
    /// The key that the listing starts after. Whatever the service makes of it, what comes before is left out.
    #[cfg_attr(
        not(any(feature = "_bucket", feature = "gs")),
        expect(dead_code, reason = "Azure has no place to start at")
    )]
    pub(crate) after: Option<&'q str>,
    /// The token of this page; `None` for the first.
    pub(crate) next: Option<&'q str>,
}

/// A store that lists in pages.
#[async_trait]
pub(crate) trait Pages: Send + Sync + 'static {
    /// Asks for one page.
    ///
    /// # Errors
    /// The request's own; [`damaged`] for an answer that is no page.
    async fn page(&self, call: &Call, question: Question<'_>) -> Result<Page>;
}

/// A listing under way.
struct Listing<P> {
    pages: Arc<P>,
    call: Call,
    root: ObjectPath,
    prefix: String,
    recursive: bool,
    after: Option<ObjectPath>,
    next: Option<String>,
    circle: Circle,
    /// Pages without an entry since the last that had one.
    empty: u32,
    ended: bool,
}

/// Finds out that the tokens of pages come round again, after twice the length of the circle and a little.
#[derive(Debug, Default)]
struct Circle {
    pages: u64,
    mark: Option<String>,
}

impl Circle {
    /// Whether the token was the mark. A token becomes the mark whenever the number of pages has doubled.
    fn closes(&mut self, token: &str) -> bool {
        if self.mark.as_deref() == Some(token) {
            return true;
        }
        self.pages += 1;
        if self.pages.is_power_of_two() {
            self.mark = Some(token.to_owned());
        }
        false
    }
}

/// Lists what is below a directory of a storage that is rooted at `root` in its bucket.
pub(crate) fn list<P: Pages>(
    pages: Arc<P>,
    call: Call,
    root: ObjectPath,
    directory: &ObjectPath,
    options: ListOptions,
) -> BoxStream<'static, Result<Entry>> {
    let directory = root.join_path(directory);
    let listing = Listing {
        pages,
        call,
        prefix: if directory.is_root() { String::new() } else { format!("{directory}/") },
        root,
        recursive: options.recursive,
        after: options.start_after,
        next: None,
        circle: Circle::default(),
        empty: 0,
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

impl<P: Pages> Listing<P> {
    /// The entries of the next page.
    async fn page(mut self) -> Result<(Vec<Entry>, Self)> {
        let after = self.after.as_ref().map(|path| self.root.join_path(path));
        let question = Question {
            prefix: &self.prefix,
            recursive: self.recursive,
            after: after.as_ref().map(ObjectPath::as_str),
            next: self.next.as_deref(),
        };
        let page = self.pages.page(&self.call, question).await?;
        self.empty = if page.files.is_empty() && page.prefixes.is_empty() { self.empty + 1 } else { 0 };
        let mut entries = Vec::with_capacity(page.files.len() + page.prefixes.len());
        for (key, meta) in page.files {
            if let Some(path) = self.path_of(&key, false)? {
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
        match page.next {
            None => self.ended = true,
            next if next == self.next => return Err(damaged(&self.call, "the next page is this page")),
            Some(next) if self.circle.closes(&next) => {
                return Err(damaged(&self.call, "its pages come round again and have no end"));
            }
            Some(_) if self.empty >= MAX_EMPTY => {
                let error = damaged(&self.call, &format!("{MAX_EMPTY} pages in a row have no entry"));
                return Err(
                    error.with_hint("if the bucket keeps versions, let a lifecycle rule remove old delete markers")
                );
            }
            next => self.next = next,
        }
        Ok((entries, self))
    }

    /// The path of a key, or `None` for the marker of a directory.
    fn path_of(&self, key: &str, is_directory: bool) -> Result<Option<ObjectPath>> {
        listed_path(&self.root, &self.prefix, key, is_directory).map_err(|e| self.call.named(e))
    }
}

/// An answer that is no page of a listing, and why.
pub(crate) fn damaged(call: &Call, why: &str) -> Error {
    call.named(Error::new(ErrorKind::Corrupt, format!("the listing is damaged: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the same pages to everybody.
    struct Book(Vec<(Vec<&'static str>, Option<&'static str>)>);

    #[async_trait]
    impl Pages for Book {
        async fn page(&self, _call: &Call, question: Question<'_>) -> Result<Page> {
            let number = question.next.map_or(0, |token| token.parse().unwrap_or_default());
            let (keys, next) = &self.0[number];
            let files = keys.iter().map(|key| ((*key).to_owned(), ObjectMeta::new(1))).collect();
            Ok(Page { files, prefixes: Vec::new(), next: next.map(str::to_owned) })
        }
    }

    async fn names(book: Book, options: ListOptions) -> Result<Vec<String>> {
        let call = Call::new("list", "s3://b/r".to_owned(), None);
        let root = ObjectPath::parse("r").expect("valid");
        let listed = list(Arc::new(book), call, root, &ObjectPath::root(), options);
        listed.map_ok(|entry| entry.path().to_string()).try_collect().await
    }

    #[tokio::test]
    async fn pages_follow_each_other_to_the_last() {
        let book = || Book(vec![(vec!["r/a", "r/b/", "r/c"], Some("1")), (vec![], Some("2")), (vec!["r/d"], None)]);
        assert_eq!(names(book(), ListOptions::new()).await.expect("lists"), ["a", "c", "d"]);
        let after = ListOptions::new().start_after(Some(ObjectPath::parse("a").expect("valid")));
        assert_eq!(names(book(), after).await.expect("lists"), ["c", "d"]);
    }

    /// Gives empty pages, each with a token of its own, but for every `n`th.
    struct Endless(u64);

    #[async_trait]
    impl Pages for Endless {
        async fn page(&self, _call: &Call, question: Question<'_>) -> Result<Page> {
            let number: u64 = question.next.map_or(0, |token| token.parse().unwrap_or_default());
            let has_entry = number > 0 && number.is_multiple_of(self.0);
            let files = has_entry.then(|| (format!("r/{number:08}"), ObjectMeta::new(1))).into_iter().collect();
            Ok(Page { files, prefixes: Vec::new(), next: Some((number + 1).to_string()) })
        }
    }

    #[tokio::test]
    async fn empty_pages_have_an_end_and_those_between_entries_do_not_count() {
        let listed = |every: u64| {
            let call = Call::new("list", "s3://b/r".to_owned(), None);
            let root = ObjectPath::parse("r").expect("valid");
            list(Arc::new(Endless(every)), call, root, &ObjectPath::root(), ListOptions::new())
        };
        let error = listed(u64::MAX).next().await.expect("an answer").expect_err("no entries for ever");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Corrupt, "list"), "{error}");
        let between = u64::from(MAX_EMPTY) - 1;
        let found: Vec<_> = listed(between).take(3).try_collect().await.expect("entries go on");
        assert_eq!(found.len(), 3);
    }

    #[tokio::test]
    async fn a_listing_that_turns_in_a_circle_or_leaves_its_prefix_is_damaged() {
        let stays = Book(vec![(vec![], Some("1")), (vec!["r/a"], Some("1"))]);
        let circle =
            Book(vec![(vec![], Some("1")), (vec!["r/a"], Some("2")), (vec![], Some("3")), (vec![], Some("1"))]);
        let elsewhere = Book(vec![(vec!["other"], None)]);
        for book in [stays, circle, elsewhere] {
            let error = names(book, ListOptions::new()).await.expect_err("damaged");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Corrupt, "list"), "{error}");
        }
    }
}
