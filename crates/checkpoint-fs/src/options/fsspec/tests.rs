use std::path::Path;

use serde_json::json;

use super::*;

const S3: [&str; 2] = ["s3", "s3a"];

fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join(".config/fsspec");
    std::fs::create_dir_all(&directory).expect("made");
    for (name, text) in files {
        std::fs::write(directory.join(name), text).expect("written");
    }
    home
}

fn merge(home: &Path, variables: &[(&str, &str)], explicit: Value) -> Result<StorageOptions> {
    let home = home.to_str().expect("text");
    let environment = variables.iter().copied().chain([("HOME", home)]).collect();
    layered(&S3, "s3", &StorageOptions::from_value(explicit).expect("the right shape"), &environment)
}

fn kwargs(options: &StorageOptions) -> Value {
    Value::Object(options.get(&["s3"]).cloned().unwrap_or_default())
}

#[test]
fn later_layers_replace_whole_values_and_null_is_one() {
    let home = home(&[
        ("b.json", r#"{"s3": {"key": "JSON", "client_kwargs": {"region_name": "x"}, "use_ssl": false}}"#),
        ("a.ini", "[s3]\nkey = INI\nsecret = 50%%\n"),
        ("c.yaml", "not read"),
    ]);
    let variables = [
        ("FSSPEC_S3", r#"{"client_kwargs": {"endpoint_url": "http://a"}, "token": "T"}"#),
        ("FSSPEC_s3_Key", "VARIABLE"),
        ("FSSPEC_S3A_TOKEN", "\"T2\""),
        ("FSSPEC_GS_TOKEN", "other"),
        ("fsspec_s3_anon", "true"),
        ("FSSPEC__S3_KEY", "no"),
    ];
    let merged = merge(home.path(), &variables, json!({"s3": {"use_ssl": null}})).expect("valid");
    let expected = json!({
        "key": "VARIABLE", "secret": "50%", "client_kwargs": {"endpoint_url": "http://a"}, "token": "T2", "use_ssl": null,
    });
    assert_eq!(kwargs(&merged), expected);
    for (option, source) in [
        ("key", "environment: FSSPEC_s3_Key"),
        ("secret", "fsspec config file: a.ini"),
        ("client_kwargs.endpoint_url", "environment: FSSPEC_S3 (endpoint_url)"),
        ("token", "environment: FSSPEC_S3A_TOKEN"),
        ("use_ssl", "options: use_ssl"),
        ("anon", "options: anon"),
    ] {
        assert_eq!(merged.source(&S3, option), source);
    }
}

#[test]
fn values_are_json_where_they_can_be_and_numbers_keep_their_text() {
    for (text, expected) in [
        ("plain", json!("plain")),
        ("12345", json!("12345")),
        ("1e5", json!("1e5")),
        ("true", json!("true")),
        ("NaN", json!("NaN")),
        ("007", json!("007")),
        (" 42 ", json!(" 42 ")),
        ("\"12\"", json!("12")),
        ("null", json!(null)),
        ("", json!("")),
        ("[1]", json!([1])),
        (r#"{"a": 1e5}"#, json!({"a": "1e5"})),
    ] {
        let merged = merge(home(&[]).path(), &[("FSSPEC_S3_SECRET", text)], json!({})).expect("valid");
        assert_eq!(kwargs(&merged), json!({"secret": expected}), "{text:?}");
    }
}

#[test]
fn the_name_in_the_url_decides_among_explicit_options() {
    let options = StorageOptions::from_value(json!({"s3": {"key": "A"}, "s3a": {"key": "B"}})).expect("valid");
    let environment = Environment::default();
    for (written, key) in [("s3", "A"), ("s3a", "B")] {
        let merged = layered(&S3, written, &options, &environment).expect("valid");
        assert_eq!(kwargs(&merged), json!({"key": key}));
        assert_eq!(merged.protocols().collect::<Vec<_>>(), ["s3"]);
    }
    let other = StorageOptions::from_value(json!({"s3": {"key": "A"}})).expect("valid");
    assert_eq!(kwargs(&layered(&S3, "s3a", &other, &environment).expect("valid")), json!({"key": "A"}));
}

#[test]
fn sections_inherit_and_refer() {
    let text = "[DEFAULT]\nuser = AK\n[s3]\nkey = %(user)s-%(Tail)s\ntail = %(end)s\nend = 9\n[S3]\nkey = other\n";
    let merged = merge(home(&[("x.ini", text)]).path(), &[], json!({})).expect("valid");
    assert_eq!(kwargs(&merged), json!({"user": "AK", "key": "AK-9", "tail": "9", "end": "9"}));
}

#[test]
fn a_broken_file_is_named_and_its_values_are_not() {
    for (name, text) in [
        ("a.json", "{\"s3\": {\"secret\": \"hunter2\""),
        ("a.json", ""),
        ("a.json", "[\"hunter2\"]"),
        ("a.json", "{\"gs\": \"hunter2\"}"),
        ("a.ini", "secret = hunter2"),
        ("a.ini", "[s3]\nsecret = hunter2%"),
        ("a.ini", "[gs]\nsecret = %(hunter2)s"),
        ("a.ini", "[s3]\na = %(a)s"),
        ("a.ini", "[s3]\nsecret = 1\nSECRET = hunter2"),
        ("a.ini", "[s3]\n[s3]"),
        ("a.ini", "[s3]\nhunter2"),
    ] {
        let error = merge(home(&[(name, text)]).path(), &[], json!({})).expect_err(text);
        assert_eq!(error.kind(), crate::ErrorKind::InvalidConfig, "{text}");
        assert!(error.to_string().contains(name) && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn the_directory_is_the_one_that_is_named() {
    let home = home(&[("a.json", r#"{"s3": {"key": "HOME"}}"#)]);
    let other = tempfile::tempdir().expect("a directory");
    std::fs::write(other.path().join("a.json"), r#"{"s3": {"key": "OTHER"}}"#).expect("written");
    let named =
        |directory: &str| kwargs(&merge(home.path(), &[(files::CONFIG_DIR, directory)], json!({})).expect("valid"));
    assert_eq!(named(other.path().to_str().expect("text")), json!({"key": "OTHER"}));
    assert_eq!((named(""), named("/nowhere")), (json!({}), json!({})));
    let plain = layered(&["file", "local"], "file", &StorageOptions::new(), &Environment::default()).expect("valid");
    assert_eq!(plain, StorageOptions::new());
}

#[test]
fn other_protocols_stay_and_nothing_is_added_for_nothing() {
    let home = home(&[]);
    let given = json!({"s3a": {"key": "A"}, "mine": {"x": 1}});
    let merged = merge(home.path(), &[], given).expect("valid");
    assert_eq!(merged.protocols().collect::<Vec<_>>(), ["mine", "s3"]);
    assert_eq!(merge(home.path(), &[], json!({})).expect("valid").protocols().count(), 0);
}
