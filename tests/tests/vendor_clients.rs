//! The mocks accept the vendors' own clients, and refuse them with a wrong secret.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use checkpoint_testkit::mock::{CosMock, CosSettings, OssMock, OssSettings, Received, TcLakeMock, TcLakeSettings};
use checkpoint_tests::VendorClient;

/// A mock with a bucket, and the variables for a client of it.
fn cos() -> Result<(CosMock, Vec<(&'static str, String)>)> {
    let mock = CosMock::start(CosSettings::default())?;
    let mut variables = mock.variables();
    variables.push(("TEST_BUCKET", mock.new_bucket()));
    Ok((mock, variables))
}

#[test]
fn cos_accepts_its_own_client() -> Result<()> {
    let (mock, variables) = cos()?;
    VendorClient::script("cos.py", &variables)?.run(&["all"])?;
    let requests = mock.requests();
    assert!(requests.iter().all(|r| r.header("authorization").is_some_and(|a| a.starts_with("q-sign-algorithm"))));
    Ok(())
}

#[test]
fn cos_refuses_its_own_client_with_a_wrong_secret() -> Result<()> {
    let (mock, variables) = cos()?;
    VendorClient::script("cos.py", &variables)?.run(&["wrong-secret"])?;
    assert!(mock.requests().iter().all(|r| r.status == 403));
    Ok(())
}

#[test]
fn cos_accepts_an_s3_client_that_is_set_up_for_it() -> Result<()> {
    let (_mock, variables) = cos()?;
    VendorClient::script("cos_as_s3.py", &variables)?.run(&["all"]).map(drop)
}

#[test]
fn cos_refuses_an_s3_client_with_a_wrong_secret() -> Result<()> {
    let (_mock, variables) = cos()?;
    VendorClient::script("cos_as_s3.py", &variables)?.run(&["wrong-secret"]).map(drop)
}

fn oss() -> Result<(OssMock, Vec<(&'static str, String)>)> {
    let mock = OssMock::start(OssSettings::default())?;
    let mut variables = mock.variables();
    variables.push(("TEST_BUCKET", mock.new_bucket()));
    Ok((mock, variables))
}

#[test]
fn oss_accepts_its_own_client() -> Result<()> {
    let (_mock, variables) = oss()?;
    VendorClient::script("oss.py", &variables)?.run(&["all"]).map(drop)
}

#[test]
fn oss_refuses_its_own_client_with_a_wrong_secret() -> Result<()> {
    let (mock, variables) = oss()?;
    VendorClient::script("oss.py", &variables)?.run(&["wrong-secret"])?;
    assert!(mock.requests().iter().all(|r| r.status == 403));
    Ok(())
}

const BUCKET: &str = "lake-1250000000";

/// A mock with a volume `cat.db.raw` at `vol/raw` of a bucket.
fn lake() -> Result<TcLakeMock> {
    let mock = TcLakeMock::start(TcLakeSettings::default())?;
    mock.create_bucket(BUCKET);
    mock.add_volume("cat", "db", "raw", &format!("cosn://{BUCKET}/vol/raw"));
    mock.add_catalog("lake", "LAKEHOUSE");
    Ok(mock)
}

/// TCLake's command line, at home in a directory.
fn tclake(mock: &TcLakeMock, home: &Path) -> Result<VendorClient> {
    // It wants a bare host for the catalog, and has the right one by itself.
    let variables: Vec<_> = mock.variables().into_iter().filter(|(name, _)| *name != "TENCENTCLOUD_ENDPOINT").collect();
    let plain = concat!(env!("CARGO_MANIFEST_DIR"), "/vendor_clients/plain_http");
    Ok(VendorClient::program("tclake", &variables)?
        .with("HOME", home)
        .with("PYTHONPATH", plain)
        .with("PYTHONDONTWRITEBYTECODE", "1"))
}

#[test]
fn tclake_accepts_its_own_client() -> Result<()> {
    let mock = lake()?;
    let home = tempfile::tempdir()?;
    let run = |arguments: &[&str]| tclake(&mock, home.path())?.run(arguments);
    let names = run(&["volume", "list", "cat.db"])?;
    ensure!(names.contains("raw"), "{names}");
    let catalog = run(&["volume", "describe", "lake", "-o", "json"])?;
    ensure!(catalog.contains("LAKEHOUSE"), "{catalog}");

    let (from, to) = (home.path().join("from"), home.path().join("to"));
    fs::create_dir_all(from.join("below"))?;
    let files = [("a b+c.txt", "one".repeat(1000)), ("below/数据.txt", "two".to_owned())];
    for (name, text) in &files {
        fs::write(from.join(name), text)?;
    }
    let (from, to) = (from.display().to_string(), to.display().to_string());
    let endpoint = mock.cos_endpoint();
    run(&["volume", "cp", &from, "cat.db.raw/in", "--cos-endpoint", &endpoint])?;
    let (keys, uploads) = mock.names(BUCKET);
    ensure!(keys == ["vol/raw/in/a b+c.txt", "vol/raw/in/below/数据.txt"] && uploads == 0, "{keys:?} {uploads}");
    let listed = run(&["volume", "list", "cat.db.raw", "-R", "--cos-endpoint", &endpoint])?;
    ensure!(listed.contains("in/below/数据.txt"), "{listed}");
    run(&["volume", "cp", "cat.db.raw/in", &to, "--cos-endpoint", &endpoint])?;
    for (name, text) in &files {
        ensure!(fs::read_to_string(Path::new(&to).join(name))? == *text, "{name} came back changed");
    }

    let to_cos = |r: &&Received| r.host.starts_with(BUCKET);
    ensure!(mock.requests().iter().filter(to_cos).all(|r| r.header("x-amz-security-token").is_some()));
    ensure!(mock.credentials_given() > 0);
    Ok(())
}

#[test]
fn tclake_refuses_its_own_client_with_a_wrong_secret() -> Result<()> {
    let mock = lake()?;
    let home = tempfile::tempdir()?;
    let refused = |client: VendorClient, arguments: &[&str], code: &str| -> Result<()> {
        let output = client.output(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && said.contains(code), "{}: {said}", output.status);
        Ok(())
    };
    let wrong = tclake(&mock, home.path())?.with("TENCENTCLOUD_SECRET_KEY", "a-wrong-secret");
    refused(wrong, &["volume", "list"], "AuthFailure.SignatureFailure")?;
    let absent = tclake(&mock, home.path())?;
    refused(absent, &["volume", "describe", "cat.db.absent"], "ResourceNotFound.VolumeNotFound")
}
