//! docs/configuration.md lists the variables that are asked for on the way to a store, exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use checkpoint_fs::{Environment, ObjectPath, Registry, StorageExt, StorageOptions};
use serde_json::{Value, json};

use crate::page::{Page, codes, root};

/// Nobody answers there.
const NOBODY: &str = "http://127.0.0.1:9";
/// Where the sections of protocols begin, and what comes before them.
const COMMON: &str = "For every protocol";

/// A way to reach a store, which asks for some variables.
struct Way {
    url: &'static str,
    options: Value,
    variables: Vec<(&'static str, String)>,
    /// Whether it goes on to a request, which fails: some are asked for only then.
    sends: bool,
}

fn way(url: &'static str, options: Value, variables: &[(&'static str, &str)]) -> Way {
    let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Way { url, options, variables, sends: false }
}

fn sending(way: Way) -> Way {
    Way { sends: true, ..way }
}

/// The AWS files of a user who signs in once for all, and did so too long ago.
fn sign_in(home: &Path) {
    let write = |name: &str, text: &str| {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, text).expect("written");
    };
    let profile = "[profile work]\nsso_session = us\nsso_account_id = 1\nsso_role_name = r\n";
    let session = "[sso-session us]\nsso_start_url = https://example.com/start\nsso_region = us-east-1\n";
    write(".aws/config", &format!("{profile}{session}"));
    // The name is the SHA-1 of the session's.
    let token = json!({
        "accessToken": "t", "expiresAt": "2020-01-01T00:00:00Z", "refreshToken": "r", "clientId": "c",
        "clientSecret": "s", "registrationExpiresAt": "2999-01-01T00:00:00Z",
    });
    write(".aws/sso/cache/da2b128800d4e129def769b7ec5decc00517fa8b.json", &token.to_string());
    write("id-token", "t");
}

/// The ways to each protocol's stores that between them ask for everything.
fn ways(protocol: &str) -> Vec<Way> {
    let s3 = "s3://bucket/object";
    let metadata = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", NOBODY);
    let once = ("AWS_MAX_ATTEMPTS", "1");
    match protocol {
        "s3" => vec![
            way(s3, json!({}), &[metadata]),
            way(s3, json!({}), &[("AWS_ACCESS_KEY_ID", "K"), ("AWS_SECRET_ACCESS_KEY", "S")]),
            way(s3, json!({}), &[("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/x")]),
            way(s3, json!({}), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", NOBODY)]),
            sending(way(s3, json!({}), &[("AWS_PROFILE", "work"), ("AWS_ENDPOINT_URL", NOBODY), once])),
            sending(way(
                s3,
                json!({"key": "K", "secret": "S", "endpoint_url": NOBODY}),
                &[("HTTP_PROXY", NOBODY), ("AWS_MAX_ATTEMPTS", "1")],
            )),
        ],
        "cos" => {
            let region = json!({"region": "ap-guangzhou"});
            vec![
                way("cos://bucket-125/object", region.clone(), &[]),
                way("cos://bucket-125/object", json!({}), &[("COS_ENDPOINT", "cos.ap-guangzhou.myqcloud.com")]),
                way("cos://bucket-125/object", region, &[("COS_SECRET_ID", "K"), ("COS_SECRET_KEY", "S")]),
            ]
        }
        "oss" => {
            let region = json!({"region": "cn-hangzhou"});
            let cloud = [("ALIBABA_CLOUD_ACCESS_KEY_ID", "K"), ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "S")];
            vec![
                way("oss://bucket/object", json!({}), &[]),
                way("oss://bucket/object", region.clone(), &[]),
                way("oss://bucket/object", region.clone(), &cloud),
                way(
                    "oss://bucket/object",
                    region.clone(),
                    &[("OSS_ACCESS_KEY_ID", "K"), ("OSS_ACCESS_KEY_SECRET", "S")],
                ),
                way(
                    "oss://bucket/object",
                    region,
                    &[
                        ("ALIBABA_CLOUD_ROLE_ARN", "r"),
                        ("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "p"),
                        ("ALIBABA_CLOUD_OIDC_TOKEN_FILE", "/x"),
                    ],
                ),
            ]
        }
        "gs" => vec![
            way("gs://bucket/object", json!({"requester_pays": true, "project": "p"}), &[]),
            way("gs://bucket/object", json!({"requester_pays": true}), &[]),
            sending(way("gs://bucket/object", json!({"token": "cloud"}), &[("GCE_METADATA_ROOT", "127.0.0.1:9")])),
        ],
        "tclake" => vec![
            way("tclake://volume/c/s/v/object", json!({}), &[]),
            way(
                "tclake://volume/c/s/v/object",
                json!({}),
                &[("TENCENTCLOUD_SECRET_ID", "K"), ("TENCENTCLOUD_SECRET_KEY", "S")],
            ),
        ],
        "az" => {
            let account = json!({"account_name": "account"});
            vec![
                way("az://container/object", json!({}), &[]),
                way("az://container/object", account.clone(), &[]),
                way("az://container/object", account.clone(), &[("AZURE_STORAGE_CLIENT_ID", "c")]),
                way(
                    "az://container/object",
                    account,
                    &[("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c"), ("AZURE_CLIENT_SECRET", "s")],
                ),
            ]
        }
        _ => vec![way("memory://nowhere/object", json!({}), &[])],
    }
}

/// What the page says, by the protocol's section.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut documented: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for section in Page::read("docs/configuration.md").sections() {
        for table in section.tables.iter().filter(|table| table.header[0] == "variable") {
            for row in &table.rows {
                for name in codes(&row[0]) {
                    let of_section = documented.entry(section.heading.trim_matches('`').to_owned()).or_default();
                    assert!(of_section.insert(name.to_owned()), "{name} is listed twice");
                }
            }
        }
    }
    documented
}

/// The names that a way asks for, however it ends.
async fn asked(protocol: &str, way: Way) -> BTreeSet<String> {
    let home = tempfile::tempdir().expect("a directory");
    sign_in(home.path());
    let home = ("HOME", home.path().to_str().expect("text").to_owned());
    let environment: Environment = way.variables.into_iter().chain([home]).collect();
    let environment = environment.recording();
    let registry = Registry::with_environment(environment.clone());
    let options = StorageOptions::from_value(json!({protocol: way.options})).expect("the right shape");
    drop(registry.resolve(way.url, &options).await);
    if way.sends {
        let tried = async {
            let (storage, _) = registry.open(way.url, &options).await?;
            storage.list_files(&ObjectPath::root(), false).await
        };
        let limit = Duration::from_secs(120);
        let ended = tokio::time::timeout(limit, Box::pin(tried)).await.expect("ends by itself");
        assert!(ended.is_err(), "nobody answers, and still there is an answer");
    }
    environment.asked()
}

#[tokio::test]
async fn every_variable_that_is_asked_for_is_listed_and_no_other() {
    let mut documented = documented();
    let common = documented.remove(COMMON).expect("a section");
    let mut of_all = BTreeSet::new();
    for protocol in ["memory", "s3", "cos", "oss", "gs", "tclake", "az"] {
        let mut names = BTreeSet::new();
        for way in ways(protocol) {
            names.extend(asked(protocol, way).await);
        }
        of_all.extend(names.intersection(&common).cloned());
        names.retain(|name| !common.contains(name));
        let listed = documented.remove(protocol).unwrap_or_default();
        assert_eq!(listed, names, "{protocol}: left the page, right the code");
    }
    assert_eq!(of_all, common, "of every protocol: right the page");
    assert!(documented.is_empty(), "of no protocol: {documented:?}");
}

/// The ways above could miss one: so every name in the sources is looked at.
#[test]
fn every_variable_in_the_sources_is_listed() {
    let listed: BTreeSet<String> = documented().into_values().flatten().collect();
    let mut unlisted = BTreeSet::new();
    for file in sources(&root().join("crates/checkpoint-fs/src")) {
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for literal in code.split('"').skip(1).step_by(2) {
            let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
            let of_a_vendor =
                ["AWS_", "COS_", "OSS_", "ALIBABA_", "AZURE_", "TENCENTCLOUD_", "GCE_", "GOOGLE_", "FSSPEC_"];
            let is_name = literal.bytes().all(plain) && of_a_vendor.iter().any(|vendor| literal.starts_with(vendor));
            if is_name && !literal.ends_with('_') && !listed.contains(literal) {
                unlisted.insert(format!("{literal} in {}", file.display()));
            }
        }
    }
    assert!(unlisted.is_empty(), "{unlisted:#?}");
}

/// The sources below a directory, those of tests left out.
fn sources(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("tests") || name == "scripted.rs" || name == "fake.rs" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}
