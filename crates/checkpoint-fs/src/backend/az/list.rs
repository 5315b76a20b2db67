//! Listing: page by page, asked afresh.

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use percent_encoding::percent_decode_str;

use super::found::FOLDER_MARK;
use super::storage::Inner;
use super::wire::list_query;
use crate::backend::headers::{bare_etag, http_date};
use crate::backend::listing::{Page, Pages, Question, damaged};
use crate::backend::xml::{self, Element};
use crate::error::Result;
use crate::storage::ObjectMeta;
use crate::transport::Call;

/// The protocol has no place to start at, so what comes before is asked for and left out.
#[async_trait]
impl Pages for Inner {
    async fn page(&self, call: &Call, question: Question<'_>) -> Result<Page> {
        let mut query = list_query(question.prefix, question.recursive);
        if let Some(marker) = question.next {
            query.push(("marker", marker));
        }
        let request = self.wire.container(Method::GET, &query, Bytes::new());
        let answer = Box::pin(self.transport.send(call, &request)).await.map_err(|f| f.error)?;
        parse(&answer.body).map_err(|why| damaged(call, &why))
    }
}

fn parse(body: &[u8]) -> std::result::Result<Page, String> {
    let root = xml::parse(body)?;
    if root.name != "EnumerationResults" {
        return Err(format!("a document of another kind: root={:?}", root.name));
    }
    let blobs = root.child("Blobs").ok_or("no blobs element")?;
    let mut page = Page::default();
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
        let page = parse(PAGE.as_bytes()).expect("whole");
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
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
