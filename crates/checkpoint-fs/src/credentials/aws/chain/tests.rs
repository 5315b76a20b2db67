use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, UNIX_EPOCH};

use sha1::{Digest, Sha1};
use tempfile::TempDir;

use super::super::scripted::{Route, Server, context, home};
use super::*;
use crate::credentials::service::trials::{Seen, Trial};

const KEYS: &str = "aws_access_key_id = AKSRC\naws_secret_access_key = SKSRC\n";
const LATER: &str = "2099-01-01T00:00:00Z";

fn chain(home: &TempDir, variables: &[(&str, &str)]) -> Result<AwsChain> {
    let at = home.path().to_str().expect("UTF-8");
    AwsChain::new(context([("HOME", at)].iter().chain(variables).copied().collect()))
}

fn sts_answer(key: &str) -> String {
    format!(
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
         <AccessKeyId>{key}</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T</SessionToken>\
         <Expiration>{LATER}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    )
}

fn sts_error(code: &str) -> String {
    format!(
        "<ErrorResponse><Error><Code>{code}</Code><Message>why\nnot</Message></Error>\
         <RequestId>id-1</RequestId></ErrorResponse>"
    )
}

/// A role with keys in another profile.
fn role_home() -> TempDir {
    let config = format!("[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = s\n[profile s]\n{KEYS}");
    home(&[(".aws/config", &config)])
}

async fn role(routes: Vec<Route>) -> (Result<Option<Credentials>>, Server) {
    let (home, server) = (role_home(), Server::start(routes).await);
    let loaded = chain(&home, &[("AWS_ENDPOINT_URL_STS", &server.url)]).expect("valid").load().await;
    (loaded, server)
}

#[tokio::test]
async fn a_role_with_the_time_it_ends() {
    let (loaded, server) = role(vec![Route::new("POST", 200, &sts_answer("ASIA"))]).await;
    let found = loaded.expect("valid").expect("found");
    assert_eq!((found.access_key_id(), found.source()), ("ASIA", Some("assume role")));
    assert_eq!(found.expires_at(), Some(UNIX_EPOCH + Duration::from_secs(4_070_908_800)));
    assert!(server.seen()[0].body.contains("RoleSessionName=checkpoint-session-1800000000"), "{:?}", server.seen());
}

#[tokio::test]
async fn failures_in_passing_are_repeated() {
    for (status, code) in [(503, "ServiceUnavailable"), (400, "Throttling"), (400, "IDPCommunicationError"), (429, "")]
    {
        let first = Route::new("POST", status, &sts_error(code)).once();
        let (loaded, server) = role(vec![first, Route::new("POST", 200, &sts_answer("ASIA"))]).await;
        assert_eq!(loaded.expect(code).expect(code).access_key_id(), "ASIA");
        assert_eq!(server.seen().len(), 2, "{code}");
    }
}

#[tokio::test]
async fn refusals_are_told_with_their_code() {
    for (status, code, kind) in [
        (403, "AccessDenied", ErrorKind::PermissionDenied),
        (403, "InvalidClientTokenId", ErrorKind::Unauthenticated),
        (403, "SignatureDoesNotMatch", ErrorKind::Unauthenticated),
        (400, "ExpiredTokenException", ErrorKind::Unauthenticated),
        (400, "ValidationError", ErrorKind::InvalidConfig),
        // Never what a storage says of an object.
        (404, "NoSuchEntity", ErrorKind::Unauthenticated),
        (409, "Conflict", ErrorKind::Unauthenticated),
    ] {
        let (loaded, server) = role(vec![Route::new("POST", status, &sts_error(code))]).await;
        let error = loaded.expect_err(code);
        assert_eq!((error.kind(), error.service_code(), error.request_id()), (kind, Some(code), Some("id-1")));
        assert_eq!((error.operation(), server.seen().len()), ("assume role", 1), "{error}");
        assert!(error.to_string().contains("why not"), "{error}");
    }
}

#[tokio::test]
async fn answers_that_are_none_are_not_taken() {
    let whole = sts_answer("ASIA");
    for body in ["", "<html>", &whole[..whole.len() / 2], &whole.replace("ASIA", ""), "<a/>", &sts_error("X")] {
        let (loaded, _server) = role(vec![Route::new("POST", 200, body)]).await;
        assert_eq!(loaded.expect_err(body).kind(), ErrorKind::Corrupt, "{body}");
    }
}

#[tokio::test]
async fn a_source_that_has_expired_asks_nobody() {
    let config = "[default]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = EcsContainer\n";
    let old = r#"{"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2020-01-01T00:00:00Z"}"#;
    let server = Server::start(vec![Route::new("GET", 200, old)]).await;
    let variables =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url.as_str()), ("AWS_ENDPOINT_URL_STS", &server.url)];
    let error = chain(&home(&[(".aws/config", config)]), &variables).expect("valid").load().await;
    assert_eq!(error.expect_err("expired").kind(), ErrorKind::Unauthenticated);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn keys_that_were_replaced_in_a_file_are_found() {
    let home = home(&[(".aws/credentials", &format!("[default]\n{KEYS}"))]);
    let chain = chain(&home, &[]).expect("valid");
    let load = async || chain.load().await.map(|found| found.map(|c| c.access_key_id().to_owned()));
    assert_eq!(load().await.expect("valid").as_deref(), Some("AKSRC"));
    let replaced = "[default]\naws_access_key_id = AKNEW\naws_secret_access_key = SKNEW\n";
    std::fs::write(home.path().join(".aws/credentials"), replaced).expect("writable");
    assert_eq!(load().await.expect("valid").as_deref(), Some("AKNEW"));
    std::fs::write(home.path().join(".aws/credentials"), "[a]\n[a]\n").expect("writable");
    assert_eq!(load().await.expect_err("broken").kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_renewed_token_is_kept_for_the_next_time() {
    const FILE: &str = ".aws/sso/cache/a0f1490a20d0211c997b44bc357e1972deab8ae3.json";
    let config = "[default]\nsso_session = s\nsso_account_id = 1\nsso_role_name = R\n\
                  [sso-session s]\nsso_start_url = https://start.example/\nsso_region = eu-west-1\n";
    let token = format!(
        r#"{{"accessToken":"OLD","expiresAt":"2027-01-15T08:01:00Z","refreshToken":"R1","clientId":"C",
            "clientSecret":"CS","registrationExpiresAt":"{LATER}","other":"kept"}}"#
    );
    let home = home(&[(".aws/config", config), (FILE, &token)]);
    let found = r#"{"roleCredentials":{"accessKeyId":"A","secretAccessKey":"S","sessionToken":"T","expiration":4070908800000}}"#;
    let server = Server::start(vec![
        Route::new("POST /token R1", 200, r#"{"accessToken":"NEW","expiresIn":3600,"refreshToken":"R2"}"#).once(),
        Route::new("GET /federation", 200, found),
    ])
    .await;
    let variables = [("AWS_ENDPOINT_URL_SSO", server.url.as_str()), ("AWS_ENDPOINT_URL_SSO_OIDC", &server.url)];
    let chain = chain(&home, &variables).expect("valid");
    for _ in 0..2 {
        assert_eq!(chain.load().await.expect("valid").expect("found").access_key_id(), "A");
    }
    let tokens: Vec<String> = server.seen()[1..].iter().map(|s| s.headers["x-amz-sso_bearer_token"].clone()).collect();
    assert_eq!(tokens, ["NEW", "NEW"], "renewed once");
    let path = home.path().join(FILE);
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("is there")).expect("JSON");
    for (name, value) in [
        ("accessToken", "NEW"),
        ("expiresAt", "2027-01-15T09:00:00Z"),
        ("refreshToken", "R2"),
        ("clientSecret", "CS"),
        ("registrationExpiresAt", LATER),
        ("startUrl", "https://start.example/"),
        ("region", "eu-west-1"),
        ("other", "kept"),
    ] {
        assert_eq!(kept[name], value, "{name}");
    }
    assert_eq!(std::fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o600);
    let beside = std::fs::read_dir(path.parent().expect("has one")).expect("is there").count();
    assert_eq!(beside, 1, "no draft is left");
}

#[tokio::test]
async fn proxies_are_for_services_and_not_for_this_machines_agents() {
    let proxy = Server::start(vec![Route::new("POST http://sts.example/ AssumeRole", 200, &sts_answer("ASIA"))]).await;
    let variables = [("http_proxy", proxy.url.as_str()), ("AWS_ENDPOINT_URL_STS", "http://sts.example/")];
    let found = chain(&role_home(), &variables).expect("valid").load().await.expect("through the proxy");
    assert_eq!(found.expect("found").access_key_id(), "ASIA");

    let agent = r#"{"AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2099-01-01T00:00:00Z"}"#;
    let server = Server::start(vec![Route::new("GET /agent", 200, agent)]).await;
    let url = format!("{}/agent", server.url);
    let variables = [("http_proxy", proxy.url.as_str()), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)];
    chain(&home(&[]), &variables).expect("valid").load().await.expect("directly").expect("found");
    assert_eq!((server.seen().len(), proxy.seen().len()), (1, 1));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Server::start(Vec::new()).await;
    let mut away = Route::new("GET", 302, "");
    away.headers.push(("location".to_owned(), other.url.clone()));
    let server = Server::start(vec![away]).await;
    let variables =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "T")];
    let error = chain(&home(&[]), &variables).expect("valid").load().await.expect_err("no credentials");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert_eq!((server.seen().len(), other.seen().len()), (3, 0));
}

#[tokio::test]
async fn a_metadata_service_that_does_not_answer_is_none() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    assert_eq!(chain(&home(&[]), &variables).expect("valid").load().await.expect("no error"), None);
}

#[test]
fn what_can_be_told_offline() {
    let described = |files: &[(&str, &str)], variables: &[(&str, &str)]| {
        let found = chain(&home(files), variables).expect("valid").describe().expect("valid");
        (found.source.unwrap_or_default(), found.access_key_id.unwrap_or_default(), found.has_session_token)
    };
    let off = [("AWS_EC2_METADATA_DISABLED", "true")];
    assert_eq!(described(&[], &off), (String::new(), String::new(), false));
    assert_eq!(described(&[], &[]), ("instance metadata".to_owned(), String::new(), true));
    let token = format!("[default]\n{KEYS}aws_session_token = T\n");
    let keys = ("shared credentials file".to_owned(), "AKSRC".to_owned(), true);
    assert_eq!(described(&[(".aws/credentials", &token)], &[]), keys);
    // Nothing is run to tell this.
    let process = "[default]\ncredential_process = /nowhere/program\n";
    let expected = ("credential process".to_owned(), String::new(), false);
    assert_eq!(described(&[(".aws/config", process)], &[]), expected);
}

#[test]
fn what_a_job_cannot_do_is_said_at_once() {
    let mfa = format!("[default]\nrole_arn = r\nsource_profile = s\nmfa_serial = m\n[profile s]\n{KEYS}");
    for (config, words) in [(mfa.as_str(), "a code of a device"), ("[default]\nlogin_session = l\n", "`aws login`")] {
        let error = chain(&home(&[(".aws/config", config)]), &[]).expect_err("unsupported");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(words) && error.hint().is_some(), "{error:?}");
    }
}

#[test]
fn a_profile_that_nobody_signed_in_to_says_so() {
    let config = "[default]\nsso_session = s\nsso_account_id = 1\nsso_role_name = R\n\
                  [sso-session s]\nsso_start_url = https://start.example/\nsso_region = eu-west-1\n";
    let described = |files: &[(&str, &str)]| {
        let home = home(files);
        chain(&home, &[]).expect("valid").describe().expect("described").source.expect("one")
    };
    let source = described(&[(".aws/config", config)]);
    assert!(source.starts_with("sso; no token") && source.contains("aws sso login"), "{source}");
    let file = ".aws/sso/cache/a0f1490a20d0211c997b44bc357e1972deab8ae3.json";
    assert_eq!(described(&[(".aws/config", config), (file, "{}")]), "sso");
}

#[tokio::test]
async fn what_the_services_may_do() {
    let keys = |_: &Seen| {
        let keys =
            r#"{"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T", "Expiration": "2030-01-01T00:00:00Z"}"#;
        (200, keys.to_owned())
    };
    let refusal = r#"{"code": "Denied", "message": "no role here; you sent hunter2-token"}"#;
    Trial { good: keys, refusal, words: "no role here", secret: "hunter2" }
        .run(|url| async move {
            let url = format!("{url}/v1/credentials");
            let variables = [
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "hunter2-token"),
            ];
            chain(&home(&[]), &variables).expect("valid").load().await
        })
        .await;

    let role = |_: &Seen| {
        let xml = "<R><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>S\
                   </SecretAccessKey><SessionToken>T</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration>\
                   </Credentials></AssumeRoleWithWebIdentityResult></R>";
        (200, xml.to_owned())
    };
    let refusal = "<ErrorResponse><Error><Code>Odd</Code><Message>whose is ey.hunter2.token?</Message></Error>\
                   </ErrorResponse>";
    Trial { good: role, refusal, words: "whose is", secret: "hunter2" }
        .run(|url| async move {
            let home = home(&[("token", "ey.hunter2.token")]);
            let file = home.path().join("token");
            let variables = [
                ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().expect("text")),
                ("AWS_ENDPOINT_URL_STS", url.as_str()),
            ];
            chain(&home, &variables).expect("valid").load().await
        })
        .await;

    let portal = |_: &Seen| {
        let keys = r#"{"roleCredentials":{"accessKeyId":"A","secretAccessKey":"S","sessionToken":"T","expiration":4070908800000}}"#;
        (200, keys.to_owned())
    };
    let refusal = r#"{"message": "Session token hunter2-token not found or invalid"}"#;
    Trial { good: portal, refusal, words: "not found or invalid", secret: "hunter2" }
        .run(|url| async move {
            let config = "[default]\nsso_start_url = https://start.example/\nsso_region = eu-west-1\n\
                          sso_account_id = 1\nsso_role_name = R\n";
            let digest: String = Sha1::digest(b"https://start.example/").iter().map(|b| format!("{b:02x}")).collect();
            let file = format!(".aws/sso/cache/{digest}.json");
            let token = r#"{"accessToken": "hunter2-token", "expiresAt": "2030-01-01T00:00:00Z"}"#;
            let home = home(&[(".aws/config", config), (&file, token)]);
            chain(&home, &[("AWS_ENDPOINT_URL_SSO", url.as_str())]).expect("valid").load().await
        })
        .await;
}
