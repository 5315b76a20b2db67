//! Multipart uploads: begin, list parts, complete, abort.

use super::object::with_version;
use super::{Objects, Visit, error_inside};
use crate::mock::answer::Answer;
use crate::mock::clock::iso;
use crate::mock::refusal::Refusal;
use crate::mock::request::encode_path;
use crate::mock::store::Bucket;
use crate::mock::xml::{Document, parse};

impl Objects {
    pub(super) fn serve_upload(&self, bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        match visit.request.method.as_str() {
            "POST" if visit.has("uploads") => {
                visit.knows(&["uploads", "encoding-type"])?;
                begin(bucket, visit)
            }
            "POST" if visit.has("uploadId") => {
                visit.knows(&["uploadId", "encoding-type"])?;
                self.complete(bucket, visit)
            }
            "GET" => {
                visit.knows(&["uploadId", "max-parts", "part-number-marker", "encoding-type"])?;
                list_parts(bucket, visit)
            }
            "DELETE" => {
                visit.knows(&["uploadId"])?;
                let id = visit.pair("uploadId").unwrap_or_default();
                bucket.upload(id, visit.key)?;
                bucket.uploads.remove(id);
                Ok(Answer::new(204))
            }
            _ => Err(Refusal::not_implemented("this kind of POST")),
        }
    }

    fn complete(&self, bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        let id = visit.pair("uploadId").unwrap_or_default();
        bucket.upload(id, visit.key)?;
        let root = parse(&visit.request.body, "CompleteMultipartUpload")?;
        let named: Option<Vec<(u32, String)>> = root
            .children
            .iter()
            .filter(|child| child.name == "Part")
            .map(|part| Some((part.child("PartNumber")?.trim().parse().ok()?, part.child("ETag")?.to_owned())))
            .collect();
        let named = named.ok_or_else(Refusal::malformed_xml)?;
        let object = bucket.assemble(id, visit.key, &named, visit.face.least_part, visit.now)?;
        let forbids = visit.forbids_overwrite()?;
        bucket.check_free(visit.key, forbids).map_err(|refusal| refusal.with_cause("0042-00000214"))?;
        if self.troubles.fails_inside() {
            return Ok(error_inside());
        }
        let mut document = Document::new("CompleteMultipartUploadResult");
        if visit.pair("encoding-type") == Some("url") {
            document.leaf("EncodingType", "url");
        }
        document.leaf("Location", format!("http://{}{}", visit.request.host, visit.request.path));
        document.leaf("Bucket", visit.bucket).leaf("Key", shown(visit));
        document.leaf("ETag", format!("\"{}\"", object.etag));
        let answer =
            Answer::xml(200, document.end()).with(&visit.face.vendor_name("hash-crc64ecma"), object.crc.to_string());
        bucket.uploads.remove(id);
        let version = bucket.put(visit.key, object, forbids)?.version.as_deref();
        Ok(with_version(answer, visit, version))
    }
}

fn begin(bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    bucket.check_free(visit.key, visit.forbids_overwrite()?)?;
    let id = bucket.begin(visit.key, visit.kept(), visit.now);
    let mut document = Document::new("InitiateMultipartUploadResult");
    if visit.pair("encoding-type") == Some("url") {
        document.leaf("EncodingType", "url");
    }
    document.leaf("Bucket", visit.bucket).leaf("Key", shown(visit)).leaf("UploadId", id);
    Ok(Answer::xml(200, document.end()))
}

fn list_parts(bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let number = |name: &str, default: u32| match visit.pair(name) {
        Some(text) => text.parse().map_err(|_| Refusal::invalid_argument(format!("Argument {name} is invalid"))),
        None => Ok(default),
    };
    let (after, most) = (number("part-number-marker", 0)?, number("max-parts", 1000)?.min(1000));
    let id = visit.pair("uploadId").unwrap_or_default();
    let upload = bucket.upload(id, visit.key)?;
    let mut document = Document::new("ListPartsResult");
    if visit.pair("encoding-type") == Some("url") {
        document.leaf("EncodingType", "url");
    }
    document.leaf("Bucket", visit.bucket).leaf("Key", shown(visit)).leaf("UploadId", id);
    document.leaf("PartNumberMarker", after.to_string()).leaf("MaxParts", most.to_string());
    let mut last = after;
    let mut shown = 0;
    let mut left = upload.parts.range(after.saturating_add(1)..).peekable();
    while let Some((number, part)) = left.next_if(|_| shown < most) {
        document.open("Part").leaf("PartNumber", number.to_string()).leaf("ETag", format!("\"{}\"", part.etag));
        document.leaf("Size", part.bytes.len().to_string()).leaf("LastModified", iso(part.modified)).close();
        last = *number;
        shown += 1;
    }
    document.leaf("NextPartNumberMarker", last.to_string());
    document.leaf("IsTruncated", if left.peek().is_some() { "true" } else { "false" });
    Ok(Answer::xml(200, document.end()))
}

/// The key as the answer names it.
fn shown(visit: &Visit<'_>) -> String {
    if visit.pair("encoding-type") == Some("url") { encode_path(visit.key) } else { visit.key.to_owned() }
}
