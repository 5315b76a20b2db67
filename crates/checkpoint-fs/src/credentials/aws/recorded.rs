//! For tests: each recorded case of `fixtures/credentials`, asked of our chain and compared with what
//! botocore answered and sent.

mod syntax;

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::AwsChain;
use super::chain::Described;
use super::scripted::{Route, Seen, Server, context, home, is_signed_with};
use crate::credentials::{CredentialCache, Credentials};
use crate::error::Result;
use crate::logged::Logged;
use crate::resolution::Setting;

/// Where ours differs on purpose.
const DIFFERENCES: [(&str, &str); 3] = [
    ("empty-key-in-file", "an empty key signs nothing; theirs goes out and is refused, ours is an error"),
    ("key-is-a-block", "theirs takes the block for the key and fails to sign; ours is an error"),
    ("web-token-line-break", "theirs sends the line break, which STS refuses; ours leaves it out"),
];

/// Names that botocore has for sources, and ours.
const SOURCES: [(&str, &str); 12] = [
    ("env", "environment"),
    ("assume-role", "assume role"),
    ("assume-role-with-web-identity", "web identity"),
    ("sso", "sso"),
    ("shared-credentials-file", "shared credentials file"),
    ("custom-process", "credential process"),
    ("config-file", "config file"),
    ("ec2-credentials-file", "AWS_CREDENTIAL_FILE"),
    ("boto-config", "boto config file"),
    ("container-role", "container"),
    ("iam-role", "instance metadata"),
    ("login", "login"),
];

/// What became of a case.
struct Outcome {
    described: Result<Described>,
    loaded: Result<Credentials>,
    seen: Vec<Seen>,
    seen_by_describing: usize,
}

async fn run(case: &Json, shared: &Json) -> Outcome {
    let files = case["files"].as_object().expect("files");
    let directory = home(&[]);
    let routes =
        case.get("routes").unwrap_or(&shared["routes"]).as_array().expect("routes").iter().map(route).collect();
    let server = Server::start(routes).await;
    let at = directory.path().to_str().expect("UTF-8");
    let fill = |text: &Json| text.as_str().expect("text").replace("${HOME}", at).replace("${SERVER}", &server.url);
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("writable");
        std::fs::write(path, fill(text)).expect("writable");
    }
    let mut variables = vec![("HOME".to_owned(), at.to_owned()), ("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let given = case["env"].as_object().expect("variables");
    variables.extend(given.iter().map(|(name, value)| (name.clone(), fill(value))));
    let mut context = context(variables.into_iter().collect());
    let text = |name: &str| case.get(name).and_then(Json::as_str).map(str::to_owned);
    context.profile = text("profile").map(|name| Setting::new(name, "options: profile"));
    context.region = text("region");
    let clock = Arc::clone(&context.clock);
    let chain = match AwsChain::new(context) {
        Ok(chain) => chain,
        Err(error) => {
            return Outcome { described: Err(error), loaded: Err(none()), seen: server.seen(), seen_by_describing: 0 };
        }
    };
    let described = chain.describe();
    let seen_by_describing = server.seen().len();
    let cache = CredentialCache::new(Arc::new(chain), clock);
    let loaded = cache.get().await.map(|issued| issued.credentials.clone());
    Outcome { described, loaded, seen: server.seen(), seen_by_describing }
}

fn none() -> crate::Error {
    crate::Error::invalid_config("the chain was not built")
}

fn route(json: &Json) -> Route {
    let words = json["words"].as_array().expect("words").iter().map(|w| w.as_str().expect("text").to_owned()).collect();
    let headers = json["headers"].as_object().expect("headers");
    Route {
        words,
        status: json["status"].as_u64().expect("a number").try_into().expect("a status"),
        headers: headers.iter().map(|(k, v)| (k.clone(), v.as_str().expect("text").to_owned())).collect(),
        body: json["body"].as_str().expect("text").to_owned(),
        times: usize::MAX,
    }
}

/// A request in the words of the fixtures. Signatures are checked on the way.
fn shown(seen: &Seen) -> Json {
    let mut shown = Map::new();
    shown.insert("method".to_owned(), seen.method.as_str().into());
    shown.insert("target".to_owned(), seen.target.as_str().into());
    for name in ["x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds", "x-amz-sso_bearer_token"] {
        if let Some(value) = seen.headers.get(name) {
            shown.insert(name.to_owned(), value.as_str().into());
        }
    }
    match seen.headers.get("authorization") {
        Some(value) if value.starts_with("AWS4-HMAC-SHA256 ") => {
            let scope = value.split("Credential=").nth(1).expect("is there").split(',').next().expect("is there");
            let parts: Vec<&str> = scope.split('/').collect();
            let key = parts[0];
            let secrets = [format!("SK{key}"), format!("SK{}", key.trim_start_matches("AK"))];
            assert!(secrets.iter().any(|secret| is_signed_with(seen, secret)), "{seen:?}");
            shown.insert("signed_by".to_owned(), key.into());
            shown.insert("signed_for".to_owned(), format!("{}/{}", parts[2], parts[3]).into());
        }
        Some(value) => {
            shown.insert("authorization".to_owned(), value.as_str().into());
        }
        None => {}
    }
    if seen.body.starts_with('{') {
        shown.insert("json".to_owned(), serde_json::from_str(&seen.body).expect("JSON"));
    } else if !seen.body.is_empty() {
        let form: Map<String, Json> =
            url::form_urlencoded::parse(seen.body.as_bytes()).map(|(k, v)| (k.into_owned(), (*v).into())).collect();
        shown.insert("form".to_owned(), form.into());
    }
    Json::Object(shown)
}

/// Compares, and returns what there is to show.
fn compare(id: &str, expect: &Json, outcome: &Outcome) {
    assert_eq!(outcome.seen_by_describing, 0, "{id}: describing asks nobody");
    let differs = DIFFERENCES.iter().any(|(known, _)| *known == id);
    let requests: Vec<Json> = outcome.seen.iter().map(shown).collect();
    let same_requests = Json::from(requests.clone()) == expect["requests"];
    let key = expect["access_key_id"].as_str();
    let same = match &outcome.loaded {
        Err(_) => key.is_none() && expect["access_key_id"].is_null(),
        Ok(found) => {
            let source = found.source().expect("is named");
            let described =
                outcome.described.as_ref().unwrap_or_else(|e| panic!("{id}: loads, so it can be described: {e}"));
            assert_eq!(described.source.as_deref(), Some(source), "{id}");
            if let Some(key) = &described.access_key_id {
                assert_eq!(key, found.access_key_id(), "{id}");
                assert_eq!(described.has_session_token, found.session_token().is_some(), "{id}");
            }
            let theirs = SOURCES.iter().find(|(theirs, _)| Some(*theirs) == expect["source"].as_str());
            theirs.map(|(_, ours)| *ours) == Some(source)
                && key == Some(found.access_key_id())
                && expect["secret_access_key"].as_str() == Some(found.secret_access_key().expose())
                && expect["session_token"].as_str().filter(|t| !t.is_empty())
                    == found.session_token().map(|token| token.expose())
        }
    };
    assert_eq!(
        same && same_requests,
        !differs,
        "{id}: theirs {expect:#} ours {:?} {:?} {requests:#?}",
        outcome.loaded,
        outcome.described
    );
}

/// Secret keys and tokens of the fixtures.
fn secret_in(text: &str) -> Option<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| {
        let key = word.strip_prefix("SK").is_some_and(|rest| rest.len() > 1);
        let token = word.strip_prefix("TOK").is_some_and(|rest| rest.len() > 2 && rest != "EN" && rest != "ENS");
        let kept = ["SSOTOKEN", "NEWTOKEN", "FILETOKEN", "IMDSTOKEN", "SRCTOKEN", "JWT", "REFRESH", "NEWREFRESH"];
        key || token || kept.contains(word) || *word == "CLIENTSECRET"
    })
}

async fn replay(file: &str) {
    let log = Logged::start();
    let path = format!("{}/../../fixtures/credentials/{file}.json", env!("CARGO_MANIFEST_DIR"));
    let fixture: Json = serde_json::from_slice(&std::fs::read(path).expect("is there")).expect("JSON");
    let cases = fixture["cases"].as_array().expect("cases");
    assert!(cases.len() > 10, "{file}");
    for case in cases {
        let id = case["id"].as_str().expect("text");
        let outcome = run(case, &fixture["shared"]).await;
        compare(id, &case["expect"], &outcome);
        for error in [outcome.loaded.as_ref().err(), outcome.described.as_ref().err()].into_iter().flatten() {
            let shown = format!("{error} {error:?}");
            assert_eq!(secret_in(&shown), None, "{id}: {shown}");
        }
    }
    let log = log.text();
    assert!(log.contains("credentials are taken from here"), "something is logged");
    for line in log.lines() {
        assert_eq!(secret_in(line), None, "{line}");
    }
}

#[tokio::test]
async fn keys_in_variables_and_files() {
    replay("files").await;
}

#[tokio::test]
async fn processes() {
    replay("process").await;
}

#[tokio::test]
async fn roles() {
    replay("roles").await;
}

#[tokio::test]
async fn web_identity() {
    replay("web-identity").await;
}

#[tokio::test]
async fn single_sign_on() {
    replay("sso").await;
}

#[tokio::test]
async fn agents_and_metadata() {
    replay("agents").await;
}

#[tokio::test]
async fn settings_drawn_by_chance() {
    replay("chance").await;
}
