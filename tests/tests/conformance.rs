//! The conformance suite on every backend that can run here.

#![expect(clippy::print_stdout, reason = "prints the matrix of cases")]

use std::path::Path;
use std::sync::Arc;

use checkpoint_fs::{Environment, GsConfig, GsStorage, Location, OpenContext, Registry, StorageOptions, StorageRef};
use checkpoint_testkit::conformance::{Settings, run_all};
use checkpoint_testkit::mock::{
    CosMock, CosSettings, GcsMock, GcsSettings, OssMock, OssSettings, TcLakeMock, TcLakeSettings, Versioning,
};
use checkpoint_testkit::server::{Azurite, FakeGcsServer, S3Server};
use checkpoint_testkit::{
    Counters, CountingStorage, EffectStorage, Effects, FaultPlan, FaultyStorage, Operation, wrap_all,
};

/// Runs the suite below a URL and shows its report.
async fn conforms(
    registry: &Registry,
    base: &str,
    options: &StorageOptions,
    settings: &Settings,
) -> anyhow::Result<()> {
    let report = run_all(settings, |dir| {
        let url = format!("{base}/{dir}");
        async move { registry.open_dir(&url, options).await }
    })
    .await;
    println!("{report}");
    report.into_result().map(|_| ())
}

fn registry() -> Registry {
    Registry::with_environment(Environment::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() -> anyhow::Result<()> {
    conforms(&registry(), "memory://conformance", &StorageOptions::new(), &Settings::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posix_conforms() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    conforms(&registry(), text(dir.path())?, &StorageOptions::new(), &Settings::default()).await?;
    let left = litter(dir.path())?;
    anyhow::ensure!(left.is_empty(), "temporary files are left: {left:?}");
    Ok(())
}

/// Without waiting for the disk, and by a root that is a link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn posix_without_fsync_below_a_link() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::create_dir(dir.path().join("real"))?;
    std::os::unix::fs::symlink("real", dir.path().join("link"))?;
    let options = StorageOptions::from_json(r#"{"file": {"fsync": false, "follow_symlinks": true}}"#)?;
    conforms(&registry(), text(&dir.path().join("link"))?, &options, &Settings::default()).await
}

/// On the server that the tests can find or start; it is named in the output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_conforms() -> anyhow::Result<()> {
    let server = tokio::task::spawn_blocking(S3Server::shared).await??;
    println!("S3 server: {}", server.describe());
    let bucket = tokio::task::spawn_blocking(|| server.access().new_bucket()).await??;
    let registry = Registry::with_environment(server.access().environment());
    conforms(&registry, &format!("s3://{bucket}/deep in/a+bucket"), &StorageOptions::new(), &Settings::default()).await
}

/// On a server that others wrote, without a check of tokens; it ignores the condition of a copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gs_conforms() -> anyhow::Result<()> {
    let server = tokio::task::spawn_blocking(FakeGcsServer::shared).await??;
    println!("fake-gcs-server at {}", server.endpoint());
    let bucket = server.new_bucket()?;
    let registry = Registry::with_environment(server.environment());
    conforms(&registry, &format!("gs://{bucket}/deep in/a+bucket"), &StorageOptions::new(), &Settings::default()).await
}

/// On a mock that refuses what the service refuses, under the service's own host names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cos_conforms() -> anyhow::Result<()> {
    let mock = CosMock::start(CosSettings::default())?;
    let registry = Registry::with_environment(mock.environment());
    let base = format!("cos://{}/deep in/a+bucket", mock.new_bucket());
    conforms(&registry, &base, &StorageOptions::new(), &Settings::default()).await
}

/// Where the bucket once had versions, what a conditional write needs is gone, and the capabilities say so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cos_with_versions_conforms() -> anyhow::Result<()> {
    let mock = CosMock::start(CosSettings::default())?;
    let bucket = mock.new_bucket();
    mock.set_versioning(&bucket, Versioning::Suspended);
    let registry = Registry::with_environment(mock.environment());
    let storage = registry.open_dir(&format!("cos://{bucket}"), &StorageOptions::new()).await?;
    anyhow::ensure!(!storage.capabilities().write_if_absent && storage.capabilities().versioning.is_some());
    conforms(&registry, &format!("cos://{bucket}"), &StorageOptions::new(), &Settings::default()).await
}

/// On a mock that is as strict as the service: tokens, checksums, and conditions of copies too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gs_on_the_strict_mock_conforms() -> anyhow::Result<()> {
    let settings = GcsSettings::default();
    let mut context = OpenContext::default();
    context.options = StorageOptions::from_value(serde_json::json!({"gs": {"token": settings.token}}))?;
    let mock = GcsMock::start(settings)?;
    context.environment = mock.environment();
    let bucket = mock.new_bucket();
    let config = GsConfig::resolve(&bucket, &context)?.with_google(true);
    let report = run_all(&Settings::default(), |dir| {
        let (config, url) = (config.clone(), format!("gs://{bucket}/deep in/a+bucket/{dir}"));
        async move { Ok(Arc::new(GsStorage::new(config, &Location::parse(&url)?)?) as StorageRef) }
    })
    .await;
    println!("{report}");
    report.into_result()?;
    let (keys, _) = mock.names(&bucket);
    anyhow::ensure!(keys.is_empty(), "left behind: {keys:?}");
    Ok(())
}

/// Through a volume, whose credentials are refused everywhere but below its prefix.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tclake_conforms() -> anyhow::Result<()> {
    let mock = TcLakeMock::start(TcLakeSettings::default())?;
    let bucket = mock.new_bucket();
    mock.add_volume("sales", "raw data", "in+out", &format!("cosn://{bucket}/lake/in+out #1/"));
    let registry = Registry::with_environment(mock.environment());
    let base = "tclake://volume/sales/raw data/in+out/deep in/a+volume";
    conforms(&registry, base, &StorageOptions::new(), &Settings::default()).await?;
    let outside = mock.requests().into_iter().find(|r| r.code == "AccessDenied" && r.query != "versioning=");
    anyhow::ensure!(outside.is_none(), "a request left the volume: {outside:?}");
    Ok(())
}

/// On Microsoft's own emulator, which checks signatures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn az_conforms() -> anyhow::Result<()> {
    let server = tokio::task::spawn_blocking(Azurite::shared).await??;
    let container = tokio::task::spawn_blocking(|| server.new_container()).await??;
    let registry = Registry::with_environment(server.environment());
    let base = format!("az://{container}/deep in/a+container");
    conforms(&registry, &base, &StorageOptions::new(), &Settings::default()).await
}

/// On a mock of OSS, in the same way as COS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oss_conforms() -> anyhow::Result<()> {
    let mock = OssMock::start(OssSettings::default())?;
    let registry = Registry::with_environment(mock.environment());
    let base = format!("oss://{}/deep in/a+bucket", mock.new_bucket());
    conforms(&registry, &base, &StorageOptions::new(), &Settings::default()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oss_with_versions_conforms() -> anyhow::Result<()> {
    let mock = OssMock::start(OssSettings::default())?;
    let bucket = mock.new_bucket();
    mock.set_versioning(&bucket, Versioning::Suspended);
    let registry = Registry::with_environment(mock.environment());
    let storage = registry.open_dir(&format!("oss://{bucket}"), &StorageOptions::new()).await?;
    anyhow::ensure!(!storage.capabilities().write_if_absent && storage.capabilities().versioning.is_some());
    conforms(&registry, &format!("oss://{bucket}"), &StorageOptions::new(), &Settings::default()).await
}

/// The wrappers change nothing as long as nothing is asked of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrapped() -> anyhow::Result<()> {
    let (counters, effects, plan) = (Counters::new(), Effects::new(|_| ()), FaultPlan::new());
    let registry = wrap_all(&registry(), {
        let (counters, effects, plan) = (counters.clone(), effects.clone(), plan.clone());
        move |storage| {
            let storage = Arc::new(FaultyStorage::new(storage, plan.clone()));
            let storage = Arc::new(EffectStorage::new(storage, effects.clone()));
            Arc::new(CountingStorage::new(storage, counters.clone()))
        }
    });
    conforms(&registry, "memory://wrapped", &StorageOptions::new(), &Settings::default()).await?;
    let counts = counters.snapshot();
    let unused: Vec<_> = Operation::ALL.into_iter().filter(|o| counts.calls(*o) == 0).collect();
    anyhow::ensure!(unused.is_empty(), "the suite never called {unused:?}");
    anyhow::ensure!(effects.count() > counts.calls(Operation::Write) && plan.struck().is_empty());
    Ok(())
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().ok_or_else(|| anyhow::anyhow!("the temporary directory is not UTF-8"))
}

/// Names that begin like temporary files, anywhere below.
fn litter(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(litter(&entry.path())?);
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".ckpt-tmp-") {
            found.push(name);
        }
    }
    Ok(found)
}
