//! Requests for one object: put, get, head, delete.

use super::{Objects, Visit, bucket_of};
use crate::mock::answer::Answer;
use crate::mock::clock::http_date;
use crate::mock::refusal::Refusal;
use crate::mock::store::{Bucket, Object};

impl Objects {
    pub(super) fn serve_object(&self, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        visit.check_scope(visit.bucket, visit.key)?;
        let is_copy = visit.request.header(&visit.face.name("copy-source")).is_some();
        self.with(|buckets| {
            bucket_of(buckets, visit.bucket)?;
            match visit.request.method.as_str() {
                "PUT" if visit.has("uploadId") => {
                    visit.knows(&["uploadId", "partNumber"])?;
                    if is_copy {
                        self.copy_part(buckets, visit)
                    } else {
                        put_part(bucket_of(buckets, visit.bucket)?, visit)
                    }
                }
                "PUT" => {
                    visit.knows(&[])?;
                    if is_copy { self.copy(buckets, visit) } else { put(bucket_of(buckets, visit.bucket)?, visit) }
                }
                "POST" => self.serve_upload(bucket_of(buckets, visit.bucket)?, visit),
                "GET" if visit.has("uploadId") => self.serve_upload(bucket_of(buckets, visit.bucket)?, visit),
                "DELETE" if visit.has("uploadId") => self.serve_upload(bucket_of(buckets, visit.bucket)?, visit),
                "GET" | "HEAD" => {
                    visit.knows(&[])?;
                    get(bucket_of(buckets, visit.bucket)?, visit)
                }
                "DELETE" => {
                    visit.knows(&[])?;
                    bucket_of(buckets, visit.bucket)?.objects.remove(visit.key);
                    Ok(Answer::new(204))
                }
                _ => Err(Refusal::new(405, "MethodNotAllowed", "The specified method is not allowed here.")),
            }
        })
    }
}

fn put(bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let object = Object::new(visit.request.body.clone(), visit.kept(), visit.now);
    let object = bucket.put(visit.key, object, visit.forbids_overwrite()?)?;
    let answer = stored(visit, object);
    Ok(with_version(answer, visit, object.version.as_deref()))
}

fn put_part(bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let number = part_number(visit)?;
    let upload = bucket.upload(visit.pair("uploadId").unwrap_or_default(), visit.key)?;
    let part = Object::new(visit.request.body.clone(), visit.kept(), visit.now);
    let answer = stored(visit, &part);
    upload.parts.insert(number, part);
    Ok(answer)
}

/// The number of the part that a request is about.
pub(super) fn part_number(visit: &Visit<'_>) -> Result<u32, Refusal> {
    let number = visit.pair("partNumber").and_then(|text| text.parse().ok());
    number.filter(|number| (1..=10_000).contains(number)).ok_or_else(|| {
        Refusal::invalid_argument("Part number must be an integer between 1 and 10000, inclusive")
            .with("ArgumentName", "partNumber")
    })
}

fn stored(visit: &Visit<'_>, object: &Object) -> Answer {
    let answer = Answer::new(200).with("ETag", format!("\"{}\"", object.etag));
    answer.with(&visit.face.vendor_name("hash-crc64ecma"), object.crc.to_string())
}

/// Adds the version of an object, where it has one.
pub(super) fn with_version(answer: Answer, visit: &Visit<'_>, version: Option<&str>) -> Answer {
    match version {
        Some(version) => answer.with(&visit.face.vendor_name("version-id"), version),
        None => answer,
    }
}

fn get(bucket: &Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let object = bucket.object(visit.key)?;
    let etag = format!("\"{}\"", object.etag);
    let names = |list: &str| list.split(',').any(|t| t.trim() == "*" || t.trim().trim_matches('"') == object.etag);
    if visit.request.header("if-match").is_some_and(|list| !names(list)) {
        let message = "At least one of the pre-conditions you specified did not hold.";
        return Err(Refusal::new(412, "PreconditionFailed", message));
    }
    if visit.request.header("if-none-match").is_some_and(names) {
        return Ok(Answer::new(304).with("ETag", etag));
    }
    let size = object.bytes.len();
    let mut answer = Answer::new(200).with("ETag", etag).with("Last-Modified", http_date(object.modified));
    for (name, value) in &object.kept.content {
        answer = answer.with(&title(name), value);
    }
    if !object.kept.content.contains_key("content-type") {
        answer = answer.with("Content-Type", "application/octet-stream");
    }
    for (name, value) in &object.kept.user {
        answer = answer.with(&visit.face.name(&format!("meta-{name}")), value);
    }
    answer = answer.with("Accept-Ranges", "bytes");
    answer = with_version(answer, visit, bucket.version_of(object));
    answer = answer.with(&visit.face.vendor_name("hash-crc64ecma"), object.crc.to_string());
    if visit.face.family == "x-oss-" {
        answer = answer.with("x-oss-object-type", if object.etag.contains('-') { "Multipart" } else { "Normal" });
    }
    let range = visit.request.header("range").and_then(|text| wanted(text, size));
    answer.body = match range {
        None => object.bytes.clone(),
        Some((from, to)) => {
            let asks_for_standard = visit.request.header("x-oss-range-behavior") == Some("standard");
            let is_lax = visit.face.is_lax_about_ranges && !asks_for_standard;
            if is_lax && (from >= size || to > size) {
                object.bytes.clone()
            } else if from >= size || from >= to {
                return Err(Refusal::new(416, "InvalidRange", "The requested range cannot be satisfied.")
                    .with("ActualObjectSize", size.to_string()));
            } else {
                let to = to.min(size);
                answer.status = 206;
                answer = answer.with("Content-Range", format!("bytes {from}-{}/{size}", to - 1));
                object.bytes.slice(from..to)
            }
        }
    };
    Ok(answer)
}

/// A header's name as servers write it.
fn title(name: &str) -> String {
    let mut starts = true;
    let mut shift = |c: char| {
        let shifted = if starts { c.to_ascii_uppercase() } else { c };
        starts = c == '-';
        shifted
    };
    name.chars().map(&mut shift).collect()
}

/// The first byte that is wanted, and the one behind the last. `None` for what is no range, which is ignored.
fn wanted(text: &str, size: usize) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (from.trim(), to.trim()) {
        ("", last) => Some((size.saturating_sub(last.parse().ok()?), size)),
        (from, "") => Some((from.parse().ok()?, size)),
        (from, to) => {
            let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then(|| (from, to.saturating_add(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{title, wanted};

    #[test]
    fn names_of_headers() {
        assert_eq!(title("content-type"), "Content-Type");
    }

    #[test]
    fn ranges() {
        assert_eq!(wanted("bytes=0-4", 10), Some((0, 5)));
        assert_eq!(wanted("bytes=4-", 10), Some((4, 10)));
        assert_eq!(wanted("bytes=-3", 10), Some((7, 10)));
        assert_eq!(wanted("bytes=8-20", 10), Some((8, 21)));
        assert_eq!(wanted("bytes=5-4", 10), None);
        assert_eq!(wanted("items=0-4", 10), None);
    }
}
