use super::*;
use crate::ErrorKind;
use crate::options::StorageOptions;

const KEYS: [(&str, &str); 2] = [("COS_SECRET_ID", "AKENV"), ("COS_SECRET_KEY", "SKENV")];

fn context(options: serde_json::Value, variables: &[(&str, &str)]) -> OpenContext {
    OpenContext {
        options: StorageOptions::from_value(serde_json::json!({"cos": options})).expect("the right shape"),
        environment: variables.iter().copied().collect(),
    }
}

fn resolve(options: serde_json::Value, variables: &[(&str, &str)]) -> Result<CosConfig> {
    CosConfig::resolve("bkt-125", &context(options, variables))
}

#[test]
fn endpoint_and_region_by_precedence() {
    let none = serde_json::json!({});
    let region = |name: &str| serde_json::json!({"client_kwargs": {"region_name": name}});
    let endpoint = |url: &str| serde_json::json!({"client_kwargs": {"endpoint_url": url}});
    let variables = [("COS_REGION", "ap-env"), ("COS_ENDPOINT", "https://cos.ap-var.myqcloud.com")];
    let option = "options: client_kwargs.region_name";
    for (options, variables, url, region, sources) in [
        (region("ap-x"), &[][..], "https://cos.ap-x.myqcloud.com", "ap-x", ["default of the region", option]),
        (
            none.clone(),
            &variables[..1],
            "https://cos.ap-env.myqcloud.com",
            "ap-env",
            ["default of the region", "environment: COS_REGION"],
        ),
        (
            none.clone(),
            &variables[1..],
            "https://cos.ap-var.myqcloud.com",
            "ap-var",
            ["environment: COS_ENDPOINT", "the endpoint"],
        ),
        (
            endpoint("https://bkt-125.cos.ap-x.myqcloud.com"),
            &variables[1..],
            "https://cos.ap-x.myqcloud.com",
            "ap-x",
            ["options: client_kwargs.endpoint_url", "the endpoint"],
        ),
        (
            endpoint("https://cos.accelerate.myqcloud.com"),
            &variables[..1],
            "https://cos.accelerate.myqcloud.com",
            "ap-env",
            ["options: client_kwargs.endpoint_url", "environment: COS_REGION"],
        ),
        (
            endpoint("http://127.0.0.1:9000"),
            &[("AWS_REGION", "eu-west-1")],
            "http://127.0.0.1:9000",
            "us-east-1",
            ["options: client_kwargs.endpoint_url", "default"],
        ),
        (
            serde_json::json!({"use_ssl": false}),
            &variables[..1],
            "http://cos.ap-env.myqcloud.com",
            "ap-env",
            ["default of the region", "environment: COS_REGION"],
        ),
    ] {
        let config = resolve(options, variables).expect("valid");
        assert_eq!((config.endpoint().value.as_str(), config.region().value.as_str()), (url, region));
        assert_eq!([&*config.endpoint().source, &*config.region().source], sources);
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let own = "https://cos.ap-x.myqcloud.com";
    let path = serde_json::json!({"endpoint_url": own, "config_kwargs": {"s3": {"addressing_style": "path"}}});
    for (options, variables, expected) in [
        (serde_json::json!({}), &[("AWS_REGION", "eu-west-1"), ("AWS_ENDPOINT_URL", own)][..], "COS_REGION"),
        (serde_json::json!({"endpoint_url": "https://cos.accelerate.myqcloud.com"}), &[], "COS_REGION"),
        (serde_json::json!({}), &[("COS_REGION", "AP X")], "ap-guangzhou"),
        (serde_json::json!({"key": "AK"}), &[("COS_REGION", "ap-x")], "secret"),
        (serde_json::json!({}), &[("COS_REGION", "ap-x"), KEYS[0]], "both variables"),
        (path.clone(), &[], "virtual"),
    ] {
        let error = resolve(options, variables).expect_err(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.hint().is_some_and(|hint| hint.contains(expected)), "{error:?}");
    }
    // Without a bucket, only what concerns every bucket is wrong.
    assert!(CosConfig::check(&context(path, &[])).is_err());
    for options in [serde_json::json!({}), serde_json::json!({"endpoint_url": "https://x-1.cos.ap-x.myqcloud.com"})] {
        CosConfig::check(&context(options, &[])).expect("nothing is wrong so far");
    }
    let minio = serde_json::json!({
        "endpoint_url": "http://minio.local", "config_kwargs": {"s3": {"addressing_style": "path"}},
    });
    CosConfig::check(&context(minio.clone(), &[])).expect("another host takes it");
    assert_eq!(resolve(minio, &[]).expect("valid").object_url("k"), "http://minio.local/bkt-125/k");
}

#[tokio::test]
async fn a_resolution_names_sources_and_no_secret() {
    let location = Location::parse("cosn://bkt-125/dir/a b").expect("valid");
    let aws = [("AWS_ACCESS_KEY_ID", "AWSKEY"), ("AWS_SECRET_ACCESS_KEY", "AWSSECRET")];
    let environment: Vec<_> =
        KEYS.into_iter().chain([("COS_TOKEN", "TOKENV"), ("COS_REGION", "ap-x")]).chain(aws).collect();
    let config = resolve(serde_json::json!({}), &environment).expect("valid");
    let found = config.resolution(&location).await.expect("offline");
    assert_eq!((found.scheme.as_str(), found.backend.as_str(), found.key.as_str()), ("cosn", "cos", "dir/a b"));
    assert_eq!(
        (found.access_key_id.as_deref(), found.has_session_token, found.anonymous),
        (Some("AKENV"), true, false)
    );
    assert_eq!(found.object_url.as_deref(), Some("https://bkt-125.cos.ap-x.myqcloud.com/dir/a%20b"));
    assert_eq!(
        found.list_url.as_deref(),
        Some("https://bkt-125.cos.ap-x.myqcloud.com/?list-type=2&prefix=dir%2F&delimiter=%2F&encoding-type=url")
    );
    assert_eq!(found.sources["credentials"], "environment");
    let shown = format!("{config:?} {}", serde_json::to_string(&found).expect("JSON"));
    for secret in ["SKENV", "TOKENV", "AWS"] {
        assert!(!shown.contains(secret), "{shown}");
    }

    let options = serde_json::json!({"key": "AKOPT", "secret": "SKOPT"});
    let found = resolve(options, &environment).expect("valid").resolution(&location).await.expect("offline");
    assert_eq!((found.access_key_id.as_deref(), found.has_session_token), (Some("AKOPT"), false));
    assert_eq!(found.sources["credentials"], "options");
    let found = resolve(serde_json::json!({"anon": true}), &environment).expect("valid");
    let found = found.resolution(&location).await.expect("offline");
    assert_eq!((found.access_key_id, found.anonymous), (None, true));
}
