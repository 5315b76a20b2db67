//! Each way to a token of Entra ID, through requests that carry it.

use std::collections::BTreeMap;

use checkpoint_fs::{ErrorKind, StatOptions, Storage};

use crate::fake::{Fake, Received, Reply};
use crate::{error, path, storage};

/// A form, or a query, as it was sent.
fn fields(text: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| percent_decode(&text.replace('+', " "));
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (decode(k), decode(v))).collect()
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' && tail.len() >= 2 {
            let hex = std::str::from_utf8(&tail[..2]).expect("ASCII");
            bytes.push(u8::from_str_radix(hex, 16).expect("hexadecimal"));
            rest = &tail[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).expect("text")
}

fn is_blob(request: &Received) -> bool {
    request.target.starts_with("/acct/data/")
}

/// Gives `token-1`, `token-2` and so on, and takes the last one given alone, as a bearer.
async fn service(first_is_stale: bool) -> Fake {
    let mut given = 0;
    Fake::start(move |request, _| {
        if !is_blob(request) {
            given += 1;
            return Reply::ok(&format!("{{\"access_token\": \"token-{given}\", \"expires_in\": 3600}}"));
        }
        let expected = format!("Bearer token-{given}");
        match request.header("authorization") == expected && !(first_is_stale && given == 1) {
            true => Reply::ok("").with("Content-Length", "7").with("ETag", "\"1\""),
            false => error(401, "InvalidAuthenticationInfo"),
        }
    })
    .await
}

fn asked(fake: &Fake) -> Vec<Received> {
    fake.received().into_iter().filter(|request| !is_blob(request)).collect()
}

#[tokio::test]
async fn a_service_principal_proves_itself_by_its_secret_once_for_all_requests() {
    let fake = service(false).await;
    let options = serde_json::json!({"client_id": "app", "client_secret": "hunter2&=", "tenant_id": "contoso.com"});
    let storage = storage(&fake, options, &[("AZURE_AUTHORITY_HOST", fake.url.as_str())]);
    for _ in 0..3 {
        assert_eq!(storage.stat(&path("x"), StatOptions::new()).await.expect("there").size, 7);
    }
    let asked = asked(&fake);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/contoso.com/oauth2/v2.0/token"));
    let form = fields(std::str::from_utf8(&asked[0].body).expect("text"));
    assert_eq!((form["client_id"].as_str(), form["client_secret"].as_str()), ("app", "hunter2&="));
    assert_eq!(form["scope"], "https://storage.azure.com/.default");
    assert_eq!(form["grant_type"], "client_credentials");
}

#[tokio::test]
async fn a_refused_token_is_replaced_by_a_new_one() {
    let fake = service(true).await;
    let variables = [
        ("AZURE_AUTHORITY_HOST", fake.url.as_str()),
        ("AZURE_TENANT_ID", "contoso.com"),
        ("AZURE_CLIENT_ID", "app"),
        ("AZURE_CLIENT_SECRET", "hunter2"),
    ];
    let storage = storage(&fake, serde_json::json!({}), &variables);
    storage.stat(&path("x"), StatOptions::new()).await.expect("there");
    assert_eq!(asked(&fake).len(), 2);
}

#[tokio::test]
async fn a_federated_token_is_read_afresh() {
    let fake = service(true).await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    std::fs::write(&file, "assertion-1\n").expect("writes");
    let variables = [
        ("AZURE_AUTHORITY_HOST", fake.url.as_str()),
        ("AZURE_TENANT_ID", "contoso.com"),
        ("AZURE_CLIENT_ID", "app"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().expect("text")),
    ];
    let storage = storage(&fake, serde_json::json!({}), &variables);
    storage.stat(&path("x"), StatOptions::new()).await.expect("there");
    let form = fields(std::str::from_utf8(&asked(&fake)[0].body).expect("text"));
    assert_eq!(form["client_assertion"], "assertion-1");
    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    assert!(!form.contains_key("client_secret"));
}

#[tokio::test]
async fn a_machine_gives_the_token_of_its_identity() {
    let fake = service(false).await;
    for (variables, header, value, version) in [
        (
            vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", fake.url.clone()), ("AZURE_CLIENT_ID", "mine".to_owned())],
            "metadata",
            "true",
            "2018-02-01",
        ),
        (
            vec![
                ("IDENTITY_ENDPOINT", format!("{}/msi/token", fake.url)),
                ("IDENTITY_HEADER", "hunter2".to_owned()),
                ("AZURE_CLIENT_ID", "mine".to_owned()),
            ],
            "x-identity-header",
            "hunter2",
            "2019-08-01",
        ),
    ] {
        let before = asked(&fake).len();
        let variables: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let storage = storage(&fake, serde_json::json!({}), &variables);
        storage.stat(&path("x"), StatOptions::new()).await.expect("there");
        let asked = asked(&fake);
        assert_eq!(asked.len(), before + 1);
        let request = &asked[before];
        assert_eq!((request.method.as_str(), request.header(header)), ("GET", value));
        let query = fields(request.target.split_once('?').expect("has a query").1);
        assert_eq!(query["api-version"], version);
        assert_eq!((query["resource"].as_str(), query["client_id"].as_str()), ("https://storage.azure.com/", "mine"));
    }
}

#[tokio::test]
async fn a_wrong_secret_is_told_without_showing_it() {
    let answer = "{\"error\": \"invalid_client\", \"error_description\": \"AADSTS7000215: Invalid client secret.\"}";
    let fake = Fake::script(vec![Reply::status(401, answer)]).await;
    let options = serde_json::json!({"client_id": "app", "client_secret": "hunter2", "tenant_id": "contoso.com"});
    let storage = storage(&fake, options, &[("AZURE_AUTHORITY_HOST", fake.url.as_str())]);
    let error = storage.stat(&path("x"), StatOptions::new()).await.expect_err("refused");
    assert_eq!((error.kind(), error.service_code()), (ErrorKind::Unauthenticated, Some("invalid_client")));
    assert!(error.to_string().contains("AADSTS7000215") && error.hint().is_some(), "{error}");
    assert_eq!(fake.count(), 1, "asking again would be in vain");
    assert!(!format!("{error:?} {storage:?}").contains("hunter2"));
}
