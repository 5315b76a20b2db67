use super::*;
use crate::ErrorKind;

fn read(options: serde_json::Value) -> Result<S3Options> {
    let options = StorageOptions::from_value(serde_json::json!({"s3a": options})).expect("the right shape");
    S3Options::read(&["s3", "s3a"], None, &options)
}

#[test]
fn s3fs_names_are_understood() {
    let options = read(serde_json::json!({
        "key": "AK", "secret": 12345, "token": "T", "anon": false, "use_listings_cache": true,
        "client_kwargs": {"endpoint_url": "http://minio:9000", "region_name": "eu-west-1", "verify": false},
        "config_kwargs": {
            "s3": {"addressing_style": "virtual"}, "connect_timeout": 2, "read_timeout": 7.5,
            "max_pool_connections": 10, "retries": {"max_attempts": 2, "mode": "adaptive"},
            "signature_version": "s3v4", "request_checksum_calculation": "when_required",
        },
    }))
    .expect("valid");
    assert_eq!(options.secret.as_deref(), Some("12345"));
    let given = |value: &str, source: &'static str| Some(Setting::new(value.to_owned(), source));
    assert_eq!(options.endpoint, given("http://minio:9000", "options: client_kwargs.endpoint_url"));
    assert_eq!(options.region, given("eu-west-1", "options: client_kwargs.region_name"));
    assert_eq!(options.addressing.map(|s| s.value), Some(Some(Addressing::Virtual)));
    assert_eq!(options.verify.map(|s| s.value).as_deref(), Some("false"));
    assert_eq!(options.read_timeout, Some(Duration::from_millis(7_500)));
    assert_eq!((options.concurrency, options.attempts), (Some(10), Some(3)));
}

#[test]
fn contradictions_and_unknown_words_are_refused() {
    for (options, expected) in [
        (serde_json::json!({"endpoint": "http://x"}), "endpoint_url"),
        (serde_json::json!({"config_kwargs": {"s3": {"addressing_style": "bogus"}}}), "addressing_style must be"),
        (serde_json::json!({"config_kwargs": {"signature_version": "s3"}}), "signature_version must be"),
        (
            serde_json::json!({"endpoint_url": "http://a", "client_kwargs": {"endpoint_url": "http://b"}}),
            "client_kwargs.endpoint_url says something else",
        ),
        (serde_json::json!({"key": "A", "client_kwargs": {"aws_access_key_id": "B"}}), "aws_access_key_id says"),
        (serde_json::json!({"key": "A", "username": "B"}), "key and username"),
        (serde_json::json!({"session": {"x": 1}}), "session is not supported"),
        (serde_json::json!({"client_kwargs": {"config": {"s3": {}}}}), "into config_kwargs"),
        (serde_json::json!({"config_kwargs": {"client_cert": "/x.pem"}}), "client_cert is not supported"),
        (serde_json::json!({"config_kwargs": {"retries": {"mode": "bogus"}}}), "mode must be one of"),
        (serde_json::json!({"config_kwargs": {"request_checksum_calculation": "no"}}), "when_required"),
        (serde_json::json!({"s3_additional_kwargs": {"SSECustomerKey": "hunter2"}}), "SSECustomerKey is not supported"),
        (serde_json::json!({"s3_additional_kwargs": {"ACL": {"a": 1}}}), "ACL must be text"),
        (serde_json::json!({"s3_additional_kwargs": "ACL"}), "s3_additional_kwargs must be an object"),
    ] {
        let error = read(options).err().expect(expected);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(expected), "{error}");
    }
    read(serde_json::json!({"key": "A", "secret": "S", "client_kwargs": {"aws_access_key_id": "A"}}))
        .expect("the same twice is no contradiction");
}

#[test]
fn additional_parameters_become_headers() {
    let options = read(serde_json::json!({
        "s3_additional_kwargs": {
            "ServerSideEncryption": "aws:kms", "BucketKeyEnabled": true, "ExpectedBucketOwner": 123, "Nonsense": "x",
            "ACL": null,
        },
    }))
    .expect("valid");
    let shown = |headers: &HeaderMap| {
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("text"))).collect();
        all.sort();
        all
    };
    assert_eq!(shown(&options.headers), ["x-amz-expected-bucket-owner: 123"]);
    assert_eq!(
        shown(&options.write_headers),
        ["x-amz-server-side-encryption-bucket-key-enabled: true", "x-amz-server-side-encryption: aws:kms"]
    );
}

#[test]
fn proxies_and_other_names_of_keys() {
    let options = read(serde_json::json!({
        "username": "AK", "password": "SK", "use_ssl": true, "client_kwargs": {"use_ssl": false},
        "config_kwargs": {"proxies": {"https": "proxy:3128", "http": null}},
    }))
    .expect("valid");
    assert_eq!((options.key.as_deref(), options.secret.as_deref()), (Some("AK"), Some("SK")));
    assert_eq!(options.key_source.as_deref(), Some("options: username"));
    assert_eq!(options.tls.map(|s| s.value), Some(false));
    assert_eq!(options.proxies, Some(vec![("https".to_owned(), "http://proxy:3128".to_owned())]));
}

#[test]
fn a_vendors_own_words_mean_the_same() {
    let own = OwnNames { key: "secret_id", secret: "secret_key", region: "region" };
    let read = |options| {
        let options = StorageOptions::from_value(serde_json::json!({"cos": options})).expect("the right shape");
        S3Options::read(&["cos", "cosn"], Some(&own), &options)
    };
    let options = read(serde_json::json!({"secret_id": "AK", "secret_key": "SK", "region": "ap-x"})).expect("valid");
    assert_eq!((options.key.as_deref(), options.secret.as_deref()), (Some("AK"), Some("SK")));
    assert_eq!(options.key_source.as_deref(), Some("options: secret_id"));
    assert_eq!(options.region, Some(Setting::new("ap-x".to_owned(), "options: region")));
    for (options, expected) in [
        (serde_json::json!({"key": "A", "secret_id": "B"}), "key and secret_id mean the same"),
        (serde_json::json!({"region": "a", "client_kwargs": {"region_name": "b"}}), "region_name says something else"),
    ] {
        assert!(read(options).err().expect(expected).to_string().contains(expected));
    }
}

#[test]
fn the_digest_of_deletes_cannot_be_left_out() {
    read(serde_json::json!({"delete_content_md5": true})).expect("it is sent anyway");
    let error = read(serde_json::json!({"delete_content_md5": false})).err().expect("it is needed");
    assert!(error.to_string().contains("some demand it"), "{error}");
}
