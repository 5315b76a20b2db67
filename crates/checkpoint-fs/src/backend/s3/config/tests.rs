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
    let plain = serde_json::json!({"endpoint_url": "http://minio.local"});
    assert_eq!(tls(plain, &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::System);
    let verify = |value| serde_json::json!({"client_kwargs": {"verify": value}});
    assert_eq!(tls(verify(serde_json::json!(false)), &[("AWS_CA_BUNDLE", "/ca.pem")]), TlsRoots::Unverified);
    assert_eq!(tls(verify(serde_json::json!("/x.pem")), &[]), TlsRoots::Bundle("/x.pem".into()));
}
