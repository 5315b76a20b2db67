//! Real servers for tests, started on demand on the loopback interface: [`Azurite`], [`FakeGcsServer`],
//! [`SwiftServer`], and one for S3.
//!
//! Which S3 server, in this order: the server at `MINIO_ENDPOINT` (with the keys of `AWS_ACCESS_KEY_ID` and
//! `AWS_SECRET_ACCESS_KEY`), a `minio` program on the `PATH`, or a single-node Ceph RADOS Gateway, which the
//! tests install. [`S3Server::describe`] says which it is. Where there is none, starting fails with what to
//! install: a test that needs a server never passes without one.

mod azurite;
mod bucket;
mod daemon;
mod fake_gcs;
mod minio;
mod rgw;
mod swift;

use std::env;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use checkpoint_fs::Environment;

pub use self::azurite::Azurite;
pub use self::fake_gcs::FakeGcsServer;
pub use self::rgw::{ObjectStore, RgwServer};
pub use self::swift::SwiftServer;

/// The region that requests are signed for; none of these servers minds.
const REGION: &str = "us-east-1";

/// How a server is reached.
#[derive(Clone)]
pub struct Access {
    /// The URL, without a final `/`.
    pub endpoint: String,
    /// The access key ID.
    pub access_key: String,
    /// The secret access key of this test server.
    pub secret_key: String,
}

impl Access {
    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ACCESS_KEY_ID", self.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY", self.secret_key.clone()),
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_DEFAULT_REGION", REGION.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// The same as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }

    /// Makes a bucket; one that this user already has is fine.
    ///
    /// # Errors
    /// What the server answered, or that it did not.
    pub fn create_bucket(&self, name: &str) -> Result<()> {
        bucket::create(self, name)
    }

    /// Sends a request of the test's own to a path and query, signed as S3 wants it, with `headers` in the
    /// signature; gives the status and the body of the answer. Blocks; safe to call inside of a runtime.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<(u16, String)> {
        bucket::send(self, method, target, headers, body)
    }

    /// Makes a bucket with a name that no other test has.
    ///
    /// # Errors
    /// As [`Access::create_bucket`].
    pub fn new_bucket(&self) -> Result<String> {
        use rand::RngExt;
        let name = format!("test-{:012x}", rand::rng().random::<u64>() >> 16);
        self.create_bucket(&name)?;
        Ok(name)
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// An S3 server for tests; see the module.
#[derive(Debug)]
pub struct S3Server {
    access: Access,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Given,
    Minio { _server: minio::MinioServer },
    Rgw { _server: RgwServer },
}

impl S3Server {
    /// Starts the server, or finds the one that is given. Takes up to half a minute.
    ///
    /// # Errors
    /// When there is none and none can be started; says what to install.
    pub fn start() -> Result<Self> {
        if let Some(endpoint) = variable("MINIO_ENDPOINT") {
            let key = |name| variable(name).ok_or_else(|| anyhow!("MINIO_ENDPOINT is set without {name}"));
            let access = Access {
                endpoint: endpoint.trim_end_matches('/').to_owned(),
                access_key: key("AWS_ACCESS_KEY_ID")?,
                secret_key: key("AWS_SECRET_ACCESS_KEY")?,
            };
            return Ok(Self { access, kind: Kind::Given });
        }
        if daemon::program("minio").is_some() {
            let server = minio::MinioServer::start().context("minio did not start")?;
            return Ok(Self { access: server.access().clone(), kind: Kind::Minio { _server: server } });
        }
        let server = RgwServer::start()?;
        Ok(Self { access: server.access().clone(), kind: Kind::Rgw { _server: server } })
    }

    /// The server of this process, started by whoever asks first. It ends with the process, however that ends.
    ///
    /// # Errors
    /// As [`S3Server::start`]; every caller gets the same.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<S3Server, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().map_err(|e| format!("{e:#}"))).as_ref().map_err(|e| anyhow!(e.clone()))
    }

    /// How it is reached.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Which server this is, for the output of a test run.
    pub fn describe(&self) -> String {
        let what = match &self.kind {
            Kind::Given => "the server of MINIO_ENDPOINT",
            Kind::Minio { .. } => "minio, started here",
            Kind::Rgw { .. } => "Ceph RADOS Gateway, started here",
        };
        format!("{what}, at {}", self.access.endpoint)
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
