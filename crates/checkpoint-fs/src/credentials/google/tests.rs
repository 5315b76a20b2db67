//! Each way to a token, against a scripted server.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair as RsaKey, KeySize};
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::ErrorKind;
use crate::credentials::CredentialCache;
use crate::credentials::service::trials::{Seen, Trial, quick};

const NOW: u64 = 1_800_000_000;

#[derive(Debug)]
struct Clock(Mutex<SystemTime>);

impl Clock {
    fn start() -> Arc<Self> {
        Arc::new(Self(Mutex::new(at(NOW))))
    }

    fn advance(&self, seconds: u64) {
        *self.0.lock().expect("not poisoned") += Duration::from_secs(seconds);
    }
}

impl WallClock for Clock {
    fn now(&self) -> SystemTime {
        *self.0.lock().expect("not poisoned")
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A request as it arrived.
#[derive(Debug, Clone)]
struct Received {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Received {
    /// A field of a form.
    fn field(&self, name: &str) -> String {
        let mut pairs = url::form_urlencoded::parse(self.body.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    }
}

/// A server that answers with these in turn, and remembers what arrived.
struct Script {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Script {
    async fn start(answers: &[(u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&received);
        let mut answers: VecDeque<(u16, Value)> = answers.iter().cloned().collect();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = Vec::new();
                let request = loop {
                    if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                        break None;
                    }
                    if let Some(request) = parse(&bytes) {
                        break Some(request);
                    }
                };
                let Some(request) = request else { continue };
                log.lock().expect("not poisoned").push(request);
                let (status, body) = answers.pop_front().unwrap_or((500, json!("no more answers")));
                let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                let answer =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
                // The client may be gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, received }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().expect("not poisoned").clone()
    }
}

/// A request that is whole.
fn parse(bytes: &[u8]) -> Option<Received> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (line, rest) = head.split_once("\r\n")?;
    let headers: BTreeMap<String, String> = rest
        .split("\r\n")
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap_or(0));
    (body.len() == length).then(|| Received { line: line.to_owned(), headers, body: body.to_owned() })
}

fn credentials(token: Option<Value>, variables: &[(&str, &str)], clock: &Arc<Clock>) -> Result<GoogleCredentials> {
    let token = token.and_then(|value| Token::read(&value).expect("a token"));
    let token = token.map(|token| (token, "options: token".to_owned()));
    let environment = variables.iter().copied().collect();
    let parts = GoogleParts { token, scope: Scope::ReadWrite, on_google: true, environment };
    let mut found = GoogleCredentials::with_clock(parts, Arc::<Clock>::clone(clock))?;
    found.exchange.set_retry(quick());
    Ok(found)
}

async fn load(token: Value) -> Result<Credentials> {
    let loaded = credentials(Some(token), &[], &Clock::start())?.load().await?;
    Ok(loaded.expect("some"))
}

fn issued(token: &str) -> (u16, Value) {
    (200, json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"}))
}

fn user(url: &str) -> Value {
    json!({"type": "authorized_user", "client_id": "the-client", "client_secret": "hunter2-secret",
           "refresh_token": "hunter2-refresh", "token_uri": format!("{url}/token")})
}

fn shows_no_secret(text: &str) {
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_service_account_signs_a_statement() {
    let script = Script::start(&[issued("ya29.hunter2")]).await;
    let pair = RsaKey::generate(KeySize::Rsa2048).expect("generated");
    let der: aws_lc_rs::encoding::Pkcs8V1Der<'static> = pair.as_der().expect("encoded");
    let encoded = BASE64_STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = encoded.as_bytes().chunks(64).map(|l| std::str::from_utf8(l).expect("ASCII")).collect();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"));
    let key = json!({"type": "service_account", "client_email": "sa@p.iam", "private_key": pem,
                     "private_key_id": "key-1", "token_uri": format!("{}/token", script.url)});
    let found = load(key.clone()).await.expect("a token");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("sa@p.iam", "ya29.hunter2"));
    assert_eq!((found.expires_at(), found.source()), (Some(at(NOW + 3600)), Some("options: token")));

    let request = script.received().remove(0);
    assert_eq!(request.line, "POST /token HTTP/1.1");
    assert_eq!(request.field("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let statement = request.field("assertion");
    let (signed, signature) = statement.rsplit_once('.').expect("three parts");
    let (header, claims) = signed.split_once('.').expect("two parts");
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).expect("base64");
    let read = |text: &str| serde_json::from_slice::<Value>(&decode(text)).expect("JSON");
    assert_eq!(read(header), json!({"alg": "RS256", "typ": "JWT", "kid": "key-1"}));
    let expected = json!({"iss": "sa@p.iam", "scope": "https://www.googleapis.com/auth/devstorage.read_write",
                          "aud": format!("{}/token", script.url), "iat": NOW, "exp": NOW + 3600});
    assert_eq!(read(claims), expected);
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
    public.verify(signed.as_bytes(), &decode(signature)).expect("the signature holds");

    let shown = format!("{:?}", credentials(Some(key), &[], &Clock::start()).expect("valid"));
    assert!(!shown.contains(&encoded[..40]) && shown.contains("sa@p.iam"), "{shown}");
}

#[tokio::test]
async fn a_user_is_renewed_ahead_of_the_end_and_once() {
    let script = Script::start(&[issued("first"), issued("second")]).await;
    let clock = Clock::start();
    let provider = Arc::new(credentials(Some(user(&script.url)), &[], &clock).expect("valid"));
    let cache = CredentialCache::new(provider, clock.clone());
    for (wait, expected) in [(0, "first"), (2900, "first"), (200, "second"), (0, "second")] {
        clock.advance(wait);
        let issued = cache.get().await.expect("a token");
        assert_eq!(issued.credentials.secret_access_key().expose(), expected);
    }
    let requests = script.received();
    assert_eq!(requests.len(), 2);
    let fields = ["grant_type", "client_id", "client_secret", "refresh_token", "scope"];
    let sent: Vec<String> = fields.iter().map(|name| requests[0].field(name)).collect();
    assert_eq!(sent, ["refresh_token", "the-client", "hunter2-secret", "hunter2-refresh", ""]);
}

#[tokio::test]
async fn a_refusal_is_final_and_what_passes_is_tried_again() {
    let echo = json!({"error": "invalid_grant", "error_description": "Bad token hunter2-refresh"});
    let script = Script::start(&[(503, json!("busy")), (400, echo)]).await;
    let error = load(user(&script.url)).await.expect_err("refused");
    assert_eq!((error.kind(), error.service_code()), (ErrorKind::Unauthenticated, Some("invalid_grant")));
    assert!(error.hint().is_some_and(|hint| hint.contains("gcloud auth")));
    shows_no_secret(&format!("{error} {error:?}"));
    assert_eq!(script.received().len(), 2);

    let page = || (200, json!("<html>"));
    let script = Script::start(&[page(), page(), page()]).await;
    assert_eq!(load(user(&script.url)).await.expect_err("no JSON").kind(), ErrorKind::Corrupt);
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound");
    let error = load(user(&format!("http://{closed}"))).await.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Io);
}

fn external(url: &str, source: Value) -> Value {
    json!({"type": "external_account", "audience": "//iam/pool", "subject_token_type": "urn:jwt",
           "token_url": format!("{url}/sts"), "credential_source": source})
}

#[tokio::test]
async fn a_federated_identity_is_exchanged() {
    let mut file = tempfile::NamedTempFile::new().expect("made");
    file.write_all(b"hunter2-subject\n").expect("written");
    let script = Script::start(&[issued("ya29.sts")]).await;
    let found = load(external(&script.url, json!({"file": file.path()}))).await.expect("a token");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("oauth2", "ya29.sts"));
    let request = script.received().remove(0);
    assert_eq!(request.field("subject_token"), "hunter2-subject");
    assert_eq!(request.field("audience"), "//iam/pool");
    assert_eq!(request.field("subject_token_type"), "urn:jwt");
    assert_eq!(request.field("scope"), "https://www.googleapis.com/auth/devstorage.read_write");
    assert_eq!(request.field("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    let missing = external(&script.url, json!({"file": "/nowhere/token"}));
    assert_eq!(load(missing).await.expect_err("no file").kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_federated_identity_from_a_url_acts_as_a_service_account() {
    let generated = json!({"accessToken": "ya29.account", "expireTime": "2027-01-15T09:00:00Z"});
    let script =
        Script::start(&[(200, json!({"value": "hunter2-subject"})), issued("hunter2-sts"), (200, generated)]).await;
    let source = json!({"url": format!("{}/subject", script.url), "headers": {"X-Key": "hunter2-header"},
                        "format": {"type": "json", "subject_token_field_name": "value"}});
    let mut key = external(&script.url, source);
    key["client_id"] = json!("pool client");
    key["client_secret"] = json!("hunter2-client");
    key["service_account_impersonation_url"] = json!(format!("{}/serviceAccounts/sa@p.iam:generate", script.url));
    key["service_account_impersonation"] = json!({"token_lifetime_seconds": 1200});
    let found = load(key.clone()).await.expect("a token");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("sa@p.iam", "ya29.account"));
    assert_eq!(found.expires_at(), Some(at(1_800_003_600)));

    let [subject, exchange, generate] = <[Received; 3]>::try_from(script.received()).expect("three requests");
    assert_eq!((subject.line.as_str(), subject.headers["x-key"].as_str()), ("GET /subject HTTP/1.1", "hunter2-header"));
    assert_eq!(exchange.field("scope"), "https://www.googleapis.com/auth/cloud-platform");
    let basic = BASE64_STANDARD.encode("pool%20client:hunter2%2Dclient");
    assert_eq!(exchange.headers["authorization"], format!("Basic {basic}"));
    assert_eq!(generate.headers["authorization"], "Bearer hunter2-sts");
    let body: Value = serde_json::from_str(&generate.body).expect("JSON");
    let scope = "https://www.googleapis.com/auth/devstorage.read_write";
    assert_eq!(body, json!({"scope": [scope], "delegates": [], "lifetime": "1200s"}));
    shows_no_secret(&format!("{:?}", credentials(Some(key), &[], &Clock::start()).expect("valid")));
}

#[tokio::test]
async fn impersonation_uses_the_source_s_own_token() {
    let generated = json!({"accessToken": "ya29.account", "expireTime": "2027-01-15T09:00:00Z"});
    let script = Script::start(&[issued("hunter2-own"), (200, generated)]).await;
    let key = json!({"type": "impersonated_service_account", "delegates": ["d1"],
                     "source_credentials": user(&script.url),
                     "service_account_impersonation_url": format!("{}/serviceAccounts/sa@p.iam:generate", script.url)});
    let found = load(key).await.expect("a token");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("sa@p.iam", "ya29.account"));
    let requests = script.received();
    assert_eq!(requests[1].headers["authorization"], "Bearer hunter2-own");
    assert!(requests[1].body.contains("\"delegates\":[\"d1\"]"), "{}", requests[1].body);

    let denied = json!({"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "who is hunter2-own?"}});
    let script = Script::start(&[issued("hunter2-own"), (403, denied)]).await;
    let key = json!({"type": "impersonated_service_account", "source_credentials": user(&script.url),
                     "service_account_impersonation_url": format!("{}/x:generate", script.url)});
    let error = load(key).await.expect_err("denied");
    assert_eq!((error.kind(), error.service_code()), (ErrorKind::Unauthenticated, Some("PERMISSION_DENIED")));
    shows_no_secret(&format!("{error:?}"));
}

#[tokio::test]
async fn the_metadata_server_is_asked_as_it_wants() {
    let script = Script::start(&[issued("ya29.machine")]).await;
    let host = script.url.trim_start_matches("http://");
    // Proxies are for other servers.
    let variables = [("GCE_METADATA_HOST", host), ("http_proxy", "http://127.0.0.1:1")];
    let provider = credentials(None, &variables, &Clock::start()).expect("valid");
    assert_eq!(provider.known_offline().expect("offline").principal, None);
    let found = provider.load().await.expect("asked").expect("some");
    assert_eq!((found.access_key_id(), found.secret_access_key().expose()), ("oauth2", "ya29.machine"));
    let request = script.received().remove(0);
    assert_eq!(request.headers["metadata-flavor"], "Google");
    assert!(request.line.starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token?scopes=https"));

    let script = Script::start(&[(404, json!("no account"))]).await;
    let host = script.url.trim_start_matches("http://");
    let provider = credentials(None, &[("GCE_METADATA_HOST", host)], &Clock::start()).expect("valid");
    let error = provider.load().await.expect_err("somebody said that there is one");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
}

#[tokio::test]
async fn a_machine_that_gave_a_token_once_is_not_taken_for_none() {
    let no_account = || (404, json!("no account"));
    let script = Script::start(&[no_account(), issued("ya29.machine"), no_account()]).await;
    let mut provider = credentials(None, &[("HOME", "/nowhere")], &Clock::start()).expect("valid");
    script.url.trim_start_matches("http://").clone_into(&mut provider.metadata_host);
    assert!(provider.load().await.expect("no such machine").expect("some").is_anonymous());
    assert!(!provider.load().await.expect("a token").expect("some").is_anonymous());
    let error = provider.load().await.expect_err("the machine is in trouble");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
}

/// What a token server of Google's answers, to whatever it is asked.
fn answers_all(seen: &Seen) -> (u16, String) {
    let body = match seen.path.as_str() {
        "/subject" => "hunter2-subject-token".to_owned(),
        path if path.ends_with(":generate") => {
            json!({"accessToken": "ya29.account", "expireTime": "2027-01-15T09:00:00Z"}).to_string()
        }
        _ => issued("hunter2-own-token").1.to_string(),
    };
    (200, body)
}

#[tokio::test]
async fn what_a_service_may_do() {
    let oauth = r#"{"error": "invalid_grant",
                    "error_description": "Expired: hunter2-secret hunter2-refresh hunter2-subject-token"}"#;
    let own = r#"{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "Expired: hunter2-header"}}"#;
    let trial = |refusal| Trial { good: answers_all, refusal, words: "Expired: ***", secret: "hunter2" };
    for refusal in [oauth, own] {
        let from_key = |key: Value| async move { load(key).await.map(Some) };
        trial(refusal).run(|url| from_key(user(&url))).await;
        let impersonated = |url: String| {
            json!({"type": "impersonated_service_account", "source_credentials": user(&url),
                   "service_account_impersonation_url": format!("{url}/sa@p.iam:generate")})
        };
        trial(refusal).run(|url| from_key(impersonated(url))).await;
        let federated = |url: String| {
            let source = json!({"url": format!("{url}/subject"), "headers": {"X-Key": "hunter2-header"}});
            external(&url, source)
        };
        trial(refusal).run(|url| from_key(federated(url))).await;
    }
    Trial { good: answers_all, refusal: own, words: "Expired", secret: "hunter2-own" }
        .run(|url| async move {
            let variables = [("GCE_METADATA_HOST", url.trim_start_matches("http://"))];
            credentials(None, &variables, &Clock::start()).expect("valid").load().await
        })
        .await;
}

#[tokio::test]
async fn the_first_that_is_set_up_counts() {
    let dir = tempfile::tempdir().expect("made");
    let write = |name: &str, client: &str| {
        let mut key = user("https://oauth2.googleapis.com");
        key["client_id"] = json!(client);
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
        std::fs::write(&path, key.to_string()).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let named = write("named.json", "named");
    write("gcloud/application_default_credentials.json", "gcloud");
    write("home/.config/gcloud/application_default_credentials.json", "home");
    let text = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (gcloud, home, empty) = (text("gcloud"), text("home"), text("empty"));
    let known = |token: Option<Value>, variables: &[(&str, &str)]| {
        credentials(token, variables, &Clock::start()).expect("valid").known_offline()
    };
    let principal = |token, variables: &[(&str, &str)]| known(token, variables).expect("valid").principal;
    let all = [
        ("GOOGLE_APPLICATION_CREDENTIALS", named.as_str()),
        ("CLOUDSDK_CONFIG", gcloud.as_str()),
        ("HOME", home.as_str()),
    ];
    assert_eq!(principal(None, &all).as_deref(), Some("named"));
    assert_eq!(principal(None, &all[1..]).as_deref(), Some("gcloud"));
    assert_eq!(principal(None, &all[2..]).as_deref(), Some("home"));
    assert_eq!(principal(Some(json!("google_default")), &all[2..]).as_deref(), Some("home"));
    assert_eq!(principal(Some(json!(named)), &all[1..]).as_deref(), Some("named"));
    assert_eq!(principal(Some(json!("ya29.x")), &all).as_deref(), Some("oauth2"));
    assert!(known(Some(json!("anon")), &all).expect("valid").is_anonymous);
    let bare = [("HOME", empty.as_str())];
    assert!(!known(None, &bare).expect("valid").is_anonymous, "the machine is asked first");
    assert!(known(None, &[bare[0], ("NO_GCE_CHECK", "true")]).expect("valid").is_anonymous);

    std::fs::write(dir.path().join("bad.json"), "hunter2").expect("written");
    for bad in [text("bad.json"), text("missing.json")] {
        let error = known(None, &[("GOOGLE_APPLICATION_CREDENTIALS", &bad)]).expect_err("set up and wrong");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        shows_no_secret(&format!("{error:?}"));
    }
}

#[tokio::test]
async fn a_test_server_is_reached_without_credentials() {
    let parts = GoogleParts {
        token: None,
        scope: Scope::default(),
        on_google: false,
        environment: [("HOME", "/nowhere")].into_iter().collect(),
    };
    let found = GoogleCredentials::new(parts).expect("valid").load().await.expect("no request").expect("some");
    assert!(found.is_anonymous());
}
