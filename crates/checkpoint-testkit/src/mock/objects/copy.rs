//! Copies: whole objects, and ranges as parts of an upload.

use std::collections::BTreeMap;

use super::object::{part_number, with_version};
use super::{Objects, Visit, bucket_of, error_inside};
use crate::mock::answer::Answer;
use crate::mock::clock::iso;
use crate::mock::refusal::Refusal;
use crate::mock::request::decode;
use crate::mock::store::{Bucket, Object};
use crate::mock::xml::Document;

impl Objects {
    pub(super) fn copy(&self, buckets: &mut BTreeMap<String, Bucket>, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let source = source(buckets, visit)?;
        let directive = visit.request.header(&visit.face.name("metadata-directive")).unwrap_or("COPY");
        let replaces = visit.face.replace.iter().any(|word| word.eq_ignore_ascii_case(directive));
        if !replaces && !directive.eq_ignore_ascii_case("copy") {
            return Err(Refusal::invalid_argument("Unknown metadata directive."));
        }
        let forbids = visit.forbids_overwrite()?;
        let bucket = bucket_of(buckets, visit.bucket)?;
        bucket.check_free(visit.key, forbids)?;
        if self.troubles.fails_inside() {
            return Ok(error_inside());
        }
        let kept = if replaces { visit.kept() } else { source.kept.clone() };
        let object = Object { kept, modified: visit.now, ..source };
        let answer = copied("CopyObjectResult", &object);
        let version = bucket.put(visit.key, object, forbids)?.version.as_deref();
        Ok(with_version(answer, visit, version))
    }

    pub(super) fn copy_part(
        &self,
        buckets: &mut BTreeMap<String, Bucket>,
        visit: &Visit<'_>,
    ) -> Result<Answer, Refusal> {
        let number = part_number(visit)?;
        let source = source(buckets, visit)?;
        let size = source.bytes.len();
        let bytes = match visit.request.header(&visit.face.name("copy-source-range")) {
            None => source.bytes.clone(),
            Some(text) => {
                let bounds = text.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
                let bounds = bounds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse::<usize>().ok()?)));
                let (from, to) = bounds
                    .filter(|(from, to)| from <= to && *to < size)
                    .ok_or_else(|| Refusal::invalid_argument("The range of the copy source is invalid."))?;
                source.bytes.slice(from..=to)
            }
        };
        if self.troubles.fails_inside() {
            return Ok(error_inside());
        }
        let bucket = bucket_of(buckets, visit.bucket)?;
        let upload = bucket.upload(visit.pair("uploadId").unwrap_or_default(), visit.key)?;
        let part = Object::new(bytes, visit.kept(), visit.now);
        let answer = copied("CopyPartResult", &part);
        upload.parts.insert(number, part);
        Ok(answer)
    }
}

/// The object that a copy names as its source.
fn source(buckets: &mut BTreeMap<String, Bucket>, visit: &Visit<'_>) -> Result<Object, Refusal> {
    let name = visit.face.name("copy-source");
    let text = decode(visit.request.header(&name).unwrap_or_default())?;
    let wrong = || Refusal::invalid_argument("Copy source must mention the source bucket and key.");
    let (first, key) = text.trim_start_matches('/').split_once('/').ok_or_else(wrong)?;
    // COS names the bucket by its host.
    let bucket = first.split_once(".cos.").map_or(first, |(bucket, _)| bucket);
    if key.is_empty() {
        return Err(wrong());
    }
    visit.check_scope(bucket, key)?;
    let object = bucket_of(buckets, bucket)?.object(key)?;
    let condition = |rest: &str| visit.request.header(&format!("{name}-{rest}"));
    let is_it = |tag: &str| tag.trim().trim_matches('"') == object.etag;
    let failed = condition("if-match").is_some_and(|tag| !is_it(tag)) || condition("if-none-match").is_some_and(is_it);
    if failed {
        let message = "At least one of the pre-conditions you specified did not hold.";
        return Err(Refusal::new(412, "PreconditionFailed", message));
    }
    Ok(object.clone())
}

fn copied(root: &'static str, object: &Object) -> Answer {
    let mut document = Document::new(root);
    document.leaf("ETag", format!("\"{}\"", object.etag)).leaf("LastModified", iso(object.modified));
    Answer::xml(200, document.end())
}
