//! Alibaba OSS, as strict as the service.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::Result;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use checkpoint_fs::Environment;

use super::answer::Answer;
use super::clock::http_date;
use super::controls::Controls;
use super::face::OSS;
use super::keys::Identity;
use super::objects::{Visit, check_length, no_such_bucket};
use super::refusal::Refusal;
use super::request::Arrived;
use super::server::{Server, Service};
use super::signature::verify_oss4;
use super::trouble::Trouble;
use super::xml::Document;

/// The permanent key that a mock of OSS knows, and where its buckets are.
#[derive(Clone)]
#[non_exhaustive]
pub struct OssSettings {
    /// The region of all buckets, such as `cn-hangzhou`.
    pub region: String,
    /// The ID of the permanent key.
    pub access_key_id: String,
    /// Its secret.
    pub access_key_secret: String,
}

impl Default for OssSettings {
    fn default() -> Self {
        Self {
            region: "cn-hangzhou".to_owned(),
            access_key_id: "LTAI5tmockmockmockmock01".to_owned(),
            access_key_secret: "ossmocksecretossmocksecret0001".to_owned(),
        }
    }
}

impl std::fmt::Debug for OssSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OssSettings").field("region", &self.region).finish_non_exhaustive()
    }
}

/// A running mock of OSS. Stops on drop.
///
/// It takes the fourth signature alone, in the header; refuses addressing by path and chunked signatures;
/// wants `Content-MD5` on deletes of many keys; honours `x-oss-forbid-overwrite`, atomically, as long as the
/// bucket never had versions. A range that reaches beyond the end gives the whole object, as the service
/// does unless it is asked for standard behaviour. Buckets and faults are in its [`Controls`].
#[derive(Debug)]
pub struct OssMock {
    server: Server,
    service: Arc<OssService>,
}

impl OssMock {
    /// Starts it, on a thread and a free port of its own.
    ///
    /// # Errors
    /// When no port or thread is to be had.
    pub fn start(settings: OssSettings) -> Result<Self> {
        let controls = Arc::new(Controls::with_key(&settings.access_key_id, &settings.access_key_secret));
        let service = Arc::new(OssService { settings, controls });
        let server = Server::start(vec![Arc::<OssService>::clone(&service)], Arc::clone(&service.controls))?;
        Ok(Self { server, service })
    }

    /// Where it listens, as a URL: a proxy for the service's hosts.
    pub fn address(&self) -> String {
        self.server.url()
    }

    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let OssSettings { region, access_key_id, access_key_secret } = &self.service.settings;
        vec![
            ("OSS_ACCESS_KEY_ID", access_key_id.clone()),
            ("OSS_ACCESS_KEY_SECRET", access_key_secret.clone()),
            ("OSS_REGION", region.clone()),
            ("OSS_ENDPOINT", format!("http://{}", self.service.host())),
            ("http_proxy", self.address()),
        ]
    }

    /// The same as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }
}

impl Deref for OssMock {
    type Target = Controls;

    fn deref(&self) -> &Controls {
        &self.service.controls
    }
}

#[derive(Debug)]
struct OssService {
    settings: OssSettings,
    controls: Arc<Controls>,
}

impl OssService {
    /// The host that buckets' hosts end with.
    fn host(&self) -> String {
        format!("oss-{}.aliyuncs.com", self.settings.region)
    }

    /// The bucket and the key that a request names; both empty for the service itself.
    fn address(&self, request: &Arrived) -> Result<(String, String), Refusal> {
        let path = request.decoded_path()?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = match request.host.strip_suffix(&self.host()) {
            Some("") if path.is_empty() => ("", ""),
            Some("") => {
                let message = "Please use virtual hosted style to access.";
                return Err(Refusal::new(403, "SecondLevelDomainForbidden", message));
            }
            Some(before) => (before.strip_suffix('.').ok_or_else(|| no_such_bucket(before))?, path),
            // Another region's host does not say where the bucket is.
            None if request.host.ends_with(".aliyuncs.com") => {
                return Err(no_such_bucket(request.host.split('.').next().unwrap_or_default()));
            }
            None => {
                let message = "Please use virtual hosted style to access.";
                return Err(Refusal::new(403, "SecondLevelDomainForbidden", message));
            }
        };
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_name = (3..=63).contains(&bucket.len()) && bucket.bytes().all(plain);
        if !bucket.is_empty() && (!is_name || bucket.starts_with('-') || bucket.ends_with('-')) {
            return Err(Refusal::new(400, "InvalidBucketName", "The specified bucket is not valid."));
        }
        Ok((bucket.to_owned(), key.to_owned()))
    }

    /// Who sent a request.
    fn authenticate(&self, request: &Arrived, bucket: &str) -> Result<Identity, Refusal> {
        let now = self.controls.clock.seconds();
        if request.header("authorization").is_none() {
            let message = "You have no right to access this object because of bucket acl.";
            return Err(Refusal::access_denied(message).with_cause("0003-00000001"));
        }
        let identity = verify_oss4(request, bucket, &self.settings.region, &self.controls.keys, now)?;
        match (&identity.token, request.header("x-oss-security-token")) {
            (None, None) => {}
            (Some(right), Some(given)) if right == given => {}
            (Some(_), None) => {
                let message = "The OSS Access Key Id you provided does not exist in our records.";
                return Err(Refusal::new(403, "InvalidAccessKeyId", message).with_cause("0002-00000902"));
            }
            _ => {
                let message = "The security token you provided is invalid.";
                return Err(Refusal::new(403, "InvalidSecurityToken", message));
            }
        }
        if identity.expires_at.is_some_and(|end| end <= now) {
            let message = "The security token you provided has expired.";
            return Err(Refusal::new(403, "SecurityTokenExpired", message));
        }
        Ok(identity)
    }

    fn serve(&self, request: &Arrived) -> Result<Answer, Refusal> {
        check_length(request)?;
        let (bucket, key) = self.address(request)?;
        let chunked = |value: &str| value.split(',').any(|part| part.trim() == "aws-chunked");
        if request.header("content-encoding").is_some_and(chunked) {
            return Err(Refusal::invalid_argument(
                "aws-chunked encoding is not supported with the specified \
                                                  x-amz-content-sha256 value.",
            )
            .with_cause("0017-00000804"));
        }
        let identity = self.authenticate(request, &bucket)?;
        if bucket.is_empty() {
            return Err(Refusal::not_implemented("the list of all buckets"));
        }
        if key.starts_with(['/', '\\']) || key.len() > OSS.longest_key {
            return Err(Refusal::new(400, "InvalidObjectName", "The specified object is not valid."));
        }
        self.controls.objects.serve(&Visit {
            request,
            face: &OSS,
            bucket: &bucket,
            key: &key,
            pairs: request.pairs()?,
            scope: identity.scope,
            now: self.controls.clock.millis(),
        })
    }
}

/// A refusal as the service writes it. It has one code for both faults of a digest.
fn refuse(request: &Arrived, refusal: Refusal, id: &str) -> Answer {
    let code = if refusal.code == "BadDigest" { "InvalidDigest" } else { refusal.code };
    let mut document = Document::new("Error");
    document.leaf("Code", code).leaf("Message", &refusal.message).leaf("RequestId", id).leaf("HostId", &request.host);
    for (name, value) in &refusal.details {
        document.leaf(name, value);
    }
    if !refusal.cause.is_empty() {
        document.leaf("EC", refusal.cause);
        document.leaf("RecommendDoc", format!("https://api.aliyun.com/troubleshoot?q={}", refusal.cause));
    }
    let text = document.end();
    // An answer to HEAD has no body, so it says the same in a header.
    let error = (request.method == "HEAD").then(|| BASE64_STANDARD.encode(&text));
    let mut answer = Answer { code, ..Answer::xml(refusal.status, text) };
    if let Some(error) = error {
        answer = answer.with("x-oss-err", error);
    }
    if refusal.cause.is_empty() { answer } else { answer.with("x-oss-ec", refusal.cause) }
}

impl Service for OssService {
    fn serves(&self, _request: &Arrived) -> bool {
        true
    }

    fn answer(&self, request: &Arrived) -> Answer {
        let id = format!("692B{:020X}", self.controls.next_number());
        let trouble = self.controls.objects.troubles.next();
        let result = match trouble {
            Some(Trouble::SlowDown) => {
                let message = "The total qps limit of the bucket has been exceeded. Please reduce your request rate.";
                Err(Refusal::new(503, "QpsLimitExceeded", message))
            }
            Some(Trouble::InternalError) => {
                let message = "We encountered an internal error. Please try again.";
                Err(Refusal::new(500, "InternalError", message))
            }
            Some(Trouble::LostAnswer) | None => self.serve(request),
        };
        let mut answer = result.unwrap_or_else(|refusal| refuse(request, refusal, &id));
        answer.is_lost = trouble == Some(Trouble::LostAnswer);
        let date = http_date(self.controls.clock.millis());
        answer.with("Date", date).with("Server", "AliyunOSS").with("x-oss-request-id", id)
    }
}
