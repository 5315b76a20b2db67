//! A backend of the tests with a proxy in front of it that breaks what passes: the same for every backend.

use std::sync::Arc;

use anyhow::Result;
use checkpoint_fs::{Environment, GsConfig, GsStorage, Location, OpenContext, Registry, StorageOptions, StorageRef};
use checkpoint_testkit::mock::{
    Controls, CosMock, CosSettings, GcsMock, GcsSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings,
};
use checkpoint_testkit::proxy::FaultProxy;
use checkpoint_testkit::server::{Azurite, S3Server};
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// The variable of the access token that the mock of Google Cloud Storage takes.
const GS_TOKEN: &str = "FSSPEC_GS_TOKEN";

/// Who is stood up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The S3 server that the tests find or start.
    S3,
    /// The mock of COS.
    Cos,
    /// The mock of OSS.
    Oss,
    /// The mock of TCLake's catalog and of the COS below.
    Tclake,
    /// The strict mock of Google Cloud Storage.
    Gs,
    /// Azurite.
    Az,
}

/// Makes tests of each function `fn(Backend) -> Result<()>`: one for all backends that run without a server of
/// the machine's, at the same time, and one, `on_s3_server`, for the S3 server.
#[macro_export]
macro_rules! on_each_backend {
    // For those that a property is about, where it is not about all.
    ($property:ident: $($backend:ident),* $(,)?) => {
        mod $property {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_mocks_and_azurite() -> anyhow::Result<()> {
                let backends = [$($crate::Backend::$backend),*];
                $crate::each_of(&backends, |backend| Box::pin(super::$property(backend))).await
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_s3_server() -> anyhow::Result<()> {
                Box::pin(super::$property($crate::Backend::S3)).await
            }
        }
    };
    ($($property:ident),* $(,)?) => {$(
        $crate::on_each_backend!($property: Cos, Oss, Tclake, Gs, Az);
    )*};
}

/// Runs a test for all of these at once, and tells of every one that failed.
///
/// # Errors
/// What failed, and for whom.
pub async fn each_of(backends: &[Backend], test: impl Fn(Backend) -> BoxFuture<'static, Result<()>>) -> Result<()> {
    let runs = backends.iter().map(|backend| {
        let run = tokio::spawn(test(*backend));
        async move { (backend, run.await) }
    });
    let mut failures = Vec::new();
    for (backend, ended) in futures::future::join_all(runs).await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(format!("{backend:?}: {error:#}")),
            Err(panic) => failures.push(format!("{backend:?}: {panic}")),
        }
    }
    anyhow::ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// A backend with a new bucket, behind a proxy of its own.
#[derive(Debug)]
pub struct Stand {
    /// Who it is.
    pub backend: Backend,
    /// What stands in front of it.
    pub proxy: FaultProxy,
    bucket: String,
    url: String,
    variables: Vec<(&'static str, String)>,
    mock: Mock,
}

#[derive(Debug)]
enum Mock {
    Cos(CosMock),
    Oss(OssMock),
    Tclake(TcLakeMock),
    Gs(GcsMock),
    /// A real server, which every test shares.
    Shared,
}

impl Stand {
    /// Stands a backend up. Its root has a blank in its name.
    ///
    /// # Errors
    /// When a server is not installed, with what to do; when one does not start.
    pub async fn start(backend: Backend) -> Result<Self> {
        tokio::task::spawn_blocking(move || Self::begin(backend)).await?
    }

    fn begin(backend: Backend) -> Result<Self> {
        let below = |scheme: &str, bucket: &str| format!("{scheme}://{bucket}/a root");
        let (upstream, bucket, url, variables, mock) = match backend {
            Backend::S3 => {
                let server = S3Server::shared()?;
                let bucket = server.access().new_bucket()?;
                let url = below("s3", &bucket);
                (server.access().endpoint.clone(), bucket, url, server.access().variables(), Mock::Shared)
            }
            Backend::Cos => {
                let mock = CosMock::start(CosSettings::default())?;
                let bucket = mock.new_bucket();
                (mock.address(), bucket.clone(), below("cos", &bucket), mock.variables(), Mock::Cos(mock))
            }
            Backend::Oss => {
                let mock = OssMock::start(OssSettings::default())?;
                let bucket = mock.new_bucket();
                (mock.address(), bucket.clone(), below("oss", &bucket), mock.variables(), Mock::Oss(mock))
            }
            Backend::Tclake => {
                let mock = TcLakeMock::start(TcLakeSettings::default())?;
                let bucket = mock.new_bucket();
                mock.add_volume("cat", "db", "raw", &format!("cosn://{bucket}/volumes/raw"));
                let url = "tclake://volume/cat/db/raw/a root".to_owned();
                (mock.address(), bucket, url, mock.variables(), Mock::Tclake(mock))
            }
            Backend::Gs => {
                let settings = GcsSettings::default();
                let token = settings.token.clone();
                let mock = GcsMock::start(settings)?;
                let bucket = mock.new_bucket();
                let variables = vec![
                    ("STORAGE_EMULATOR_HOST", mock.endpoint()),
                    ("NO_GCE_CHECK", "true".to_owned()),
                    (GS_TOKEN, token),
                ];
                (mock.endpoint(), bucket.clone(), below("gs", &bucket), variables, Mock::Gs(mock))
            }
            Backend::Az => {
                let server = Azurite::shared()?;
                let container = server.new_container()?;
                let url = below("az", &container);
                (server.endpoint().to_owned(), container, url, server.variables(), Mock::Shared)
            }
        };
        Ok(Self { backend, proxy: FaultProxy::start(&upstream)?, bucket, url, variables, mock })
    }

    /// The URL of the root.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bucket, or container.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What a client needs in its environment to come through the proxy.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let others = self.variables.iter().filter(|(name, _)| *name != "http_proxy").cloned();
        others.chain([("http_proxy", self.proxy.address())]).collect()
    }

    /// What the mock lets a test change, where it is one of COS's family.
    pub fn controls(&self) -> Option<&Controls> {
        match &self.mock {
            Mock::Cos(mock) => Some(mock),
            Mock::Oss(mock) => Some(mock),
            Mock::Tclake(mock) => Some(mock),
            Mock::Gs(_) | Mock::Shared => None,
        }
    }

    /// The mock of Google Cloud Storage.
    pub fn gcs(&self) -> Option<&GcsMock> {
        match &self.mock {
            Mock::Gs(mock) => Some(mock),
            _ => None,
        }
    }

    /// Names of the uploads that nobody finished, where the backend can be asked for them.
    pub fn unfinished(&self) -> usize {
        match &self.mock {
            Mock::Gs(mock) => mock.names(&self.bucket).1,
            _ => self.controls().map_or(0, |controls| controls.names(&self.bucket).1),
        }
    }

    /// Opens its root, with time limits that fit tests.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn open(&self) -> checkpoint_fs::Result<StorageRef> {
        self.opening().open().await
    }

    /// A client that is about to open it.
    pub fn opening(&self) -> Opening {
        Opening {
            backend: self.backend,
            url: self.url.clone(),
            variables: self.variables(),
            options: json!({}),
            patience: 10.0,
        }
    }
}

/// How a client opens a backend.
#[derive(Debug, Clone)]
pub struct Opening {
    backend: Backend,
    url: String,
    variables: Vec<(&'static str, String)>,
    options: Value,
    patience: f64,
}

impl Opening {
    /// Changes or adds a variable.
    #[must_use]
    pub fn variable(mut self, name: &'static str, value: &str) -> Self {
        self.variables.retain(|(there, _)| *there != name);
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Opens another URL.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Adds an option of the backend.
    #[must_use]
    pub fn option(mut self, name: &str, value: Value) -> Self {
        self.options[name] = value;
        self
    }

    /// Gives each attempt so many seconds.
    #[must_use]
    pub fn patience(mut self, seconds: f64) -> Self {
        self.patience = seconds;
        self
    }

    /// Opens.
    ///
    /// # Errors
    /// What the backend says.
    pub async fn open(mut self) -> checkpoint_fs::Result<StorageRef> {
        let scheme = match self.backend {
            Backend::S3 => "s3",
            Backend::Cos => "cos",
            Backend::Oss => "oss",
            Backend::Tclake => "tclake",
            Backend::Gs => "gs",
            Backend::Az => "az",
        };
        match self.backend {
            Backend::Gs => {
                self.options["requests_timeout"] = json!(self.patience);
                let token = self.variables.iter().find(|(name, _)| *name == GS_TOKEN).map(|(_, token)| token.clone());
                self.options["token"] = json!(token);
            }
            Backend::Az => self.options["read_timeout"] = json!(self.patience),
            _ => self.options["config_kwargs"] = json!({"read_timeout": self.patience}),
        }
        let options = StorageOptions::from_value(json!({ scheme: self.options }))?;
        let environment: Environment = self.variables.iter().cloned().collect();
        if self.backend != Backend::Gs {
            return Registry::with_environment(environment).open_dir(&self.url, &options).await;
        }
        // As the service is spoken to, not an emulator that others wrote.
        let location = Location::parse(&self.url)?;
        let mut context = OpenContext::default();
        context.options = options;
        context.environment = environment;
        let config = GsConfig::resolve(location.authority(), &context)?.with_google(true);
        Ok(Arc::new(GsStorage::new(config, &location)?))
    }
}
