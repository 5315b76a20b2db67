//! `ckpt fs resolve`: its JSON, its exit status, and that it shows no secret.

mod program;

use std::path::Path;

use program::ckpt;

const KEYS: [&str; 14] = [
    "scheme",
    "backend",
    "bucket",
    "key",
    "endpoint",
    "region",
    "signing_region",
    "addressing",
    "access_key_id",
    "has_session_token",
    "anonymous",
    "object_url",
    "list_url",
    "sources",
];

const OPTIONS: &str = r#"{"s3": {"key": "AKID", "secret": "hunter2", "token": "hunter3",
    "endpoint_url": "http://127.0.0.1:9000"}}"#;

fn json(args: &[&str]) -> serde_json::Value {
    let ended = ckpt(Path::new("."), &[&["fs", "resolve", "--json"], args].concat()).exits(0);
    serde_json::from_str(&ended.out).expect("JSON")
}

#[test]
fn every_key_is_there_for_every_scheme() {
    for args in [
        &["s3://bkt/dir/x", "--storage-options", OPTIONS][..],
        &["memory://a/b"],
        &["./some/file"],
        &["gs://bkt/x", "--storage-options", r#"{"gs": {"token": "anon"}}"#],
        &["cos://b-1/x", "--storage-options", r#"{"cos": {"anon": true, "client_kwargs": {"region_name": "ap-x"}}}"#],
    ] {
        let shown = json(args);
        let keys: Vec<&str> = shown.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, KEYS, "{args:?}");
    }
}

#[test]
fn settings_are_shown_and_secrets_are_not() {
    let args = ["fs", "resolve", "s3://bkt/dir/x", "--storage-options", OPTIONS];
    let text = ckpt(Path::new("."), &args).exits(0).out;
    let shown = json(&args[2..]);
    assert_eq!(shown["access_key_id"], "AKID");
    assert_eq!(shown["has_session_token"], true);
    assert_eq!(shown["object_url"], "http://127.0.0.1:9000/bkt/dir/x");
    assert_eq!(shown["sources"]["endpoint"], "options: endpoint_url");
    assert!(text.contains("  endpoint        http://127.0.0.1:9000  (options: endpoint_url)"), "{text}");
    assert!(!format!("{text}{shown}").contains("hunter"), "{text}{shown}");
}

#[test]
fn what_is_wrong_ends_with_2() {
    for args in [
        &["s3://bkt/x", "--storage-options", r#"{"s3": {"key": "AKID"}}"#][..],
        &["s3://bkt/x", "--storage-options", r#"{"s3": {"anon": true, "endpoint_url": "minio:9000"}}"#],
        &["s3://b@kt/x"],
        &["nothing://bkt/x"],
    ] {
        let ended = ckpt(Path::new("."), &[&["fs", "resolve"], args].concat()).exits(2);
        assert_eq!(ended.out, "");
        assert!(ended.err.starts_with("error: "), "{}", ended.err);
    }
}
