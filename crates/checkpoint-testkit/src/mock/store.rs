//! What a mock object store holds. Each change happens whole, under one lock.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::digest::{crc64, hex, md5};
use super::refusal::Refusal;

/// Whether a bucket keeps old versions, or ever did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Versioning {
    /// It never did.
    #[default]
    Off,
    /// It does.
    Enabled,
    /// It did once.
    Suspended,
}

/// What the version of an object is called that was written while none were kept.
const NO_VERSION: &str = "null";

/// Headers that are kept with an object: common ones, and user metadata without its prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) content: BTreeMap<String, String>,
    pub(crate) user: BTreeMap<String, String>,
}

/// An object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) bytes: Bytes,
    pub(crate) etag: String,
    pub(crate) crc: u64,
    /// Milliseconds since 1970.
    pub(crate) modified: i64,
    pub(crate) kept: Kept,
    /// What its version is called, where it was written to a bucket that has or had versions.
    pub(crate) version: Option<String>,
}

impl Object {
    pub(crate) fn new(bytes: Bytes, kept: Kept, modified: i64) -> Self {
        let (etag, crc) = (hex(&md5(&bytes)), crc64(&bytes));
        Self { bytes, etag, crc, modified, kept, version: None }
    }
}

/// A multipart upload under way.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) key: String,
    pub(crate) started: i64,
    pub(crate) kept: Kept,
    pub(crate) parts: BTreeMap<u32, Object>,
}

/// A bucket.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) versioning: Versioning,
    pub(crate) objects: BTreeMap<String, Object>,
    pub(crate) uploads: BTreeMap<String, Upload>,
    number: u64,
}

impl Bucket {
    /// Puts an object in its place, unless there must be none and there is one.
    ///
    /// # Errors
    /// `FileAlreadyExists`. Buckets that have or had versions ignore the wish, as the services document.
    pub(crate) fn put(&mut self, key: &str, object: Object, forbids_overwrite: bool) -> Result<&Object, Refusal> {
        self.check_free(key, forbids_overwrite)?;
        self.number += 1;
        let version = match self.versioning {
            Versioning::Off => None,
            Versioning::Enabled => Some(hex(&md5(format!("version {} of {key}", self.number).as_bytes()))),
            Versioning::Suspended => Some(NO_VERSION.to_owned()),
        };
        let object = Object { version, ..object };
        Ok(self.objects.entry(key.to_owned()).insert_entry(object).into_mut())
    }

    /// What an object's version is called in answers; nothing in a bucket that never had any.
    pub(crate) fn version_of<'o>(&self, object: &'o Object) -> Option<&'o str> {
        let name = object.version.as_deref().unwrap_or(NO_VERSION);
        (self.versioning != Versioning::Off).then_some(name)
    }

    /// The check of [`Bucket::put`] alone.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check_free(&self, key: &str, forbids_overwrite: bool) -> Result<(), Refusal> {
        if forbids_overwrite && self.versioning == Versioning::Off && self.objects.contains_key(key) {
            let message = "The object you specified already exists and can not be overwritten.";
            return Err(Refusal::new(409, "FileAlreadyExists", message).with_cause("0026-00000002"));
        }
        Ok(())
    }

    /// # Errors
    /// `NoSuchKey`.
    pub(crate) fn object(&self, key: &str) -> Result<&Object, Refusal> {
        self.objects.get(key).ok_or_else(|| {
            Refusal::new(404, "NoSuchKey", "The specified key does not exist.")
                .with("Key", key)
                .with_cause("0026-00000001")
        })
    }

    /// Begins an upload and gives its ID.
    pub(crate) fn begin(&mut self, key: &str, kept: Kept, started: i64) -> String {
        self.number += 1;
        let id = hex(&md5(format!("{started}/{}/{key}", self.number).as_bytes()));
        self.uploads.insert(id.clone(), Upload { key: key.to_owned(), started, kept, parts: BTreeMap::new() });
        id
    }

    /// # Errors
    /// `NoSuchUpload`, for another key's upload too.
    pub(crate) fn upload(&mut self, id: &str, key: &str) -> Result<&mut Upload, Refusal> {
        self.uploads.get_mut(id).filter(|upload| upload.key == key).ok_or_else(|| {
            let message = "The specified multipart upload does not exist. The upload ID might be invalid, or the \
                           multipart upload might have been aborted or completed.";
            Refusal::new(404, "NoSuchUpload", message).with("UploadId", id).with_cause("0042-00000002")
        })
    }

    /// Makes an object of the named parts.
    ///
    /// # Errors
    /// As the services answer for parts that are missing, in disorder or too small.
    pub(crate) fn assemble(
        &mut self,
        id: &str,
        key: &str,
        named: &[(u32, String)],
        least: usize,
        now: i64,
    ) -> Result<Object, Refusal> {
        let upload = self.upload(id, key)?;
        if named.is_empty() {
            return Err(Refusal::malformed_xml());
        }
        if !named.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Refusal::new(400, "InvalidPartOrder", "The list of parts was not in ascending order."));
        }
        let mut bytes = Vec::new();
        let mut digests = Vec::new();
        for (at, (number, etag)) in named.iter().enumerate() {
            let part = upload.parts.get(number).filter(|part| part.etag == etag.trim_matches('"'));
            let part = part.ok_or_else(|| {
                let message = "One or more of the specified parts could not be found.";
                Refusal::new(400, "InvalidPart", message).with("PartNumber", number.to_string())
            })?;
            if at + 1 < named.len() && part.bytes.len() < least {
                let message = "Your proposed upload is smaller than the minimum allowed object size.";
                return Err(Refusal::new(400, "EntityTooSmall", message));
            }
            bytes.extend_from_slice(&part.bytes);
            digests.extend_from_slice(&md5(&part.bytes));
        }
        let mut object = Object::new(bytes.into(), upload.kept.clone(), now);
        object.etag = format!("{}-{}", hex(&md5(&digests)), named.len());
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bytes: &'static [u8]) -> Object {
        Object::new(Bytes::from_static(bytes), Kept::default(), 0)
    }

    #[test]
    fn overwriting_is_refused_only_without_versions() {
        let mut bucket = Bucket::default();
        bucket.put("k", object(b"1"), true).expect("free");
        assert_eq!(bucket.put("k", object(b"2"), true).expect_err("taken").code, "FileAlreadyExists");
        bucket.put("k", object(b"3"), false).expect("not asked");
        for versioning in [Versioning::Enabled, Versioning::Suspended] {
            bucket.versioning = versioning;
            bucket.put("k", object(b"4"), true).expect("ignored");
        }
        assert_eq!(bucket.object("k").expect("there").bytes, "4");
    }

    #[test]
    fn parts_make_an_object() {
        let mut bucket = Bucket::default();
        let id = bucket.begin("k", Kept::default(), 1);
        let parts = [object(b"abc"), object(b"de"), object(b"f")];
        let named: Vec<(u32, String)> = (1..).zip(parts.iter().map(|p| format!("\"{}\"", p.etag))).collect();
        bucket.upload(&id, "k").expect("there").parts.extend((1..).zip(parts));
        let mut code = |named: &[(u32, String)], least| bucket.assemble(&id, "k", named, least, 2).map_err(|e| e.code);
        let whole = code(&named, 2).expect("whole");
        assert_eq!(whole.bytes, "abcdef");
        assert!(whole.etag.ends_with("-3"), "{}", whole.etag);
        assert_eq!(code(&named, 3).err(), Some("EntityTooSmall"));
        assert_eq!(code(&[named[1].clone(), named[0].clone()], 1).err(), Some("InvalidPartOrder"));
        assert_eq!(code(&[(1, "other".to_owned())], 1).err(), Some("InvalidPart"));
        assert_eq!(code(&[], 1).err(), Some("MalformedXML"));
        assert_eq!(bucket.upload(&id, "other").map(drop).expect_err("another key").code, "NoSuchUpload");
    }
}
