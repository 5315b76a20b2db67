//! `fixtures/resolution`: each case through the public API, in a home directory of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use checkpoint_fs::{Environment, Registry, StorageOptions};
use serde_json::{Map, Value, json};

/// What is compared. Of an error, only that there is one.
const COMPARED: [&str; 9] = [
    "access_key_id",
    "has_session_token",
    "region",
    "signing_region",
    "endpoint",
    "addressing",
    "object_url",
    "list_url",
    "anonymous",
];

fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/resolution").join(name);
    serde_json::from_str(&fs::read_to_string(path).expect("there")).expect("JSON")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

fn text<'v>(case: &'v Value, key: &str, default: &'v str) -> &'v str {
    case.get(key).map_or(default, |value| value.as_str().expect("text"))
}

/// Writes the files of a case into its home directory.
fn furnish(home: &Path, case: &Value) {
    let write = |name: PathBuf, text: &Value| {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("made");
        fs::write(path, text.as_str().expect("text")).expect("written");
    };
    for (key, name) in [("aws_credentials", ".aws/credentials"), ("aws_config", ".aws/config")] {
        case.get(key).into_iter().for_each(|text| write(name.into(), text));
    }
    for (key, directory) in [("fsspec_config", ".config/fsspec"), ("files", "")] {
        for (name, text) in case.get(key).and_then(Value::as_object).into_iter().flatten() {
            write(Path::new(directory).join(name), text);
        }
    }
}

fn environment(home: &Path, case: &Value, base: &[(&str, &str)]) -> Environment {
    let home = home.to_str().expect("text");
    let given = case.get("env").and_then(Value::as_object).into_iter().flatten();
    let given = given.map(|(name, value)| (name.clone(), value.as_str().expect("text").replace("${HOME}", home)));
    let base = base.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    base.chain([("HOME".to_owned(), home.to_owned())]).chain(given).collect()
}

fn options(case: &Value, protocol: &str) -> StorageOptions {
    let given = case.get("storage_options").cloned().unwrap_or_else(|| json!({}));
    let nested = given.get(protocol).is_some();
    let whole = if nested { given } else { json!({protocol: given}) };
    StorageOptions::from_json(&whole.to_string()).expect("the right shape")
}

/// Our answer, with the keys that are compared; `{"error": true}` for an error.
async fn answer(case: &Value, base: &[(&str, &str)]) -> Map<String, Value> {
    let home = tempfile::tempdir().expect("a directory");
    furnish(home.path(), case);
    let registry = Registry::with_environment(environment(home.path(), case, base));
    let protocol = text(case, "protocol", "s3");
    let bucket = text(case, "bucket", "my-bucket");
    let options = options(case, protocol);
    let key = text(case, "key", "dir/obj.bin");
    let mut answer = match registry.resolve(&format!("{protocol}://{bucket}/{key}"), &options).await {
        Ok(resolution) => serde_json::to_value(resolution).expect("serialises"),
        Err(error) => {
            assert!(error.hint().is_some() || !error.message().is_empty());
            return Map::from_iter([("error".to_owned(), Value::Bool(true))]);
        }
    };
    let beside = format!("{protocol}://{bucket}/{}x", text(case, "prefix", "dir/"));
    let listed = registry.resolve(&beside, &options).await.expect("as the object");
    answer["list_url"] = json!(listed.list_url);
    let answer = answer.as_object().expect("an object").clone();
    answer.into_iter().filter(|(key, _)| COMPARED.contains(&key.as_str())).collect()
}

fn expected(case: &Value) -> Map<String, Value> {
    let expect = &case["expect"];
    if !expect["error"].is_null() && expect["object_url"].is_null() {
        return Map::from_iter([("error".to_owned(), Value::Bool(true))]);
    }
    COMPARED.iter().map(|key| ((*key).to_owned(), expect[key].clone())).collect()
}

/// How our answer differs from theirs.
fn difference(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> Map<String, Value> {
    if ours.contains_key("error") != theirs.contains_key("error") {
        return ours.clone();
    }
    ours.iter().filter(|(key, value)| theirs.get(*key) != Some(*value)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Differences that are meant: our side of each, by the case's ID.
fn meant() -> BTreeMap<String, Map<String, Value>> {
    let mut meant = BTreeMap::new();
    for group in list(&fixture("differences.json")["groups"]) {
        assert!(!group["reason"].as_str().expect("a reason").is_empty());
        for (id, ours) in group["cases"].as_object().expect("cases") {
            let again = meant.insert(id.clone(), ours.as_object().expect("keys").clone());
            assert!(again.is_none(), "{id} is listed twice");
        }
    }
    meant
}

#[tokio::test]
async fn our_answers_are_theirs_but_for_the_differences_that_are_listed() {
    let mut meant = meant();
    let mut wrong = Map::new();
    let mut seen = BTreeSet::new();
    for (file, base) in [("recorded.json", &[][..]), ("further.json", &[("AWS_EC2_METADATA_DISABLED", "true")][..])] {
        for case in list(&fixture(file)["cases"]) {
            let id = text(&case, "id", "").to_owned();
            assert!(seen.insert(id.clone()), "{id} is there twice");
            let found = difference(&answer(&case, base).await, &expected(&case));
            if meant.remove(&id).unwrap_or_default() != found {
                wrong.insert(id, Value::Object(found));
            }
        }
    }
    assert!(meant.is_empty(), "differences of cases that are not there: {:?}", meant.keys());
    let shown = serde_json::to_string_pretty(&wrong).expect("serialises");
    assert!(wrong.is_empty(), "{} of {} cases differ from theirs, unlisted:\n{shown}", wrong.len(), seen.len());
}
