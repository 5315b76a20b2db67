//! Listing: page by page, asked afresh.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::Method;
use percent_encoding::percent_decode_str;

use super::found::FOLDER_MARK;
use super::storage::Inner;
use super::wire::list_query;
use crate::backend::headers::{bare_etag, http_date};
use crate::backend::listed::listed_path;
use crate::backend::xml::{self, Element};
use crate::error::{Error, ErrorKind, Result};
use crate::path::ObjectPath;
use crate::storage::{Entry, ListOptions, ObjectMeta};
use crate::transport::Call;

struct Listing {
    inner: Arc<Inner>,
    call: Call,
    prefix: String,
    recursive: bool,
    after: Option<ObjectPath>,
    /// The marker of the next page; `None` for the first.
    next: Option<String>,
    ended: bool,
}

/// Lists what is below a directory. The protocol has no place to start at, so what comes before
/// `start_after` is asked for and left out.
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

impl Listing {
    /// Asks for the next page.
    async fn page(mut self) -> Result<(Vec<Entry>, Self)> {
        let mut query = list_query(&self.prefix, self.recursive);
        if let Some(marker) = &self.next {
            query.push(("marker", marker));
        }
        let request = self.inner.wire.container(Method::GET, &query, Bytes::new());
        let answer = self.inner.transport.send(&self.call, &request).await.map_err(|f| f.error)?;
        let page = Page::parse(&answer.body).map_err(|why| self.damaged(&why))?;
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
            next if next == self.next => return Err(self.damaged("the next page is this page")),
            next => self.next = next,
        }
        Ok((entries, self))
    }

    /// The path of a key, or `None` for the marker of a directory.
    fn path_of(&self, key: &str, is_directory: bool) -> Result<Option<ObjectPath>> {
        listed_path(self.inner.root(), &self.prefix, key, is_directory).map_err(|e| self.call.named(e))
    }

    fn damaged(&self, why: &str) -> Error {
        self.call.named(Error::new(ErrorKind::Corrupt, format!("the listing is damaged: {why}")))
    }
}

/// One page as the service sent it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    files: Vec<(String, ObjectMeta)>,
    prefixes: Vec<String>,
    next: Option<String>,
}

impl Page {
    fn parse(body: &[u8]) -> std::result::Result<Self, String> {
        let root = xml::parse(body)?;
        if root.name != "EnumerationResults" {
            return Err(format!("a document of another kind: root={:?}", root.name));
        }
        let blobs = root.child("Blobs").ok_or("no blobs element")?;
        let mut page = Self::default();
        for element in &blobs.children {
            match element.name.as_str() {
                "Blob" if !is_directory(element) => page.files.push(file(element)?),
                "BlobPrefix" => page.prefixes.push(name_of(element)?),
                _ => {}
            }
        }
        page.next = Some(root.child_text("NextMarker").to_owned()).filter(|marker| !marker.is_empty());
        Ok(page)
    }
}

/// A hierarchical namespace lists its directories as blobs.
fn is_directory(blob: &Element) -> bool {
    let says = |parent: &str, wanted: &str, value: &str| {
        let mut children = blob.child(parent).into_iter().flat_map(|p| &p.children);
        children.any(|c| c.name.eq_ignore_ascii_case(wanted) && c.text.trim().eq_ignore_ascii_case(value))
    };
    says("Metadata", FOLDER_MARK, "true") || says("Properties", "ResourceType", "directory")
}

fn file(blob: &Element) -> std::result::Result<(String, ObjectMeta), String> {
    let name = name_of(blob)?;
    let properties = blob.child("Properties").ok_or("a blob without properties")?;
    let size = properties.child_text("Content-Length").trim();
    let size = size.parse().map_err(|_| format!("a size that is none: size={size:?}"))?;
    let etag = Some(bare_etag(properties.child_text("Etag"))).filter(|tag| !tag.is_empty());
    let modified = http_date(properties.child_text("Last-Modified"));
    Ok((name, ObjectMeta::new(size).with_etag(etag).with_last_modified(modified)))
}

/// A name that XML cannot hold comes percent-encoded, and says so.
fn name_of(element: &Element) -> std::result::Result<String, String> {
    let name = element.child("Name").ok_or("an entry without a name")?;
    let encoded = name.attributes.iter().any(|(key, value)| key == "Encoded" && value == "true");
    if !encoded {
        return Ok(name.text.clone());
    }
    let decoded = percent_decode_str(&name.text).decode_utf8().map_err(|_| "a name that is no text")?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const PAGE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"https://a/\" \
        ContainerName=\"c\"><Prefix>d/</Prefix><Delimiter>/</Delimiter><Blobs>\
        <Blob><Name>d/ a&amp;b </Name><Properties><Last-Modified>Fri, 24 May 2013 00:00:00 GMT</Last-Modified>\
        <Etag>0x8D1</Etag><Content-Length>7</Content-Length></Properties><Metadata><owner>me</owner></Metadata></Blob>\
        <Blob><Name Encoded=\"true\">d/%EF%BF%BE%2541</Name><Properties><Content-Length>0</Content-Length></Properties></Blob>\
        <Blob><Name>d/dir</Name><Properties><Content-Length>0</Content-Length></Properties>\
        <Metadata><Hdi_isfolder>true</Hdi_isfolder></Metadata></Blob>\
        <Blob><Name>d/dir2</Name><Properties><Content-Length>0</Content-Length><ResourceType>directory</ResourceType></Properties></Blob>\
        <BlobPrefix><Name>d/dir/</Name></BlobPrefix></Blobs><NextMarker>2!x</NextMarker></EnumerationResults>";

    #[test]
    fn pages_are_read() {
        let page = Page::parse(PAGE.as_bytes()).expect("whole");
        let names: Vec<&str> = page.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["d/ a&b ", "d/\u{fffe}%41"]);
        let meta = &page.files[0].1;
        assert_eq!((meta.size, meta.etag.as_deref()), (7, Some("0x8D1")));
        assert_eq!(meta.last_modified, Some(UNIX_EPOCH + Duration::from_secs(1_369_353_600)));
        assert_eq!((page.prefixes, page.next.as_deref()), (vec!["d/dir/".to_owned()], Some("2!x")));
    }

    #[test]
    fn pages_that_are_none_are_refused() {
        let no_size = PAGE.replace("<Content-Length>7</Content-Length>", "");
        let no_name = PAGE.replace("<Name>d/ a&amp;b </Name>", "");
        let cut = &PAGE[..PAGE.len() - 30];
        for bad in [no_size.as_str(), &no_name, cut, "<Other/>", "<EnumerationResults/>"] {
            assert!(Page::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
