use super::*;
use crate::options::StorageOptions;
use crate::transport::TlsRoots;

fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<S3Config> {
    let context = OpenContext {
        options: StorageOptions::from_value(serde_json::json!({"s3": options})).expect("the right shape"),
        environment: variables.iter().copied().collect(),
    };
    S3Config::resolve("my-bucket", &context)
}

#[test]
fn endpoints_by_precedence() {
    let all = [("AWS_ENDPOINT_URL_S3", "http://s3.local"), ("AWS_ENDPOINT_URL", "http://all.local")];
    let none = serde_json::json!({});
    for (options, variables, expected, source) in [
        (none.clone(), &[][..], "https://s3.amazonaws.com", "default of AWS"),
        (none.clone(), &all[..], "http://s3.local", "environment: AWS_ENDPOINT_URL_S3"),
        (none.clone(), &all[1..], "http://all.local", "environment: AWS_ENDPOINT_URL"),
        (
            none.clone(),
            &[("AWS_ENDPOINT_URL_S3", ""), ("AWS_ENDPOINT_URL", "http://all.local")],
            "http://all.local",
            "environment: AWS_ENDPOINT_URL",
        ),
        (serde_json::json!({"endpoint_url": "http://x:9/"}), &all[..], "http://x:9/", "options: endpoint_url"),
        (serde_json::json!({"use_ssl": false}), &[], "http://s3.amazonaws.com", "default of AWS"),
        (
            serde_json::json!({"use_ssl": false, "endpoint_url": "https://minio.local"}),
            &[],
            "https://minio.local",
            "options: endpoint_url",
        ),
        (
            none.clone(),
            &[("AWS_ENDPOINT", "http://other.local"), ("AWS_REGION", "eu-west-1")],
            "https://s3.eu-west-1.amazonaws.com",
            "default of AWS",
        ),
    ] {
        let endpoint = resolve(options, variables).expect("valid").endpoint();
        assert_eq!((endpoint.value.as_str(), &*endpoint.source), (expected, source));
    }
    assert!(resolve(serde_json::json!({"endpoint_url": ""}), &[]).is_err(), "an explicit empty one is an error");
}

#[test]
fn regions_by_precedence() {
    let both = [("AWS_REGION", "ap-south-1"), ("AWS_DEFAULT_REGION", "eu-west-1")];
    for (options, variables, expected, source) in [
        (serde_json::json!({}), &[][..], "us-east-1", "default"),
        (serde_json::json!({}), &both[..], "eu-west-1", "environment: AWS_DEFAULT_REGION"),
        (serde_json::json!({}), &both[..1], "ap-south-1", "environment: AWS_REGION"),
        (
            serde_json::json!({"client_kwargs": {"region_name": "sa-east-1"}}),
            &both[..],
            "sa-east-1",
            "options: client_kwargs.region_name",
        ),
    ] {
        let config = resolve(options, variables).expect("valid");
        assert_eq!((config.region().value.as_str(), &*config.region().source), (expected, source));
    }
    assert!(resolve(serde_json::json!({}), &[("AWS_REGION", "eu west\n1")]).is_err());
}

#[tokio::test]
async fn credentials_by_precedence() {
    let keys = [("AWS_ACCESS_KEY_ID", "AKENV"), ("AWS_SECRET_ACCESS_KEY", "SKENV"), ("AWS_SESSION_TOKEN", "TOKENV")];
    let explicit = serde_json::json!({"key": "AKOPT", "secret": "SKOPT"});
    for (options, key, token, source) in [
        (explicit, "AKOPT", false, Some("options")),
        (serde_json::json!({"token": "TOKOPT"}), "AKENV", true, Some("environment")),
        (serde_json::json!({"anon": true, "key": "AKOPT", "secret": "SKOPT"}), "", false, None),
        (serde_json::json!({"anon": "False"}), "AKENV", true, Some("environment")),
    ] {
        let config = resolve(options, &keys).expect("valid");
        let found = config.credentials().load().await.expect("valid").expect("found");
        assert_eq!((found.access_key_id(), found.session_token().is_some(), found.source()), (key, token, source));
        assert_eq!(config.is_anonymous(), key.is_empty());
    }
    assert!(resolve(serde_json::json!({}), &keys[..1]).is_err(), "half a pair in the environment");
    assert!(resolve(serde_json::json!({"key": "AKOPT"}), &keys).is_err(), "half a pair in the options");
}

#[test]
fn urls_and_debug() {
    let options = serde_json::json!({"key": "AKIDEXAMPLE", "secret": "hunter2", "token": "s3ss10n"});
    let config = resolve(options, &[("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/pre/fix")]).expect("valid");
    assert_eq!(config.object_url("dir/a b"), "http://127.0.0.1:9000/pre/fix/my-bucket/dir/a%20b");
    assert_eq!(
        config.list_url("dir/", false),
        "http://127.0.0.1:9000/pre/fix/my-bucket?list-type=2&prefix=dir%2F&delimiter=%2F&encoding-type=url"
    );
    assert_eq!(
        config.list_url("", true),
        "http://127.0.0.1:9000/pre/fix/my-bucket?list-type=2&prefix=&encoding-type=url"
    );
    let shown = format!("{config:?}");
    for secret in ["hunter2", "s3ss10n", "AKIDEXAMPLE"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn certificates() {
    let tls = |options, variables: &[_]| resolve(options, variables).expect("valid").client.tls;
    assert_eq!(tls(serde_json::json!({}), &[]), TlsRoots::System);
    assert_eq!(tls(serde_json::json!({}), &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Bundle("/ca.pem".into()));
    let of_all = ("REQUESTS_CA_BUNDLE", "/all.pem");
    assert_eq!(tls(serde_json::json!({}), &[of_all]), TlsRoots::Bundle("/all.pem".into()));
    assert_eq!(tls(serde_json::json!({}), &[of_all, ("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Bundle("/ca.pem".into()));
    let plain = serde_json::json!({"endpoint_url": "http://minio.local"});
    assert_eq!(tls(plain, &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::System);
    let verify = |value| serde_json::json!({"client_kwargs": {"verify": value}});
    assert_eq!(tls(verify(serde_json::json!(false)), &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Unverified);
    assert_eq!(tls(verify(serde_json::json!("/x.pem")), &[]), TlsRoots::Bundle("/x.pem".into()));
}

#[test]
fn settings_of_the_profile_and_their_sources() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(home.path().join(".aws")).expect("made");
    let text = "[profile dev]\nregion = eu-west-1\nca_bundle = /dev.pem\nmax_attempts = 2\ns3 =\n  addressing_style = \
                path\n  payload_signing_enabled = true\n[profile flat]\ns3 = path\n[profile odd]\ns3 =\n  \
                addressing_style = bogus\n";
    std::fs::write(home.path().join(".aws/config"), text).expect("written");
    let home = home.path().to_str().expect("text");
    let keys = [("AWS_ACCESS_KEY_ID", "AK"), ("AWS_SECRET_ACCESS_KEY", "SK"), ("HOME", home)];
    let with = |profile| resolve(serde_json::json!({}), &[&keys[..], &[("AWS_PROFILE", profile)]].concat());
    let config = with("dev").expect("valid");
    assert_eq!(config.region(), &Setting::new("eu-west-1".to_owned(), "profile dev: region"));
    assert_eq!(config.addressing(), &Setting::new(Addressing::Path, "profile dev: s3.addressing_style"));
    assert_eq!(config.client.tls, TlsRoots::Bundle("/dev.pem".into()));
    assert_eq!((config.retry.attempts(), config.sign_payload), (2, true));
    for (profile, expected) in
        [("flat", "is no block"), ("odd", "addressing style is not known"), ("none", "not exist")]
    {
        let error = with(profile).expect_err(profile);
        assert!(error.to_string().contains(expected) && error.hint().is_some(), "{error}");
    }
}

#[test]
fn explicit_proxies_take_the_place_of_the_environments() {
    let environment = [("HTTPS_PROXY", "http://env:1"), ("no_proxy", "*"), ("OTHER", "x")];
    let proxies = |value| serde_json::json!({"config_kwargs": {"proxies": value}});
    let of = |options| {
        let client = resolve(options, &environment).expect("valid").client;
        client.environment.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(of(proxies(serde_json::json!({"http": "own:2"}))), ["OTHER=x", "http_proxy=http://own:2"]);
    assert_eq!(of(proxies(serde_json::json!(null))), ["HTTPS_PROXY=http://env:1", "OTHER=x", "no_proxy=*"]);
    let error = resolve(proxies(serde_json::json!({"http": "http://u:hunter2@:bad:"})), &[]).expect_err("no URL");
    assert!(error.to_string().contains("proxies.http must be a URL") && !format!("{error:?}").contains("hunter2"));
}

#[test]
fn directory_buckets_are_refused_by_name() {
    let context = OpenContext::default();
    let error = S3Config::resolve("data--usw2-az1--x-s3", &context).expect_err("refused");
    assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    assert!(S3Config::resolve("alias--op-s3", &context).is_ok());
}
