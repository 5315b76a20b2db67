//! TCLake volumes on the strict mock of its catalog and of COS: refusals, credentials that end, and what
//! the volume's credentials are asked for.

use anyhow::{Result, ensure};
use checkpoint_fs::{
    DeleteOptions, Environment, Error, ErrorKind, ObjectPath, ReadOptions, Registry, Retry, StorageExt, StorageOptions,
    StorageRef, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_testkit::mock::{Received, TcLakeMock, TcLakeSettings};

const VOLUME: &str = "tclake://volume/cat/db/vol";

/// A mock with a volume on a bucket.
struct Lake {
    mock: TcLakeMock,
    bucket: String,
}

impl Lake {
    fn start() -> Result<Self> {
        Self::of(TcLakeSettings::default())
    }

    fn of(settings: TcLakeSettings) -> Result<Self> {
        let mock = TcLakeMock::start(settings)?;
        let bucket = mock.new_bucket();
        mock.add_volume("cat", "db", "vol", &format!("cosn://{bucket}/lake/vol"));
        Ok(Self { mock, bucket })
    }

    /// Opens with the mock's variables, some of them changed.
    async fn open(&self, url: &str, changed: &[(&str, &str)]) -> Result<StorageRef, Error> {
        let variables = self.mock.variables();
        let pairs = variables.iter().map(|(name, value)| (*name, value.as_str()));
        let environment: Environment = pairs.chain(changed.iter().copied()).collect();
        Registry::with_environment(environment).open_dir(url, &StorageOptions::new()).await
    }

    async fn refused(&self, url: &str, changed: &[(&str, &str)]) -> Result<Error> {
        match self.open(url, changed).await {
            Ok(storage) => Err(anyhow::anyhow!("it opened: {storage:?}")),
            Err(error) => {
                ensure!(error.operation() == "open" || error.operation() == "get credentials", "{error:?}");
                ensure!(error.url().starts_with("tclake://"), "{error:?}");
                Ok(error)
            }
        }
    }

    /// What went to COS.
    fn of_cos(&self) -> Vec<Received> {
        self.mock.requests().into_iter().filter(|r| r.host.ends_with(".myqcloud.com")).collect()
    }
}

async fn put(storage: &StorageRef, path: &str) -> Result<WriteOutcome, Error> {
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    storage.write(&ObjectPath::parse(path)?, "abc".into(), create).await
}

async fn get(storage: &StorageRef, path: &str) -> Result<Vec<u8>, Error> {
    Ok(storage.read(&ObjectPath::parse(path)?, ReadOptions::new()).await?.bytes.to_vec())
}

#[tokio::test]
async fn what_holds_no_files_or_is_not_there_is_explained() -> Result<()> {
    let lake = Lake::start()?;
    lake.mock.add_schema("cat", "empty");
    for kind in ["LAKEHOUSE", "MODEL", "DLC", "TCC-HIVE"] {
        lake.mock.add_catalog(kind, kind);
    }
    for (url, kind, message) in [
        ("tclake://volume/LAKEHOUSE/db/vol", ErrorKind::InvalidConfig, "type=\"LAKEHOUSE\""),
        ("tclake://volume/MODEL/db/vol", ErrorKind::InvalidConfig, "type=\"MODEL\""),
        ("tclake://volume/DLC/db/vol", ErrorKind::InvalidConfig, "type=\"DLC\""),
        ("tclake://volume/TCC-HIVE/db/vol/x", ErrorKind::InvalidConfig, "type=\"TCC-HIVE\""),
        ("tclake://volume/nowhere/db/vol", ErrorKind::NotFound, "no such catalog: catalog=\"nowhere\""),
        ("tclake://volume/cat/nowhere/vol", ErrorKind::NotFound, "no such schema: catalog=\"cat\" schema=\"nowhere\""),
        ("tclake://volume/cat/empty/vol", ErrorKind::NotFound, "no such volume: catalog=\"cat\" schema=\"empty\""),
    ] {
        let error = lake.refused(url, &[]).await?;
        ensure!(error.kind() == kind && error.retry() == Retry::Never, "{url}: {error:?}");
        ensure!(error.to_string().contains(message), "{url}: {error}");
        ensure!(error.hint().is_some() && (kind != ErrorKind::NotFound || error.request_id().is_some()), "{error:?}");
    }
    ensure!(lake.of_cos().is_empty(), "COS was asked: {:?}", lake.of_cos());
    lake.mock.forget_requests();
    for url in ["tclake://lakehouse/cat/db/vol", "tclake://volume/cat/db", "tclake://volume/cat/db/vol/../other"] {
        let Err(error) = lake.open(url, &[]).await else { anyhow::bail!("it opened: {url}") };
        ensure!(error.kind() == ErrorKind::InvalidConfig, "{url}: {error:?}");
    }
    ensure!(lake.mock.requests().is_empty(), "asked although the URL is wrong");
    Ok(())
}

#[tokio::test]
async fn credentials_that_the_catalog_refuses() -> Result<()> {
    let lake = Lake::start()?;
    for (changed, code, hint) in [
        (("TENCENTCLOUD_SECRET_KEY", "wrong"), "AuthFailure.SignatureFailure", "secret key"),
        (("TENCENTCLOUD_SECRET_ID", "AKIDwrong"), "AuthFailure.SecretIdNotFound", "secret ID"),
        (("TENCENTCLOUD_TOKEN", "unasked"), "AuthFailure.TokenFailure", "token"),
        (("TENCENTCLOUD_REGION", "ap-beijing"), "UnsupportedRegion", "region"),
    ] {
        let error = lake.refused(VOLUME, &[changed]).await?;
        ensure!(error.service_code() == Some(code) && error.request_id().is_some(), "{error:?}");
        ensure!(error.hint().is_some_and(|h| h.contains(hint)), "{error:?}");
        ensure!(error.retry() == Retry::Never, "{error:?}");
    }
    lake.mock.set_clock_ahead(3600);
    let error = lake.refused(VOLUME, &[]).await?;
    ensure!(error.kind() == ErrorKind::Unauthenticated, "{error:?}");
    ensure!(error.service_code() == Some("AuthFailure.SignatureExpire"), "{error:?}");
    ensure!(error.hint().is_some_and(|h| h.contains("clock")), "{error:?}");

    let mut temporary = TcLakeSettings::default();
    temporary.token = Some("t0ken/of=the+caller".to_owned());
    let lake = Lake::of(temporary)?;
    lake.open(VOLUME, &[]).await?;
    let error = lake.refused(VOLUME, &[("TENCENTCLOUD_TOKEN", "")]).await?;
    ensure!(error.service_code() == Some("AuthFailure.TokenFailure"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_busy_catalog_is_asked_again() -> Result<()> {
    let lake = Lake::start()?;
    lake.mock.fail_catalog_next("RequestLimitExceeded", 2);
    let storage = lake.open(VOLUME, &[]).await?;
    ensure!(matches!(put(&storage, "a").await?, WriteOutcome::Done(_)));
    lake.mock.fail_catalog_next("UnauthorizedOperation.UserNotAllowOperation", 1);
    let error = lake.refused(VOLUME, &[]).await?;
    ensure!(error.kind() == ErrorKind::PermissionDenied, "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_volume_is_all_that_its_credentials_are_used_for() -> Result<()> {
    let lake = Lake::start()?;
    let storage = lake.open(&format!("{VOLUME}/job"), &[]).await?;
    ensure!(storage.capabilities().write_if_absent && storage.capabilities().versioning.is_none());
    ensure!(matches!(put(&storage, "a/k 1").await?, WriteOutcome::Done(_)));
    ensure!(matches!(put(&storage, "a/k 1").await?, WriteOutcome::AlreadyExists));
    ensure!(get(&storage, "a/k 1").await? == b"abc");
    let found = storage.list_files(&ObjectPath::root(), true).await?;
    ensure!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>() == ["a/k 1"], "{found:?}");
    ensure!(lake.mock.names(&lake.bucket).0 == ["lake/vol/job/a/k 1"]);
    let failed = storage.delete_many(vec![ObjectPath::parse("a/k 1")?], DeleteOptions::new()).await?;
    ensure!(failed.is_empty() && lake.mock.names(&lake.bucket).0.is_empty(), "{failed:?}");
    let error = get(&storage, "a/k 1").await.expect_err("it is deleted");
    ensure!(error.url() == format!("{VOLUME}/job/a/k 1"), "{error:?}");

    for request in lake.of_cos() {
        ensure!(request.header("x-amz-security-token").is_some(), "{request:?}");
        // The one question about the bucket may be refused, and is.
        let asks_about_bucket = request.method == "GET" && request.query == "versioning=";
        ensure!(asks_about_bucket == (request.code == "AccessDenied"), "{request:?}");
        let of_objects = request.path.starts_with("/lake/vol/job/");
        let of_prefix = request.query.contains("prefix=lake%2Fvol%2Fjob%2F") || request.query.contains("delete");
        ensure!(asks_about_bucket || of_objects || of_prefix, "{request:?}");
    }
    ensure!(lake.mock.credentials_given() == 1);
    Ok(())
}

#[tokio::test]
async fn credentials_that_end_are_replaced_once_for_all_callers() -> Result<()> {
    let lake = Lake::start()?;
    let storage = lake.open(VOLUME, &[]).await?;
    ensure!(matches!(put(&storage, "k").await?, WriteOutcome::Done(_)));
    for round in 1..=3 {
        ensure!(lake.mock.credentials_given() == round);
        lake.mock.expire_temporary_keys();
        let reads = futures::future::join_all((0..16).map(|_| get(&storage, "k"))).await;
        for bytes in reads {
            ensure!(bytes? == b"abc");
        }
    }
    ensure!(lake.mock.credentials_given() == 4, "given {} times", lake.mock.credentials_given());

    // A catalog that is away does not matter as long as the credentials live, and is named when they do not.
    lake.mock.fail_catalog_next("InternalError", 100);
    ensure!(get(&storage, "k").await? == b"abc");
    lake.mock.expire_temporary_keys();
    let error = get(&storage, "k").await.expect_err("nobody gives new ones");
    ensure!(error.kind() == ErrorKind::Unauthenticated && error.service_code() == Some("ExpiredToken"), "{error:?}");
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    ensure!(cause.contains("InternalError"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn a_bucket_elsewhere_is_named_with_the_option_to_set() -> Result<()> {
    let lake = Lake::start()?;
    lake.mock.add_volume("cat", "db", "lost", "cosn://nobody-1250000000/lake/lost");
    let error = lake.refused("tclake://volume/cat/db/lost", &[]).await?;
    ensure!(error.kind() == ErrorKind::NotFound, "{error:?}");
    let hint = error.hint().unwrap_or_default();
    ensure!(hint.contains("cosn://nobody-1250000000/lake/lost") && hint.contains("cos_endpoint"), "{error:?}");
    for location in ["s3://bucket/x", "cosn://bkt-1/a/../b", "cosn://", "nonsense"] {
        lake.mock.add_volume("cat", "db", "odd", location);
        let error = lake.refused("tclake://volume/cat/db/odd", &[]).await?;
        ensure!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{location}: {error:?}");
    }
    Ok(())
}

/// A volume is a root: it is in no directory, and everything that takes a directory takes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_volume_itself_is_a_root() -> Result<()> {
    let lake = Lake::start()?;
    let storage = lake.open(VOLUME, &[]).await?;
    put(&storage, "input/a.jsonl").await?.into_result(VOLUME)?;
    let registry = Registry::with_environment(lake.mock.environment());
    let (root, name) = registry.open(VOLUME, &StorageOptions::new()).await?;
    ensure!(name.is_root() && root.list_files(&name, true).await?.len() == 1);
    let (parent, name) = registry.open(&format!("{VOLUME}/input"), &StorageOptions::new()).await?;
    ensure!((parent.url(), name.as_str()) == (VOLUME, "input"));
    for (args, exit) in [
        (&["fs", "ls", VOLUME][..], checkpoint_cli::Exit::Done),
        (&["fs", "stat", VOLUME], checkpoint_cli::Exit::Usage),
        (&["fs", "rm", "-r", VOLUME], checkpoint_cli::Exit::Usage),
        (&["fs", "doctor", VOLUME], checkpoint_cli::Exit::Done),
    ] {
        let args = ["ckpt", "-q"].iter().chain(args).map(|arg| (*arg).into());
        let ended = Box::pin(checkpoint_cli::run(args, registry.clone())).await;
        ensure!(ended == exit, "{ended:?} is not {exit:?}");
    }
    ensure!(storage.list_files(&ObjectPath::root(), true).await?.len() == 1, "nothing else is left");
    Ok(())
}
