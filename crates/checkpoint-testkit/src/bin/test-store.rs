//! A store for tests that are not in Rust: `test-store s3|cos|oss|tclake|gs|az`.
//!
//! It answers each line of its input by a line of JSON, and ends with its input:
//! - at its start, without being asked: `{"scheme", "description", "endpoint", "proxy", "options"}`: the options as a
//!   client of that scheme takes them, and what `http_proxy` must be for it, where a mock plays the service's hosts;
//! - `bucket`: makes one that no other test has: `{"bucket", "root"}`, the root as a path without a scheme;
//! - `requests`: what a mock received since the last time: a list of `{"method", "host", "path", "query", "headers",
//!   "status", "code"}`;
//! - `expire`: ends all temporary keys of a mock, as those that TCLake gives for a volume: `{}`.

use std::io::{BufRead, Write};

use anyhow::{Result, bail};
use checkpoint_testkit::mock::{
    Controls, CosMock, CosSettings, GcsMock, GcsSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings,
};
use checkpoint_testkit::server::{Azurite, S3Server};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let scheme = std::env::args().nth(1).unwrap_or_default();
    let store = TestStore::start(&scheme)?;
    let mut out = std::io::stdout().lock();
    let mut say = |value: &Value| -> Result<()> {
        writeln!(out, "{value}")?;
        Ok(out.flush()?)
    };
    say(&store.introduction(&scheme))?;
    for line in std::io::stdin().lock().lines() {
        match line?.trim() {
            "bucket" => say(&store.new_bucket()?)?,
            "requests" => say(&store.requests())?,
            "expire" => {
                if let Some(controls) = store.controls() {
                    controls.expire_temporary_keys();
                }
                say(&json!({}))?;
            }
            other => bail!("no such question: {other}"),
        }
    }
    Ok(())
}

enum TestStore {
    S3(Box<S3Server>),
    Cos(CosMock, CosSettings),
    Oss(OssMock, OssSettings),
    Tclake(TcLakeMock, TcLakeSettings),
    Gs(GcsMock, String),
    Az(Azurite),
}

impl TestStore {
    fn start(scheme: &str) -> Result<Self> {
        Ok(match scheme {
            "s3" => Self::S3(Box::new(S3Server::start()?)),
            "cos" => Self::Cos(CosMock::start(CosSettings::default())?, CosSettings::default()),
            "oss" => Self::Oss(OssMock::start(OssSettings::default())?, OssSettings::default()),
            "tclake" => Self::Tclake(TcLakeMock::start(TcLakeSettings::default())?, TcLakeSettings::default()),
            "gs" => {
                let settings = GcsSettings::default();
                let token = settings.token.clone();
                Self::Gs(GcsMock::start(settings)?, token)
            }
            "az" => Self::Az(Azurite::start()?),
            other => bail!("no store for the scheme `{other}`: s3, cos, oss, tclake, gs or az"),
        })
    }

    fn introduction(&self, scheme: &str) -> Value {
        let (description, endpoint, options) = match self {
            Self::S3(server) => {
                let access = server.access();
                let options = json!({
                    "key": access.access_key,
                    "secret": access.secret_key,
                    "endpoint_url": access.endpoint,
                });
                (server.describe(), access.endpoint.clone(), options)
            }
            Self::Cos(mock, settings) => {
                let options = json!({
                    "secret_id": settings.secret_id,
                    "secret_key": settings.secret_key,
                    "region": settings.region,
                    "endpoint_url": format!("http://cos.{}.myqcloud.com", settings.region),
                    "config_kwargs": {"proxies": {"http": mock.address()}},
                });
                ("the mock of COS".to_owned(), mock.address(), options)
            }
            Self::Oss(mock, settings) => {
                let options = json!({
                    "key": settings.access_key_id,
                    "secret": settings.access_key_secret,
                    "region": settings.region,
                    "endpoint": format!("http://oss-{}.aliyuncs.com", settings.region),
                });
                ("the mock of OSS".to_owned(), mock.address(), options)
            }
            Self::Tclake(mock, settings) => {
                let options = json!({
                    "sid": settings.secret_id,
                    "sk": settings.secret_key,
                    "token": settings.token,
                    "region": settings.region,
                    "endpoint": format!("http://tccatalog.{}.tencentcloudapi.com", settings.region),
                    "cos_endpoint": mock.cos_endpoint(),
                });
                ("the mock of TCLake".to_owned(), mock.address(), options)
            }
            Self::Gs(mock, token) => {
                let options = json!({"token": token, "endpoint_url": mock.endpoint()});
                ("the mock of Google Cloud Storage".to_owned(), mock.endpoint(), options)
            }
            Self::Az(server) => {
                let options = json!({"connection_string": server.connection_string()});
                ("Azurite, started here".to_owned(), server.endpoint().to_owned(), options)
            }
        };
        let proxy = self.controls().map(|_| endpoint.clone());
        json!({
            "scheme": scheme,
            "description": description,
            "endpoint": endpoint,
            "proxy": proxy,
            "options": options,
        })
    }

    fn new_bucket(&self) -> Result<Value> {
        let bucket = match self {
            Self::S3(server) => server.access().new_bucket()?,
            Self::Gs(mock, _) => mock.new_bucket(),
            Self::Az(server) => server.new_container()?,
            Self::Cos(..) | Self::Oss(..) | Self::Tclake(..) => {
                self.controls().map(Controls::new_bucket).unwrap_or_default()
            }
        };
        let root = match self {
            Self::Tclake(mock, _) => {
                let volume = bucket.replace('-', "_");
                mock.add_volume("cat", "db", &volume, &format!("cosn://{bucket}/volumes"));
                format!("volume/cat/db/{volume}")
            }
            _ => bucket.clone(),
        };
        Ok(json!({"bucket": bucket, "root": root}))
    }

    fn controls(&self) -> Option<&Controls> {
        match self {
            Self::Cos(mock, _) => Some(mock),
            Self::Oss(mock, _) => Some(mock),
            Self::Tclake(mock, _) => Some(mock),
            Self::S3(_) | Self::Gs(..) | Self::Az(_) => None,
        }
    }

    fn requests(&self) -> Value {
        let Some(controls) = self.controls() else { return json!([]) };
        let received = controls.requests().into_iter().map(|request| {
            json!({
                "method": request.method,
                "host": request.host,
                "path": request.path,
                "query": request.query,
                "headers": request.headers,
                "status": request.status,
                "code": request.code,
            })
        });
        let received = received.collect();
        controls.forget_requests();
        received
    }
}
