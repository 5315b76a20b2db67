//! TCLake's catalog, and what its credentials are good for.

use anyhow::{Context, Result};
use checkpoint_testkit::mock::{TcLakeMock, TcLakeSettings};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::client::{BUCKET, Client, Said};

const HOST: &str = "tccatalog.ap-guangzhou.tencentcloudapi.com";

fn lake() -> Result<TcLakeMock> {
    let mock = TcLakeMock::start(TcLakeSettings::default())?;
    mock.create_bucket(BUCKET);
    mock.add_volume("cat", "db", "raw", &format!("cosn://{BUCKET}/vol/raw"));
    Ok(mock)
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hmac(key: &[u8], text: &str) -> Result<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

/// Calls an action of the catalog, signed at a moment (in seconds), with some headers replaced.
fn call_at(mock: &TcLakeMock, now: i64, action: &str, body: &Value, changed: &[(&str, &str)]) -> Result<Value> {
    const TYPE: &str = "application/json; charset=utf-8";
    let settings = TcLakeSettings::default();
    let (body, day) = (body.to_string(), jiff::Timestamp::from_second(now)?.strftime("%Y-%m-%d").to_string());
    let canonical = format!(
        "POST\n/\n\ncontent-type:{TYPE}\nhost:{HOST}\n\ncontent-type;host\n{}",
        hex(Sha256::digest(body.as_bytes()))
    );
    let scope = format!("{day}/tccatalog/tc3_request");
    let text = format!("TC3-HMAC-SHA256\n{now}\n{scope}\n{}", hex(Sha256::digest(canonical.as_bytes())));
    let key = hmac(format!("TC3{}", settings.secret_key).as_bytes(), &day)?;
    let key = hmac(&hmac(&key, "tccatalog")?, "tc3_request")?;
    let authorization = format!(
        "TC3-HMAC-SHA256 Credential={}/{scope}, SignedHeaders=content-type;host, Signature={}",
        settings.secret_id,
        hex(hmac(&key, &text)?)
    );
    let moment = now.to_string();
    let mut headers = vec![
        ("content-type", TYPE),
        ("authorization", authorization.as_str()),
        ("x-tc-action", action),
        ("x-tc-version", "2024-10-24"),
        ("x-tc-region", "ap-guangzhou"),
        ("x-tc-timestamp", moment.as_str()),
    ];
    headers.retain(|(name, _)| !changed.iter().any(|(other, _)| other == name));
    headers.extend(changed);
    let client = Client { host: HOST.to_owned(), ..Client::new(&mock.address(), "", "") };
    let said: Said = client.send("POST", "/", &headers, body.as_bytes())?;
    assert_eq!(said.status, 200, "errors come with status 200, too: {}", said.head);
    let answer: Value = serde_json::from_str(&said.body)?;
    let response = answer["Response"].clone();
    assert!(response["RequestId"].is_string(), "{answer}");
    Ok(response)
}

fn call(mock: &TcLakeMock, action: &str, body: &Value) -> Result<Value> {
    call_at(mock, jiff::Timestamp::now().as_second(), action, body, &[])
}

/// A client with new credentials of the volume.
fn vended(mock: &TcLakeMock) -> Result<Client> {
    let given = call(mock, "DescribeCredentials", &volume())?;
    let info = given["Credentials"][0]["CredentialInfo"].as_array().context("no credentials")?;
    let value = |key: &str| {
        let pair = info.iter().find(|pair| pair["Key"] == key);
        pair.and_then(|pair| pair["Value"].as_str()).map(str::to_owned).context("not given")
    };
    let client = Client::new(&mock.address(), &value("cos-access-key-id")?, &value("cos-secret-access-key")?);
    Ok(Client { token: Some(value("cos-security-token")?), ..client })
}

fn volume() -> Value {
    json!({ "CatalogName": "cat", "SchemaName": "db", "VolumeName": "raw" })
}

#[test]
fn calls_must_be_whole() -> Result<()> {
    let mock = lake()?;
    let now = jiff::Timestamp::now().as_second();
    let found = call(&mock, "DescribeVolume", &volume())?;
    assert_eq!(found["Volume"]["StorageLocation"], format!("cosn://{BUCKET}/vol/raw"));
    let code = |now: i64, changed: &[(&str, &str)]| {
        call_at(&mock, now, "DescribeVolume", &volume(), changed).map(|r| r["Error"]["Code"].clone())
    };
    assert_eq!(code(now, &[("x-tc-version", "2020-01-01")])?, "NoSuchVersion");
    assert_eq!(code(now, &[("x-tc-region", "ap-nowhere")])?, "UnsupportedRegion");
    assert_eq!(code(now, &[("x-tc-token", "t")])?, "AuthFailure.TokenFailure");
    assert_eq!(code(now, &[("content-type", "text/plain")])?, "AuthFailure.SignatureFailure");
    assert_eq!(code(now - 3600, &[])?, "AuthFailure.SignatureExpire");
    assert_eq!(call(&mock, "DescribeNothing", &volume())?["Error"]["Code"], "InvalidAction");
    mock.fail_catalog_next("RequestLimitExceeded", 1);
    assert_eq!(code(now, &[])?, "RequestLimitExceeded");
    assert_eq!(code(now, &[])?, Value::Null);
    Ok(())
}

#[test]
fn credentials_are_good_for_their_volume_alone() -> Result<()> {
    let mock = lake()?;
    let client = vended(&mock)?;
    let denied = (403, "AccessDenied");
    assert_eq!(client.ask("PUT", "/vol/raw/k", &[], b"x")?.short(), (200, ""));
    assert_eq!(client.ask("PUT", "/vol/other", &[], b"x")?.short(), denied);
    assert_eq!(client.ask("GET", "/vol/rawer/k", &[], b"")?.short(), denied);
    let source = format!("/{BUCKET}/vol/other");
    assert_eq!(client.ask("PUT", "/vol/raw/c", &[("x-amz-copy-source", &source)], b"")?.short(), denied);
    assert_eq!(client.ask("HEAD", "/", &[], b"")?.status, 403);
    assert_eq!(client.ask("GET", "/?versioning=", &[], b"")?.short(), denied);
    assert_eq!(client.ask("GET", "/?list-type=2", &[], b"")?.short(), denied);
    assert_eq!(client.ask("GET", "/?list-type=2&prefix=vol%2F", &[], b"")?.short(), denied);
    let listed = client.ask("GET", "/?list-type=2&prefix=vol%2Fraw%2F", &[], b"")?;
    assert_eq!((listed.status, listed.element("Key")), (200, Some("vol/raw/k")));
    let deleted = client.delete(&["vol/raw/k", "vol/other"])?;
    assert_eq!((deleted.short(), deleted.element("Key")), ((200, "AccessDenied"), Some("vol/other")));
    assert!(mock.names(BUCKET).0.is_empty());
    Ok(())
}

#[test]
fn credentials_end() -> Result<()> {
    let mock = lake()?;
    mock.set_credentials_life(60);
    let old = vended(&mock)?;
    mock.expire_temporary_keys();
    assert_eq!(old.ask("PUT", "/vol/raw/k", &[], b"x")?.short(), (400, "ExpiredToken"));
    let new = vended(&mock)?;
    assert_eq!(new.ask("PUT", "/vol/raw/k", &[], b"x")?.short(), (200, ""));
    assert_eq!(mock.credentials_given(), 2);
    Ok(())
}
