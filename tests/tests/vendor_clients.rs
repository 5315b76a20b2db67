//! The mocks accept the vendors' own clients, and refuse them with a wrong secret.

use checkpoint_testkit::mock::{CosMock, CosSettings, OssMock, OssSettings};
use checkpoint_tests::VendorClient;

/// A mock with a bucket, and the variables for a client of it.
fn cos() -> anyhow::Result<(CosMock, Vec<(&'static str, String)>)> {
    let mock = CosMock::start(CosSettings::default())?;
    let mut variables = mock.variables();
    variables.push(("TEST_BUCKET", mock.new_bucket()));
    Ok((mock, variables))
}

#[test]
fn cos_accepts_its_own_client() -> anyhow::Result<()> {
    let (mock, variables) = cos()?;
    VendorClient::script("cos.py", &variables)?.run(&["all"])?;
    let requests = mock.requests();
    assert!(requests.iter().all(|r| r.header("authorization").is_some_and(|a| a.starts_with("q-sign-algorithm"))));
    Ok(())
}

#[test]
fn cos_refuses_its_own_client_with_a_wrong_secret() -> anyhow::Result<()> {
    let (mock, variables) = cos()?;
    VendorClient::script("cos.py", &variables)?.run(&["wrong-secret"])?;
    assert!(mock.requests().iter().all(|r| r.status == 403));
    Ok(())
}

#[test]
fn cos_accepts_an_s3_client_that_is_set_up_for_it() -> anyhow::Result<()> {
    let (_mock, variables) = cos()?;
    VendorClient::script("cos_as_s3.py", &variables)?.run(&["all"]).map(drop)
}

#[test]
fn cos_refuses_an_s3_client_with_a_wrong_secret() -> anyhow::Result<()> {
    let (_mock, variables) = cos()?;
    VendorClient::script("cos_as_s3.py", &variables)?.run(&["wrong-secret"]).map(drop)
}

fn oss() -> anyhow::Result<(OssMock, Vec<(&'static str, String)>)> {
    let mock = OssMock::start(OssSettings::default())?;
    let mut variables = mock.variables();
    variables.push(("TEST_BUCKET", mock.new_bucket()));
    Ok((mock, variables))
}

#[test]
fn oss_accepts_its_own_client() -> anyhow::Result<()> {
    let (_mock, variables) = oss()?;
    VendorClient::script("oss.py", &variables)?.run(&["all"]).map(drop)
}

#[test]
fn oss_refuses_its_own_client_with_a_wrong_secret() -> anyhow::Result<()> {
    let (mock, variables) = oss()?;
    VendorClient::script("oss.py", &variables)?.run(&["wrong-secret"])?;
    assert!(mock.requests().iter().all(|r| r.status == 403));
    Ok(())
}
