//! Google Cloud Storage, as strict as the service: its JSON API with every condition, token and checksum, and the
//! multi-delete of its XML API.

mod batch;
mod bucket;
mod crc32c;
mod fault;
mod multi_delete;
mod target;
mod upload;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use checkpoint_fs::Environment;

use self::bucket::Buckets;
use self::fault::Fault;
use self::target::Target;
use super::answer::Answer;
use super::controls::{Controls, Received};
use super::request::Arrived;
use super::server::{Server, Service};
use super::trouble::Trouble;

const SLOW_DOWN: &str = "The object exceeded the rate limit for object mutation.";
const INTERNAL: &str = "We encountered an internal error.";

/// Where tokens are asked for.
const TOKEN_PATH: &str = "/token";

/// What a mock of the service is like.
#[derive(Clone)]
#[non_exhaustive]
pub struct GcsSettings {
    /// The access token that it takes at first.
    pub token: String,
    /// The bytes that one step of a copy takes along.
    pub copied_in_a_step: usize,
    /// Objects on a page of a listing.
    pub page: usize,
}

impl Default for GcsSettings {
    fn default() -> Self {
        Self { token: "ya29.mock-access-token".to_owned(), copied_in_a_step: 256 << 10, page: 1000 }
    }
}

impl fmt::Debug for GcsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcsSettings").field("copied_in_a_step", &self.copied_in_a_step).finish_non_exhaustive()
    }
}

/// A running mock of Google Cloud Storage, reached by its own address. Stops on drop.
///
/// Unlike the servers that others wrote, it honours `ifGenerationMatch` on uploads of every kind and on copies,
/// compares checksums, asks for the access token (in each part of a batch), copies large objects in steps, and takes
/// a hundred requests to a batch and a thousand keys, with their digest, to a multi-delete at most. What it does not
/// know it refuses: a query parameter, a form of a body, a slash in a key that is not encoded.
#[derive(Debug)]
pub struct GcsMock {
    server: Server,
    service: Arc<GcsService>,
}

impl GcsMock {
    /// Starts it, on a thread and a free port of its own.
    ///
    /// # Errors
    /// When no port or thread is to be had.
    pub fn start(settings: GcsSettings) -> Result<Self> {
        let service = Arc::new(GcsService {
            token: Mutex::new(settings.token.clone()),
            settings,
            buckets: Buckets::default(),
            controls: Arc::default(),
        });
        let server = Server::start(vec![Arc::<GcsService>::clone(&service)], Arc::clone(&service.controls))?;
        Ok(Self { server, service })
    }

    /// The URL, without a final `/`.
    pub fn endpoint(&self) -> String {
        self.server.url()
    }

    /// The URL of its token server, which gives a token to whoever asks.
    pub fn token_url(&self) -> String {
        format!("{}{TOKEN_PATH}", self.endpoint())
    }

    /// The variables that a client needs besides the token.
    pub fn environment(&self) -> Environment {
        [("STORAGE_EMULATOR_HOST", self.endpoint()), ("NO_GCE_CHECK", "true".to_owned())].into_iter().collect()
    }

    /// Takes this access token and no other from now on.
    pub fn set_token(&self, token: &str) {
        *self.service.token.lock().unwrap_or_else(PoisonError::into_inner) = token.to_owned();
    }

    /// Makes a bucket with a name that no other test has.
    pub fn new_bucket(&self) -> String {
        let name = format!("test-{}", self.service.controls.next_number());
        self.service.buckets.create(&name);
        name
    }

    /// The next requests get into trouble.
    pub fn trouble_next(&self, trouble: Trouble, times: usize) {
        self.service.controls.trouble_next(trouble, times);
    }

    /// The next part of an upload is kept up to this many bytes.
    pub fn shorten_next_part(&self, bytes: usize) {
        self.service.buckets.shorten_next_part(bytes);
    }

    /// The last byte of the next downloads is another than it should be.
    pub fn damage_next_downloads(&self, times: u32) {
        self.service.buckets.damage_next_downloads(times);
    }

    /// The next deletes of a key among others are refused with the request to slow down.
    pub fn keep_key(&self, key: &str, times: u32) {
        self.keep_key_as(key, "rateLimitExceeded", times);
    }

    /// The same with another code. A multi-delete says nothing of the key where it is empty.
    pub fn keep_key_as(&self, key: &str, code: &'static str, times: u32) {
        self.service.controls.keep_key(key, code, times);
    }

    /// The source of the next copy is written anew between the description of it and the copy.
    pub fn change_source_of_next_copy(&self) {
        self.service.buckets.change_source_of_next_copy();
    }

    /// Removes a bucket with all that is in it.
    pub fn remove_bucket(&self, bucket: &str) {
        self.service.buckets.remove(bucket);
    }

    /// What arrived, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.service.controls.requests()
    }

    /// Forgets what arrived.
    pub fn forget_requests(&self) {
        self.service.controls.forget_requests();
    }

    /// The keys of a bucket, and how many uploads are not finished.
    pub fn names(&self, bucket: &str) -> (Vec<String>, usize) {
        self.service.buckets.names(bucket)
    }
}

/// The service itself.
pub(crate) struct GcsService {
    settings: GcsSettings,
    token: Mutex<String>,
    buckets: Buckets,
    controls: Arc<Controls>,
}

impl fmt::Debug for GcsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcsService").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl GcsService {
    /// Only whoever has the token is served.
    fn authenticate(&self, request: &Arrived) -> Result<(), Fault> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        match request.header("authorization") {
            None => Err(Fault::new(401, "required", "Anonymous caller does not have access to the bucket.")),
            Some(given) if given.strip_prefix("Bearer ") == Some(token.as_str()) => Ok(()),
            Some(_) => Err(Fault::new(401, "authError", "Invalid Credentials")),
        }
    }

    /// The token server: gives the token of the moment to whoever sends a form.
    fn issue(&self) -> Answer {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let said = serde_json::json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
        Answer { body: said.to_string().into(), ..Answer::new(200) }.with("Content-Type", "application/json")
    }

    fn serve(&self, request: &Arrived) -> Result<Answer, Fault> {
        if request.method == "POST" && request.path == TOKEN_PATH {
            return Ok(self.issue());
        }
        if let Some(bucket) = multi_delete::bucket_of(request) {
            self.authenticate(request).map_err(|fault| Fault::xml(401, "AuthenticationRequired", fault.message))?;
            return multi_delete::serve(&self.buckets, &self.controls, request, bucket);
        }
        if request.method == "POST" && request.path == "/batch/storage/v1" {
            // The token is that of the parts: each of them is refused without it.
            let known = self.authenticate(request);
            return batch::serve(&self.buckets, &self.controls, request, known);
        }
        self.authenticate(request)?;
        let target = Target::read(request)?;
        let now = self.controls.clock.millis();
        if target.is_upload {
            return upload::serve(&self.buckets, request, &target, now);
        }
        self.buckets.serve(&self.settings, request, &target, now)
    }
}

impl Service for GcsService {
    fn serves(&self, _request: &Arrived) -> bool {
        true
    }

    fn answer(&self, request: &Arrived) -> Answer {
        let trouble = self.controls.objects.troubles.next();
        let is_xml = multi_delete::bucket_of(request).is_some();
        let result = match trouble {
            Some(Trouble::SlowDown) if is_xml => Err(Fault::xml(429, "SlowDown", SLOW_DOWN)),
            Some(Trouble::SlowDown) => Err(Fault::new(429, "rateLimitExceeded", SLOW_DOWN)),
            Some(Trouble::InternalError) if is_xml => Err(Fault::xml(500, "InternalError", INTERNAL)),
            Some(Trouble::InternalError) => Err(Fault::new(503, "backendError", INTERNAL)),
            Some(Trouble::LostAnswer) | None => self.serve(request),
        };
        let mut answer = result.unwrap_or_else(|fault| fault.answer());
        answer.is_lost = trouble == Some(Trouble::LostAnswer);
        answer.with("x-guploader-uploadid", format!("MOCK{}", self.controls.next_number()))
    }
}
