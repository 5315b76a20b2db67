//! Listing: page by page, asked afresh, with keys encoded so that XML can carry all of them.
//!
//! These requests are our own: OpenDAL's listing does not ask for encoded keys and trims white space, so
//! a key that ends in a blank would come out as another key.

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;

use super::meta::{bare_etag, iso_date};
use super::storage::Inner;
use crate::backend::encode::decode_listed;
use crate::backend::headers::STRANGER;
use crate::backend::listing::{Page, Pages, Question, damaged};
use crate::backend::xml::{self, Element};
use crate::error::Result;
use crate::storage::ObjectMeta;
use crate::transport::{AnswerForm, Call};

#[async_trait]
impl Pages for Inner {
    async fn page(&self, call: &Call, question: Question<'_>) -> Result<Page> {
        let mut query = self.config.address.list_query(question.prefix, question.recursive);
        match (question.next, question.after) {
            (Some(token), _) => query.push(("continuation-token", token)),
            (None, Some(after)) => query.push(("start-after", after)),
            (None, None) => {}
        }
        let url = self.config.address.query_url(&query);
        let request = self.wire.request(Method::GET, url, Bytes::new(), AnswerForm::Document);
        let answer = Box::pin(self.transport.send(call, &request)).await.map_err(|f| f.error)?;
        parse(&answer.body, self.config.vendor.encodes_page_tokens)
            .map_err(|why| damaged(call, &why).with_hint(STRANGER))
    }
}

/// Reads a page. `token_too` says whether the token of the next one comes encoded like the keys.
fn parse(body: &[u8], token_too: bool) -> std::result::Result<Page, String> {
    let root = xml::parse(body)?;
    if root.name != "ListBucketResult" {
        return Err(format!("a document of another kind: root={:?}", root.name));
    }
    let encoded = root.child_text("EncodingType") == "url";
    let mut page = Page::default();
    for element in root.children_named("Contents") {
        let size = element.child_text("Size").trim().parse().map_err(|_| "an object without a size")?;
        let etag = element.child("ETag").map(|e| bare_etag(&e.text));
        let modified = iso_date(element.child_text("LastModified"));
        let meta = ObjectMeta::new(size).with_etag(etag).with_last_modified(modified);
        page.files.push((key_of(element, "Key", encoded)?, meta));
    }
    for element in root.children_named("CommonPrefixes") {
        page.prefixes.push(key_of(element, "Prefix", encoded)?);
    }
    match (root.child_text("IsTruncated").trim(), root.child_text("NextContinuationToken")) {
        ("true", "") => return Err("a page that is not the last names no next one".to_owned()),
        ("true", token) if encoded && token_too => page.next = Some(decode_listed(token)?),
        ("true", token) => page.next = Some(token.to_owned()),
        ("false", _) => {}
        _ => return Err("it does not say whether it is the last page".to_owned()),
    }
    Ok(page)
}

fn key_of(element: &Element, name: &str, encoded: bool) -> std::result::Result<String, String> {
    let key = element.child(name).map(|e| e.text.as_str()).ok_or_else(|| format!("an entry without its {name}"))?;
    if encoded { decode_listed(key) } else { Ok(key.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inside: &str) -> std::result::Result<Page, String> {
        parse(format!("<ListBucketResult xmlns=\"x\">{inside}</ListBucketResult>").as_bytes(), false)
    }

    #[test]
    fn keys_come_out_as_they_are() {
        let entry = |key: &str| format!("<Contents><Key>{key}</Key><Size>3</Size></Contents>");
        let last = "<IsTruncated>false</IsTruncated>";
        let encoded = "<EncodingType>url</EncodingType>";
        for (inside, expected) in [
            (format!("{last}{encoded}{}", entry("a+b%2Bc%20d%252F/%C3%A9%0A")), "a b+c d%2F/é\n"),
            (format!("{last}{}", entry("a+b%20c &amp; ")), "a+b%20c & "),
        ] {
            let page = page(&inside).expect("whole");
            assert_eq!((page.files[0].0.as_str(), page.files[0].1.size, page.next), (expected, 3, None));
        }
        let prefixes =
            "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>";
        assert_eq!(page(&format!("{last}{prefixes}")).expect("whole").prefixes, ["a/", "b/"]);
    }

    #[test]
    fn tokens_are_decoded_where_the_store_encodes_them() {
        let body = "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
            <NextContinuationToken>ChR%2F%3D</NextContinuationToken></ListBucketResult>";
        let next = |token_too| parse(body.as_bytes(), token_too).expect("whole").next;
        assert_eq!(next(true).as_deref(), Some("ChR/="));
        assert_eq!(next(false).as_deref(), Some("ChR%2F%3D"));
    }

    #[test]
    fn what_does_not_add_up_is_damaged() {
        for bad in [
            "",
            "<IsTruncated>maybe</IsTruncated>",
            "<IsTruncated>true</IsTruncated>",
            "<IsTruncated>false</IsTruncated><Contents><Key>k</Key></Contents>",
            "<IsTruncated>false</IsTruncated><Contents><Size>1</Size></Contents>",
        ] {
            assert!(page(bad).is_err(), "{bad}");
        }
        assert!(parse(b"<html><body>hello</body></html>", false).is_err());
    }
}
