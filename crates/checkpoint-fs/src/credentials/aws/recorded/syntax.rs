//! Texts thrown together by chance, read by us and by Python.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::super::files::{AwsFiles, CONFIG_FILE};
use super::super::ini::{self, Section, Value};
use super::super::words;
use crate::options::Environment;

fn fixture() -> Json {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/credentials/syntax.json");
    serde_json::from_slice(&std::fs::read(path).expect("is there")).expect("JSON")
}

fn shown<'s>(sections: impl IntoIterator<Item = (&'s String, &'s Section)>) -> Json {
    let settings = |section: &Section| -> BTreeMap<String, Json> {
        let value = |value: &Value| match value {
            Value::Text(text) => json!(text),
            Value::Nested(settings) => json!(settings),
        };
        section.iter().map(|(name, v)| (name.clone(), value(v))).collect()
    };
    let all: BTreeMap<&String, _> = sections.into_iter().map(|(name, section)| (name, settings(section))).collect();
    json!(all)
}

#[test]
fn config_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config");
    let environment: Environment = [(CONFIG_FILE, path.to_str().expect("UTF-8"))].into_iter().collect();
    let fixture = fixture();
    let texts = fixture["files"].as_array().expect("a list");
    assert!(texts.len() > 1_000);
    for row in texts {
        let text = row[0].as_str().expect("text");
        let sections = ini::parse(text);
        let ours = sections.as_ref().map_or(Json::Null, |found| shown(found.iter().map(|(name, s)| (name, s))));
        assert_eq!(ours, row[1], "{text:?} {sections:?}");
        if sections.is_err() {
            assert!(row[2].is_null(), "{text:?}");
            continue;
        }
        std::fs::write(&path, text).expect("writable");
        let profiles = AwsFiles::load(&environment).map_or(Json::Null, |files| shown(&files.config_profiles));
        assert_eq!(profiles, row[2], "{text:?}");
    }
}

#[test]
fn words_of_a_shell() {
    for row in fixture()["words"].as_array().expect("a list") {
        let text = row[0].as_str().expect("text");
        assert_eq!(words::split(text).map_or(Json::Null, |words| json!(words)), row[1], "{text:?}");
    }
}
