//! What requests for buckets and objects do, once it is known who asks: the same for COS and OSS but for
//! what a [`Face`] says.

mod bucket;
mod copy;
mod object;
mod upload;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::answer::Answer;
use super::digest::check_content_md5;
use super::face::Face;
use super::keys::Scope;
use super::refusal::Refusal;
use super::request::Arrived;
use super::store::{Bucket, Kept, Versioning};
use super::trouble::Troubles;

/// Headers that are kept with an object and come back with it.
const CONTENT_HEADERS: [&str; 6] =
    ["content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires"];

/// The buckets of a service.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    buckets: Mutex<BTreeMap<String, Bucket>>,
    pub(crate) troubles: Troubles,
}

impl Objects {
    pub(crate) fn create_bucket(&self, name: &str) {
        self.with(|buckets| {
            buckets.entry(name.to_owned()).or_default();
        });
    }

    pub(crate) fn remove_bucket(&self, name: &str) {
        self.with(|buckets| buckets.remove(name));
    }

    /// Does nothing for a bucket that is not there.
    pub(crate) fn set_versioning(&self, name: &str, versioning: Versioning) {
        self.with(|buckets| {
            if let Some(bucket) = buckets.get_mut(name) {
                bucket.versioning = versioning;
            }
        });
    }

    /// The keys of a bucket, and the uploads that are not finished.
    pub(crate) fn names(&self, name: &str) -> (Vec<String>, usize) {
        self.with(|buckets| {
            let bucket = buckets.get(name);
            bucket.map_or((Vec::new(), 0), |b| (b.objects.keys().cloned().collect(), b.uploads.len()))
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Bucket>) -> T) -> T {
        work(&mut self.buckets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does what a request asks for.
    ///
    /// # Errors
    /// As the service answers.
    pub(crate) fn serve(&self, visit: &Visit<'_>) -> Result<Answer, Refusal> {
        visit.check_body()?;
        if visit.key.is_empty() { self.serve_bucket(visit) } else { self.serve_object(visit) }
    }
}

/// A request whose sender is known.
#[derive(Debug)]
pub(crate) struct Visit<'r> {
    pub(crate) request: &'r Arrived,
    pub(crate) face: &'static Face,
    pub(crate) bucket: &'r str,
    /// Empty for the bucket itself.
    pub(crate) key: &'r str,
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) scope: Option<Scope>,
    /// Milliseconds since 1970.
    pub(crate) now: i64,
}

impl Visit<'_> {
    /// The value of a parameter.
    fn pair(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.pair(name).is_some()
    }

    /// Refuses parameters that the operation does not know.
    fn knows(&self, names: &[&str]) -> Result<(), Refusal> {
        // Some SDKs name the operation.
        match self.pairs.iter().find(|(name, _)| name != "x-id" && !names.contains(&name.as_str())) {
            Some((name, _)) => Err(Refusal::not_implemented(name)),
            None => Ok(()),
        }
    }

    fn check_body(&self) -> Result<(), Refusal> {
        if self.key.len() > self.face.longest_key {
            return Err(Refusal::new(400, "KeyTooLong", "Your key is too long."));
        }
        check_content_md5(self.request)
    }

    /// Whether the keys that signed may touch the object.
    fn check_scope(&self, bucket: &str, key: &str) -> Result<(), Refusal> {
        match &self.scope {
            Some(scope) if !scope.holds(bucket, key) => Err(Refusal::access_denied("Access Denied.")),
            _ => Ok(()),
        }
    }

    /// Keys that are good for a part of a bucket are not for the bucket.
    fn check_whole_bucket(&self) -> Result<(), Refusal> {
        if self.scope.is_some() { Err(Refusal::access_denied("Access Denied.")) } else { Ok(()) }
    }

    /// Whether the object must not be there yet.
    fn forbids_overwrite(&self) -> Result<bool, Refusal> {
        let name = self.face.vendor_name("forbid-overwrite");
        match self.request.header(&name) {
            None => Ok(false),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => {
                Err(Refusal::invalid_argument(format!("The header {name} is invalid")).with_cause("0017-00000279"))
            }
        }
    }

    /// The headers to keep with an object.
    fn kept(&self) -> Kept {
        let user = self.face.name("meta-");
        let mut kept = Kept::default();
        for (name, value) in &self.request.headers {
            if CONTENT_HEADERS.contains(&name.as_str()) {
                kept.content.insert(name.clone(), value.clone());
            } else if let Some(name) = name.strip_prefix(&user) {
                kept.user.insert(name.to_owned(), value.clone());
            }
        }
        kept
    }
}

/// The bucket of a request, among all.
fn bucket_of<'b>(buckets: &'b mut BTreeMap<String, Bucket>, name: &str) -> Result<&'b mut Bucket, Refusal> {
    buckets.get_mut(name).ok_or_else(|| no_such_bucket(name))
}

/// Refuses a body that does not say how long it is, whoever sends it.
///
/// # Errors
/// `MissingContentLength`.
pub(crate) fn check_length(request: &Arrived) -> Result<(), Refusal> {
    match request.header("transfer-encoding") {
        Some(_) => Err(Refusal::new(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")),
        None => Ok(()),
    }
}

pub(crate) fn no_such_bucket(name: &str) -> Refusal {
    Refusal::new(404, "NoSuchBucket", "The specified bucket does not exist.")
        .with("BucketName", name)
        .with_cause("0015-00000101")
}

/// A success that holds an error: copies and completions can answer so.
fn error_inside() -> Answer {
    let mut document = super::xml::Document::new("Error");
    document.leaf("Code", "InternalError").leaf("Message", "We encountered an internal error. Please try again.");
    document.leaf("RequestId", "");
    Answer { code: "InternalError", ..Answer::xml(200, document.end()) }
}
