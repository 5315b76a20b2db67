//! Tencent COS, as strict as the service: its own interface and its S3 one, on the same hosts.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::Result;
use checkpoint_fs::Environment;

use super::answer::Answer;
use super::clock::http_date;
use super::controls::Controls;
use super::face::{COS, COS_AS_S3, Face};
use super::keys::Identity;
use super::objects::{Visit, check_length, no_such_bucket};
use super::refusal::Refusal;
use super::request::{Arrived, decode};
use super::server::{Server, Service};
use super::signature::{verify_q_sign, verify_sigv4};
use super::trouble::Trouble;
use super::xml::Document;

/// The permanent key that a mock of COS knows, and where its buckets are.
#[derive(Clone)]
#[non_exhaustive]
pub struct CosSettings {
    /// The region of all buckets.
    pub region: String,
    /// The ID of the permanent key.
    pub secret_id: String,
    /// Its secret.
    pub secret_key: String,
    /// Whether hosts that are not COS's own are answered, by path: as another server with COS's rules.
    pub path_style_allowed: bool,
}

impl Default for CosSettings {
    fn default() -> Self {
        Self {
            region: "ap-guangzhou".to_owned(),
            secret_id: "AKIDmockmockmockmockmockmock0001".to_owned(),
            secret_key: "cosmocksecretcosmocksecret000001".to_owned(),
            path_style_allowed: false,
        }
    }
}

impl std::fmt::Debug for CosSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CosSettings").field("region", &self.region).finish_non_exhaustive()
    }
}

/// A running mock of COS. Stops on drop.
///
/// It answers what the service is documented or was seen to answer, and refuses all else: addressing by
/// path, requests without or with a wrong signature, deletes of many keys without `Content-MD5`, chunked
/// signatures and newer checksums. `If-None-Match` on a write has no effect; `x-cos-forbid-overwrite` has,
/// atomically, as long as the bucket never had versions. Buckets and faults are in its [`Controls`].
#[derive(Debug)]
pub struct CosMock {
    server: Server,
    service: Arc<CosService>,
}

impl CosMock {
    /// Starts it, on a thread and a free port of its own.
    ///
    /// # Errors
    /// When no port or thread is to be had.
    pub fn start(settings: CosSettings) -> Result<Self> {
        let service = Arc::new(CosService::new(settings));
        let server = Server::start(vec![Arc::<CosService>::clone(&service)], Arc::clone(&service.controls))?;
        Ok(Self { server, service })
    }

    /// Where it listens, as a URL: a proxy for the service's hosts.
    pub fn address(&self) -> String {
        self.server.url()
    }

    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let CosSettings { region, secret_id, secret_key, .. } = &self.service.settings;
        vec![
            ("COS_SECRET_ID", secret_id.clone()),
            ("COS_SECRET_KEY", secret_key.clone()),
            ("COS_REGION", region.clone()),
            ("COS_ENDPOINT", format!("http://{}", self.service.host())),
            ("http_proxy", self.address()),
        ]
    }

    /// The same as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }
}

impl Deref for CosMock {
    type Target = Controls;

    fn deref(&self) -> &Controls {
        &self.service.controls
    }
}

/// The service itself.
#[derive(Debug)]
pub(crate) struct CosService {
    settings: CosSettings,
    controls: Arc<Controls>,
}

impl CosService {
    pub(crate) fn new(settings: CosSettings) -> Self {
        let controls = Arc::new(Controls::with_key(&settings.secret_id, &settings.secret_key));
        Self { settings, controls }
    }

    /// Its buckets, keys and faults.
    pub(crate) fn controls(&self) -> &Arc<Controls> {
        &self.controls
    }

    /// The host that buckets' hosts end with.
    fn host(&self) -> String {
        format!("cos.{}.myqcloud.com", self.settings.region)
    }

    /// The bucket and the key that a request names; both empty for the service itself.
    fn address(&self, request: &Arrived) -> Result<(String, String), Refusal> {
        let path = request.decoded_path()?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let by_path = || {
            let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
            (bucket.to_owned(), key.to_owned())
        };
        let forbidden = || {
            let message = "The bucket you are attempting to access must be addressed using COS virtual-styled domain.";
            Refusal::new(403, "PathStyleDomainForbidden", message)
        };
        let (bucket, key) = match request.host.strip_suffix(&self.host()) {
            Some("") if path.is_empty() => (String::new(), String::new()),
            Some("") => return Err(forbidden()),
            Some(before) => {
                let bucket = before.strip_suffix('.').ok_or_else(|| no_such_bucket(before))?;
                (bucket.to_owned(), path.to_owned())
            }
            None if request.host.ends_with(".myqcloud.com") => {
                let bucket = request.host.split('.').next().unwrap_or_default();
                return Err(no_such_bucket(bucket));
            }
            None if self.settings.path_style_allowed => by_path(),
            None => return Err(forbidden()),
        };
        let has_account = bucket.rsplit_once('-').is_some_and(|(name, account)| {
            !name.is_empty() && !account.is_empty() && account.bytes().all(|b| b.is_ascii_digit())
        });
        if !bucket.is_empty() && !has_account {
            return Err(Refusal::new(400, "InvalidBucketName", "The specified bucket is not valid."));
        }
        Ok((bucket, key))
    }

    /// Who sent a request, and in which of the two ways.
    fn authenticate(&self, request: &Arrived) -> Result<(Identity, &'static Face), Refusal> {
        let now = self.controls.clock.seconds();
        let given = request.header("authorization").unwrap_or_default();
        let (identity, face, token) = if given.starts_with("AWS4-HMAC-SHA256") {
            (verify_sigv4(request, &self.controls.keys, now)?, &COS_AS_S3, request.header("x-amz-security-token"))
        } else if given.contains("q-signature=") {
            (verify_q_sign(request, &self.controls.keys, now)?, &COS, request.header("x-cos-security-token"))
        } else {
            return Err(Refusal::access_denied("Access Denied."));
        };
        if identity.token.as_deref() != token {
            let message = "The Access Key Id you provided does not exist in our records";
            return Err(Refusal::new(403, "InvalidAccessKeyId", message));
        }
        if identity.expires_at.is_some_and(|end| end <= now) {
            return Err(Refusal::new(400, "ExpiredToken", "The provided token has expired."));
        }
        Ok((identity, face))
    }

    fn serve(&self, request: &Arrived) -> Result<Answer, Refusal> {
        check_length(request)?;
        let (bucket, key) = self.address(request)?;
        let (identity, face) = self.authenticate(request)?;
        if bucket.is_empty() {
            return Err(Refusal::not_implemented("the list of all buckets"));
        }
        let pairs = request.pairs()?;
        let is_delete = key.is_empty() && request.method == "POST" && pairs.iter().any(|(name, _)| name == "delete");
        // Without its digest a delete of many is refused for that, whatever else it carries.
        if !is_delete || request.header("content-md5").is_some() {
            refuse_newer_checksums(request)?;
        }
        self.controls.objects.serve(&Visit {
            request,
            face,
            bucket: &bucket,
            key: &key,
            pairs,
            scope: identity.scope,
            now: self.controls.clock.millis(),
        })
    }

    fn refuse(&self, request: &Arrived, refusal: Refusal, id: &str) -> Answer {
        let mut document = Document::new("Error");
        document.leaf("Code", refusal.code).leaf("Message", &refusal.message);
        // It says more only of signatures.
        for (name, value) in &refusal.details {
            if refusal.code == "SignatureDoesNotMatch" {
                document.leaf(name, value);
            }
        }
        let resource = format!("{}{}", request.host, decode(&request.path).unwrap_or_default());
        document.leaf("Resource", resource).leaf("RequestId", id).leaf("TraceId", trace_id(id));
        Answer { code: refusal.code, ..Answer::xml(refusal.status, document.end()) }
            .with("x-cos-trace-id", trace_id(id))
    }
}

impl Service for CosService {
    fn serves(&self, _request: &Arrived) -> bool {
        true
    }

    fn answer(&self, request: &Arrived) -> Answer {
        let id = format!("NjkyYjY{:016x}", self.controls.next_number());
        let trouble = self.controls.objects.troubles.next();
        let result = match trouble {
            Some(Trouble::SlowDown) => Err(Refusal::new(503, "SlowDown", "Please reduce your request rate.")),
            Some(Trouble::InternalError) => {
                let message = "We encountered an internal error. Please try again.";
                Err(Refusal::new(500, "InternalError", message))
            }
            Some(Trouble::LostAnswer) | None => self.serve(request),
        };
        let mut answer = result.unwrap_or_else(|refusal| self.refuse(request, refusal, &id));
        answer.is_lost = trouble == Some(Trouble::LostAnswer);
        let date = http_date(self.controls.clock.millis());
        answer
            .with("Date", date)
            .with("Server", "tencent-cos")
            .with("x-cos-request-id", id.clone())
            .with("x-amz-request-id", id)
    }
}

/// The service knows neither chunked signatures nor S3's newer checksums.
fn refuse_newer_checksums(request: &Arrived) -> Result<(), Refusal> {
    let chunked = |value: &str| value.split(',').any(|part| part.trim() == "aws-chunked");
    if request.header("content-encoding").is_some_and(chunked) {
        return Err(Refusal::not_implemented("content-encoding: aws-chunked"));
    }
    if request.header("x-amz-content-sha256").is_some_and(|value| value.starts_with("STREAMING-")) {
        return Err(Refusal::not_implemented("a payload that is signed in chunks"));
    }
    let is_newer = |name: &str| {
        name.starts_with("x-amz-checksum-") || matches!(name, "x-amz-sdk-checksum-algorithm" | "x-amz-trailer")
    };
    match request.headers.iter().find(|(name, _)| is_newer(name)) {
        Some((name, _)) => Err(Refusal::not_implemented(name)),
        None => Ok(()),
    }
}

fn trace_id(id: &str) -> String {
    format!("OGVmYzZiMmQzYjA2OWNhODk0NTRkMTBiOWVm{id}")
}
