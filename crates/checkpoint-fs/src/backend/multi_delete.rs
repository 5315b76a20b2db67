//! The multi-delete of S3 and those who took it over: the document that names keys, and the one that says what
//! became of them.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use md5::{Digest, Md5};

use super::batches::Fate;
use super::doomed::Doomed;
use super::encode::decode_listed;
use super::xml::{self, Element};
use super::xml_dialect::is_missing_object;
use crate::error::{Error, Result};
use crate::transport::{ServiceError, Verdict};

/// Keys that one request can name.
pub(crate) const LIMIT: usize = 1000;

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// How the answer tells which keys are still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// It names those that failed, in a document that is always there.
    #[cfg_attr(not(any(feature = "s3", feature = "cos")), allow(dead_code, reason = "others report what is gone"))]
    Failures,
    /// It names those that are gone too; of one that it leaves out nothing is known.
    #[cfg_attr(not(any(feature = "oss", feature = "gs")), allow(dead_code, reason = "others report what failed"))]
    Deleted,
}

/// Whether the document can name a key at all: XML has no control characters.
pub(crate) fn can_name(key: &str) -> bool {
    xml::escape(key).is_some()
}

/// The document that asks for these keys to be deleted, all of which [it can name](can_name), and its headers:
/// the type and the digest of exactly these bytes.
///
/// # Errors
/// Where a digest were no header, which none is; the caller names the call.
pub(crate) fn request(targets: &[Doomed], report: Report) -> Result<(Bytes, HeaderMap)> {
    let mut body = String::from(match report {
        Report::Failures => "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>",
        // The long report is what comes where nothing is said of it.
        Report::Deleted => "<Delete>",
    });
    for key in targets.iter().filter_map(|target| xml::escape(&target.key)) {
        body.push_str("<Object><Key>");
        body.push_str(&key);
        body.push_str("</Key></Object>");
    }
    body.push_str("</Delete>");
    let digest = BASE64_STANDARD.encode(Md5::digest(body.as_bytes()));
    let digest =
        HeaderValue::from_str(&digest).map_err(|e| Error::invalid_config("the digest is no header").with_source(e))?;
    let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/xml")), (CONTENT_MD5, digest)];
    Ok((Bytes::from(body), HeaderMap::from_iter(headers)))
}

/// What the answer says of the keys that are not known to be gone, by their place. `judge` knows the service's
/// codes.
///
/// # Errors
/// Why the answer is not a whole one about these keys.
pub(crate) fn answer(
    body: &[u8],
    targets: &[Doomed],
    report: Report,
    judge: impl Fn(&ServiceError) -> Verdict,
) -> std::result::Result<HashMap<usize, Fate>, String> {
    let root = xml::parse(body)?;
    if root.name != "DeleteResult" {
        return Err(format!("a document of another kind: root={:?}", root.name));
    }
    let is_encoded = root.child_text("EncodingType") == "url";
    let places: HashMap<&str, usize> =
        targets.iter().enumerate().map(|(at, target)| (target.key.as_str(), at)).collect();
    let mut fates = HashMap::new();
    let mut named = HashSet::new();
    for failed in root.children_named("Error") {
        let key = key_of(failed, is_encoded)?;
        let Some(place) = places.get(key.as_str()).copied() else {
            return Err(format!("it names a key that was not asked for: key={key:?}"));
        };
        named.insert(place);
        let said = ServiceError {
            code: failed.child_text("Code").trim().to_owned(),
            message: failed.child_text("Message").trim().to_owned(),
            ..ServiceError::default()
        };
        if !is_missing_object(&said.code) {
            let verdict = judge(&said);
            fates.insert(place, Fate::kept(verdict, said));
        }
    }
    if report == Report::Deleted {
        for deleted in root.children_named("Deleted") {
            named.extend(places.get(key_of(deleted, is_encoded)?.as_str()));
        }
        let silent = (0..targets.len()).filter(|place| !named.contains(place));
        fates.extend(silent.map(|place| (place, Fate::Unsaid)));
    }
    Ok(fates)
}

fn key_of(element: &Element, is_encoded: bool) -> std::result::Result<String, String> {
    let key = element.child("Key").map(|key| key.text.as_str()).ok_or("an entry without its key")?;
    if is_encoded { decode_listed(key) } else { Ok(key.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::path::ObjectPath;
    use crate::transport::{Again, Call};

    fn targets(keys: &[&str]) -> Vec<Doomed> {
        let path = ObjectPath::parse("p").expect("valid");
        let doomed = |key: &&str| Doomed {
            path: path.clone(),
            call: Call::new("delete", "s3://b/p".to_owned(), None),
            key: (*key).to_owned(),
        };
        keys.iter().map(doomed).collect()
    }

    fn read(body: &str, keys: &[&str], report: Report) -> std::result::Result<Vec<(usize, String)>, String> {
        let judge = |said: &ServiceError| Verdict::new(ErrorKind::Io, Again::Never, false, &said.message);
        let fates = answer(body.as_bytes(), &targets(keys), report, judge)?;
        let mut fates: Vec<(usize, String)> = fates
            .into_iter()
            .map(|(place, fate)| match fate {
                Fate::Kept(error, _) => (place, error.service_code().unwrap_or_default().to_owned()),
                Fate::Unsaid => (place, "unsaid".to_owned()),
            })
            .collect();
        fates.sort();
        Ok(fates)
    }

    #[test]
    fn odd_keys_survive_the_document() {
        let keys = ["a&b", "<c>", "\"d\"", "e'f", " g ", "h\ti", "\u{e9}\u{1F600}", "j+k%20", "]]>"];
        for report in [Report::Failures, Report::Deleted] {
            let (body, headers) = request(&targets(&keys), report).expect("no error");
            let root = xml::parse(&body).expect("whole");
            let sent: Vec<&str> = root.children_named("Object").map(|object| object.child_text("Key")).collect();
            assert_eq!(sent, keys);
            assert_eq!(root.child_text("Quiet") == "true", report == Report::Failures);
            assert_eq!(headers[CONTENT_MD5], BASE64_STANDARD.encode(Md5::digest(&body)));
        }
        assert!(!can_name("a\u{1}"));
    }

    #[test]
    fn what_failed_is_told_by_key() {
        let body = "<DeleteResult><Error><Key>a &amp; b</Key><Code>AccessDenied</Code><Message>no</Message></Error>\
                    <Error><Key>c</Key><Code>NoSuchKey</Code></Error></DeleteResult>";
        let said = read(body, &["x", "a & b", "c"], Report::Failures).expect("whole");
        assert_eq!(said, [(1, "AccessDenied".to_owned())]);
    }

    #[test]
    fn of_what_is_not_named_nothing_is_known() {
        let body = "<DeleteResult><EncodingType>url</EncodingType><Deleted><Key>a%20b</Key></Deleted>\
                    <Deleted><Key>c%26d</Key></Deleted><Error><Key>e%2Bf</Key><Code>AccessDenied</Code></Error>\
                    </DeleteResult>";
        let said = read(body, &["a b", "c&d", "e+f", "g"], Report::Deleted).expect("whole");
        assert_eq!(said, [(2, "AccessDenied".to_owned()), (3, "unsaid".to_owned())]);
    }

    #[test]
    fn half_an_answer_is_none() {
        let whole = "<DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>";
        assert_eq!(read(whole, &["a"], Report::Deleted), Ok(Vec::new()));
        for end in 0..whole.len() {
            assert!(read(&whole[..end], &["a"], Report::Deleted).is_err(), "{}", &whole[..end]);
        }
        for other in [
            "<Error><Code>InternalError</Code></Error>",
            "<DeleteResult><Error><Code>X</Code></Error></DeleteResult>",
            "<DeleteResult><Error><Key>z</Key><Code>X</Code></Error></DeleteResult>",
        ] {
            assert!(read(other, &["a"], Report::Failures).is_err(), "{other}");
        }
    }
}
