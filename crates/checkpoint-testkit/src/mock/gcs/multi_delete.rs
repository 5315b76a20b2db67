//! The multi-delete of the XML API: up to a thousand keys in one document.

use super::bucket::Buckets;
use super::fault::Fault;
use crate::mock::answer::Answer;
use crate::mock::controls::Controls;
use crate::mock::digest::check_content_md5;
use crate::mock::request::{Arrived, decode};
use crate::mock::xml::{Document, parse};

/// Keys that one request can name.
const MOST: usize = 1000;

/// The bucket of a multi-delete; `None` where the request is none.
pub(crate) fn bucket_of(request: &Arrived) -> Option<&str> {
    let bucket = request.path.strip_prefix('/').filter(|rest| !rest.is_empty() && !rest.contains('/'))?;
    let is_asked = request.query.split('&').any(|pair| matches!(pair, "delete" | "delete="));
    (request.method == "POST" && is_asked).then_some(bucket)
}

/// Answers one whose sender is known.
pub(crate) fn serve(buckets: &Buckets, controls: &Controls, request: &Arrived, bucket: &str) -> Result<Answer, Fault> {
    if request.query.contains('&') {
        return Err(Fault::xml(400, "InvalidQueryParameter", "An unknown parameter stands beside delete"));
    }
    let bucket = decode(bucket).map_err(Fault::shared)?;
    if request.header("content-md5").is_none() {
        return Err(Fault::xml(400, "InvalidRequest", "Missing required header for this request: Content-MD5"));
    }
    check_content_md5(request).map_err(Fault::shared)?;
    let root = parse(&request.body, "Delete").map_err(Fault::shared)?;
    let is_quiet = root.child("Quiet").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let keys: Option<Vec<&str>> =
        root.children.iter().filter(|child| child.name == "Object").map(|object| object.child("Key")).collect();
    let keys = keys.filter(|keys| (1..=MOST).contains(&keys.len()) && !keys.contains(&""));
    let keys = keys.ok_or_else(|| Fault::xml(400, "MalformedXML", "The document is not what it should be"))?;
    if !buckets.has(&bucket) {
        return Err(Fault::xml(404, "NoSuchBucket", "The specified bucket does not exist."));
    }
    let mut document = Document::new("DeleteResult");
    for key in keys {
        match controls.objects.troubles.keeps(key) {
            // Not a word of it.
            Some("") => {}
            Some(code) => {
                // The JSON API has a word of its own for this.
                let code = if code == "rateLimitExceeded" { "SlowDown" } else { code };
                document.open("Error").leaf("Key", key).leaf("Code", code);
                document.leaf("Message", "The object was not deleted.").close();
            }
            None => {
                // One that was not there is as gone as the others.
                let _ = buckets.delete(&bucket, key);
                if !is_quiet {
                    document.open("Deleted").leaf("Key", key).close();
                }
            }
        }
    }
    Ok(Answer::xml(200, document.end()))
}
