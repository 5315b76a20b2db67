//! The mocks' errors have the form of the services' own; see `fixtures/vendor-errors`.

use anyhow::{Context, Result};
use checkpoint_testkit::mock::{OssMock, OssSettings, TcLakeMock, TcLakeSettings};
use serde_json::Value;

use crate::client::{BUCKET, Client, Said, cos};

fn fixture(name: &str) -> Result<String> {
    let path = format!("{}/../../fixtures/vendor-errors/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).context(path)
}

/// The names of a document's elements, in order.
fn elements(document: &str) -> Vec<&str> {
    let starts = document.split('<').skip(1).filter(|piece| !piece.starts_with(['/', '?']));
    starts.filter_map(|piece| piece.split('>').next()).collect()
}

/// Checks an answer against the service's own.
fn same(name: &str, status: u16, said: &Said) -> Result<()> {
    let real = Said { status, head: String::new(), body: fixture(name)? };
    assert_eq!(elements(&said.body), elements(&real.body), "{name}");
    assert_eq!(said.short(), real.short(), "{name}");
    for element in ["Message", "EC"] {
        assert_eq!(said.element(element), real.element(element), "{name}");
    }
    Ok(())
}

#[test]
fn those_of_cos() -> Result<()> {
    let (_mock, client) = cos()?;
    same("cos/no-such-key.xml", 404, &client.ask("GET", "/k", &[], b"")?)?;
    same("cos/missing-content-md5.xml", 400, &client.ask("POST", "/?delete=", &[], b"<Delete></Delete>")?)?;
    let authorization = format!(
        "q-sign-algorithm=sha1&q-ak={}&q-sign-time=0;9999999999&q-key-time=0;9999999999&q-header-list=host&\
         q-url-param-list=&q-signature=0",
        client.id
    );
    let said = client.send("PUT", "/k", &[("authorization", &authorization)], b"x")?;
    same("cos/signature-does-not-match.xml", 403, &said)?;
    let by_path = Client { host: "cos.ap-guangzhou.myqcloud.com".to_owned(), ..client };
    same("cos/path-style-domain-forbidden.xml", 403, &by_path.ask("PUT", &format!("/{BUCKET}/k"), &[], b"x")?)
}

#[test]
fn those_of_oss() -> Result<()> {
    let mock = OssMock::start(OssSettings::default())?;
    let host = format!("{BUCKET}.oss-cn-hangzhou.aliyuncs.com");
    let client = Client { host, ..Client::new(&mock.address(), "", "") };
    let ask = |region: &str| {
        let authorization =
            format!("OSS4-HMAC-SHA256 Credential=ak/20260101/{region}/oss/aliyun_v4_request,Signature=0");
        let headers = [
            ("authorization", authorization.as_str()),
            ("x-oss-date", "20260101T000000Z"),
            ("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
        ];
        client.send("PUT", "/k", &headers, b"x")
    };
    same("oss/invalid-access-key-id.xml", 403, &ask("cn-hangzhou")?)?;
    same("oss/wrong-signing-region.xml", 400, &ask("cn-beijing")?)?;
    let by_path = Client { host: "oss-cn-hangzhou.aliyuncs.com".to_owned(), ..client.clone() };
    same("oss/second-level-domain-forbidden.xml", 403, &by_path.send("PUT", "/bkt/k", &[], b"x")?)?;
    // HEAD has no body, and tells in headers.
    let said = client.send("HEAD", "/k", &[], b"")?;
    assert!(said.status == 403 && said.head.contains("x-oss-ec: 0003-00000001"), "{}", said.head);
    assert!(said.head.contains("x-oss-err: "), "{}", said.head);
    Ok(())
}

#[test]
fn those_of_the_catalog() -> Result<()> {
    let settings = TcLakeSettings::default();
    let mock = TcLakeMock::start(settings.clone())?;
    let host = "tccatalog.ap-guangzhou.tencentcloudapi.com".to_owned();
    let client = Client { host, ..Client::new(&mock.address(), "", "") };
    let now = jiff::Timestamp::now();
    let authorization = format!(
        "TC3-HMAC-SHA256 Credential={}/{}/tccatalog/tc3_request, SignedHeaders=content-type;host, Signature=0",
        settings.secret_id,
        now.strftime("%Y-%m-%d")
    );
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("x-tc-action", "DescribeCatalog"),
        ("x-tc-version", "2024-10-24"),
        ("x-tc-region", "ap-guangzhou"),
        ("x-tc-timestamp", &now.as_second().to_string()),
    ];
    let said = client.send("POST", "/", &headers, b"{}")?;
    let (said_to, real): (Value, Value) =
        (serde_json::from_str(&said.body)?, serde_json::from_str(&fixture("tccatalog/signature-failure.json")?)?);
    assert_eq!((said.status, &said_to["Response"]["Error"]), (200, &real["Response"]["Error"]));
    let names = |value: &Value| value["Response"].as_object().map(|o| o.keys().cloned().collect::<Vec<_>>());
    assert_eq!(names(&said_to), names(&real));
    Ok(())
}
