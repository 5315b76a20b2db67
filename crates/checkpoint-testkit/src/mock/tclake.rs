//! TCLake: the catalog service, and the COS that its volumes lie on, behind one address.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use checkpoint_fs::Environment;
use serde_json::{Value, json};

use super::answer::Answer;
use super::clock::http_date;
use super::controls::Controls;
use super::cos::{CosService, CosSettings};
use super::keys::{Identity, KeyRing};
use super::refusal::Refusal;
use super::request::Arrived;
use super::server::{Server, Service};
use super::signature::verify_tc3;
use super::volumes::Volumes;

const SERVICE: &str = "tccatalog";
const VERSION: &str = "2024-10-24";
/// How long credentials of a volume last unless a test says otherwise, in seconds.
const LIFE: i64 = 12 * 3600;

/// The key that a mock of TCLake knows.
#[derive(Clone)]
#[non_exhaustive]
pub struct TcLakeSettings {
    /// The region of the catalog and of the volumes.
    pub region: String,
    /// The ID of the key.
    pub secret_id: String,
    /// Its secret.
    pub secret_key: String,
    /// Its token, for a temporary key.
    pub token: Option<String>,
}

impl Default for TcLakeSettings {
    fn default() -> Self {
        Self {
            region: "ap-guangzhou".to_owned(),
            secret_id: "AKIDlakelakelakelakelakelake0001".to_owned(),
            secret_key: "tclakesecrettclakesecrettclake01".to_owned(),
            token: None,
        }
    }
}

impl std::fmt::Debug for TcLakeSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcLakeSettings").field("region", &self.region).finish_non_exhaustive()
    }
}

/// A running mock of TCLake. Stops on drop.
///
/// The catalog checks the signature and the headers of each call, and answers errors with status 200 as the
/// API does. Credentials of a volume are good for its prefix of the bucket and for nothing else, and COS (in
/// the same mock; its buckets and faults are in [`Controls`]) refuses them when they have ended.
#[derive(Debug)]
pub struct TcLakeMock {
    server: Server,
    catalog: Arc<CatalogService>,
}

impl TcLakeMock {
    /// Starts it, on a thread and a free port of its own.
    ///
    /// # Errors
    /// When no port or thread is to be had.
    pub fn start(settings: TcLakeSettings) -> Result<Self> {
        let cos = CosSettings { region: settings.region.clone(), ..CosSettings::default() };
        let cos = Arc::new(CosService::new(cos));
        let keys = KeyRing::default();
        let (secret, token) = (settings.secret_key.clone(), settings.token.clone());
        keys.add(settings.secret_id.clone(), Identity { secret, token, expires_at: None, scope: None });
        let catalog = Arc::new(CatalogService {
            settings,
            keys,
            controls: Arc::clone(cos.controls()),
            state: Mutex::new(State { life: LIFE, ..State::default() }),
        });
        let services: Vec<Arc<dyn Service>> = vec![Arc::<CatalogService>::clone(&catalog), cos];
        let server = Server::start(services, Arc::clone(&catalog.controls))?;
        Ok(Self { server, catalog })
    }

    /// Where it listens, as a URL: a proxy for the services' hosts.
    pub fn address(&self) -> String {
        self.server.url()
    }

    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let TcLakeSettings { region, secret_id, secret_key, token } = &self.catalog.settings;
        let mut variables = vec![
            ("TENCENTCLOUD_SECRET_ID", secret_id.clone()),
            ("TENCENTCLOUD_SECRET_KEY", secret_key.clone()),
            ("TENCENTCLOUD_REGION", region.clone()),
            ("TENCENTCLOUD_ENDPOINT", format!("http://{}", self.catalog.host())),
            // Without it, a client goes to COS over TLS.
            ("FSSPEC_TCLAKE_COS_ENDPOINT", self.cos_endpoint()),
            ("http_proxy", self.address()),
        ];
        variables.extend(token.clone().map(|token| ("TENCENTCLOUD_TOKEN", token)));
        variables
    }

    /// COS's endpoint, without TLS.
    pub fn cos_endpoint(&self) -> String {
        format!("http://cos.{}.myqcloud.com", self.catalog.settings.region)
    }

    /// The variables as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }

    /// Adds a catalog of a type, such as `VOLUME` or `LAKEHOUSE`.
    pub fn add_catalog(&self, name: &str, kind: &str) {
        self.catalog.with(|state| state.volumes.add_catalog(name, kind));
    }

    /// Adds a schema; its catalog too, of type `VOLUME`, where there is none.
    pub fn add_schema(&self, catalog: &str, schema: &str) {
        self.catalog.with(|state| {
            state.volumes.add_schema(catalog, schema);
        });
    }

    /// Adds a volume at a location such as `cosn://bucket-1250000000/prefix`, and what it lies in. The bucket
    /// is not made.
    pub fn add_volume(&self, catalog: &str, schema: &str, volume: &str, location: &str) {
        self.catalog.with(|state| state.volumes.add_volume(catalog, schema, volume, location));
    }

    /// Sets how long credentials last that are given from now on, in seconds.
    pub fn set_credentials_life(&self, seconds: i64) {
        self.catalog.with(|state| state.life = seconds);
    }

    /// The next calls of the catalog fail with a code, such as `RequestLimitExceeded`.
    pub fn fail_catalog_next(&self, code: &'static str, times: usize) {
        self.catalog.with(|state| state.failures.extend(std::iter::repeat_n(code, times)));
    }

    /// How often credentials were given.
    pub fn credentials_given(&self) -> u64 {
        self.catalog.with(|state| state.given)
    }
}

impl Deref for TcLakeMock {
    type Target = Controls;

    fn deref(&self) -> &Controls {
        &self.catalog.controls
    }
}

#[derive(Debug, Default)]
struct State {
    volumes: Volumes,
    life: i64,
    failures: VecDeque<&'static str>,
    given: u64,
}

/// The catalog service.
#[derive(Debug)]
struct CatalogService {
    settings: TcLakeSettings,
    /// Those of the catalog's callers.
    keys: KeyRing,
    /// Those of COS, whose keys the catalog gives out.
    controls: Arc<Controls>,
    state: Mutex<State>,
}

impl CatalogService {
    fn host(&self) -> String {
        format!("{SERVICE}.{}.tencentcloudapi.com", self.settings.region)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn serve(&self, request: &Arrived) -> Result<Value, Refusal> {
        let header = |name: &'static str| {
            let message = || format!("The request is missing a required parameter `{name}`.");
            request.header(name).ok_or_else(|| Refusal::new(200, "MissingParameter", message()))
        };
        let action = header("x-tc-action")?;
        if header("x-tc-version")? != VERSION {
            return Err(Refusal::new(200, "NoSuchVersion", "The requested API version does not exist."));
        }
        if header("x-tc-region")? != self.settings.region {
            let message = "The requested API does not support the region.";
            return Err(Refusal::new(200, "UnsupportedRegion", message));
        }
        verify_tc3(request, SERVICE, &self.keys, self.controls.clock.seconds())?;
        let asked: Value = serde_json::from_slice(&request.body)
            .ok()
            .filter(Value::is_object)
            .ok_or_else(|| Refusal::new(200, "InvalidParameter", "The request body is not a JSON object."))?;
        self.with(|state| {
            if let Some(code) = state.failures.pop_front() {
                return Err(Refusal::new(200, code, "The request cannot be served now."));
            }
            if action == "DescribeCredentials" {
                self.give_credentials(state, &asked)
            } else {
                state.volumes.describe(action, &asked)
            }
        })
    }

    /// New keys for a volume, which COS knows from then on.
    fn give_credentials(&self, state: &mut State, asked: &Value) -> Result<Value, Refusal> {
        let scope = state.volumes.scope(asked)?;
        state.given += 1;
        let number = state.given;
        let id = format!("AKIDvolume{number:022}");
        let secret = format!("volumesecret{number:020}");
        let token = format!("volumetoken/{number:040}==");
        let expires_at = self.controls.clock.seconds() + state.life;
        let identity = Identity {
            secret: secret.clone(),
            token: Some(token.clone()),
            expires_at: Some(expires_at),
            scope: Some(scope),
        };
        self.controls.keys.add(id.clone(), identity);
        Ok(json!({ "Credentials": [{
            "CredentialType": "cos-token",
            "CredentialInfo": [
                { "Key": "cos-access-key-id", "Value": id },
                { "Key": "cos-secret-access-key", "Value": secret },
                { "Key": "cos-security-token", "Value": token },
            ],
            "ExpireTimeInMs": expires_at * 1000,
        }] }))
    }
}

impl Service for CatalogService {
    fn serves(&self, request: &Arrived) -> bool {
        request.host == self.host()
    }

    fn answer(&self, request: &Arrived) -> Answer {
        if request.method != "POST" || request.path != "/" || !request.query.is_empty() {
            return Answer::new(404);
        }
        let number = self.controls.next_number();
        let id = format!("5c1f7a9e-0000-4000-8000-{number:012x}");
        let (mut response, code) = match self.serve(request) {
            Ok(response) => (response, ""),
            Err(refusal) => (json!({ "Error": { "Code": refusal.code, "Message": refusal.message } }), refusal.code),
        };
        response["RequestId"] = json!(id);
        let body = json!({ "Response": response }).to_string().into();
        let date = http_date(self.controls.clock.millis());
        Answer { body, code, ..Answer::new(200) }.with("Content-Type", "application/json").with("Date", date)
    }
}
