//! Requests for a bucket: listings, multi-delete, versioning.

use super::{Objects, Visit, bucket_of};
use crate::mock::answer::Answer;
use crate::mock::clock::iso;
use crate::mock::listing::ListRequest;
use crate::mock::refusal::Refusal;
use crate::mock::request::encode_path;
use crate::mock::store::{Bucket, Versioning};
use crate::mock::xml::{Document, parse};

/// Keys that one request can delete.
const MOST_DELETES: usize = 1000;

impl Objects {
    pub(super) fn serve_bucket(&self, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        self.with(|buckets| {
            let bucket = bucket_of(buckets, visit.bucket)?;
            match visit.request.method.as_str() {
                "GET" if visit.has("versioning") => {
                    visit.knows(&["versioning"])?;
                    visit.check_whole_bucket()?;
                    Ok(versioning(bucket))
                }
                "PUT" if visit.has("versioning") => {
                    visit.knows(&["versioning"])?;
                    visit.check_whole_bucket()?;
                    set_versioning(bucket, visit)
                }
                "GET" if visit.has("uploads") => {
                    visit.knows(&["uploads", "prefix", "encoding-type", "max-uploads"])?;
                    visit.check_whole_bucket()?;
                    Ok(uploads(bucket, visit))
                }
                "GET" => list(bucket, visit),
                "HEAD" => {
                    visit.knows(&[])?;
                    visit.check_whole_bucket()?;
                    Ok(Answer::new(200))
                }
                "POST" if visit.has("delete") => {
                    visit.knows(&["delete", "encoding-type"])?;
                    self.delete_many(bucket, visit)
                }
                _ => Err(Refusal::new(405, "MethodNotAllowed", "The specified method is not allowed here.")),
            }
        })
    }

    fn delete_many(&self, bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        if visit.request.header("content-md5").is_none() {
            let (code, message) = visit.face.missing_digest;
            return Err(Refusal::new(400, code, message).with_cause("0016-00000606"));
        }
        let root = parse(&visit.request.body, "Delete")?;
        let quiet = root.child("Quiet") == Some("true");
        let keys: Option<Vec<&str>> =
            root.children.iter().filter(|c| c.name == "Object").map(|object| object.child("Key")).collect();
        let keys = keys.filter(|keys| (1..=MOST_DELETES).contains(&keys.len()) && !keys.contains(&""));
        let keys = keys.ok_or_else(Refusal::malformed_xml)?;
        let is_encoded = visit.pair("encoding-type") == Some("url");
        let text = |key: &str| if is_encoded { encode_path(key) } else { key.to_owned() };
        let mut document = Document::new("DeleteResult");
        if is_encoded {
            document.leaf("EncodingType", "url");
        }
        for key in keys {
            let denied = visit.check_scope(visit.bucket, key).err().map(|_| "AccessDenied");
            match denied.or_else(|| self.troubles.keeps(key)) {
                Some(code) => {
                    document.open("Error").leaf("Key", text(key)).leaf("Code", code);
                    document.leaf("Message", "The object was not deleted.").close();
                }
                None => {
                    bucket.objects.remove(key);
                    if !quiet {
                        document.open("Deleted").leaf("Key", text(key)).close();
                    }
                }
            }
        }
        Ok(Answer::xml(200, document.end()))
    }
}

fn list(bucket: &Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    let pairs: Vec<(String, String)> = visit.pairs.iter().filter(|(name, _)| name != "x-id").cloned().collect();
    let list = ListRequest {
        always_marks: visit.face.always_marks,
        extra: visit.face.listed,
        ..ListRequest::parse(visit.bucket, &pairs)?
    };
    visit.check_scope(visit.bucket, &list.prefix)?;
    Ok(Answer::xml(200, list.answer(&bucket.objects)?))
}

fn versioning(bucket: &Bucket) -> Answer {
    let mut document = Document::new("VersioningConfiguration");
    match bucket.versioning {
        Versioning::Off => {}
        Versioning::Enabled => {
            document.leaf("Status", "Enabled");
        }
        Versioning::Suspended => {
            document.leaf("Status", "Suspended");
        }
    }
    Answer::xml(200, document.end())
}

fn set_versioning(bucket: &mut Bucket, visit: &Visit<'_>) -> Result<Answer, Refusal> {
    bucket.versioning = match parse(&visit.request.body, "VersioningConfiguration")?.child("Status") {
        Some("Enabled") => Versioning::Enabled,
        Some("Suspended") => Versioning::Suspended,
        _ => return Err(Refusal::malformed_xml()),
    };
    Ok(Answer::new(200))
}

fn uploads(bucket: &Bucket, visit: &Visit<'_>) -> Answer {
    let prefix = visit.pair("prefix").unwrap_or_default();
    let is_encoded = visit.pair("encoding-type") == Some("url");
    let text = |text: &str| if is_encoded { encode_path(text) } else { text.to_owned() };
    let mut document = Document::new("ListMultipartUploadsResult");
    document.leaf("Bucket", visit.bucket).leaf("Prefix", text(prefix)).leaf("IsTruncated", "false");
    if is_encoded {
        document.leaf("EncodingType", "url");
    }
    for (id, upload) in bucket.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix)) {
        document.open("Upload").leaf("Key", text(&upload.key)).leaf("UploadId", id);
        document.leaf("Initiated", iso(upload.started)).close();
    }
    Answer::xml(200, document.end())
}
