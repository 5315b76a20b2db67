//! docs/configuration.md lists the options that the code knows, exactly, and says of each what the code does.

use std::collections::BTreeMap;

use checkpoint_fs::{Environment, OptionUse, Registry, Resolution, Result, StorageOptions};
use serde_json::{Value, json};

use crate::page::{Page, Section, codes};

/// One name of each protocol, with an object to resolve, and what its protocol cannot do without.
const PROTOCOLS: [(&str, &str, &str); 8] = [
    ("file", "/nowhere/object", "{}"),
    ("memory", "memory://nowhere/object", "{}"),
    ("s3", "s3://bucket/object", r#"{"key": "K", "secret": "S"}"#),
    ("cos", "cos://bucket-125/object", r#"{"key": "K", "secret": "S", "region": "ap-guangzhou"}"#),
    ("oss", "oss://bucket/object", r#"{"key": "K", "secret": "S", "region": "cn-hangzhou"}"#),
    ("gs", "gs://bucket/object", r#"{"token": "anon"}"#),
    ("tclake", "tclake://volume/catalog/schema/volume/object", r#"{"sid": "K", "sk": "S"}"#),
    ("az", "az://container/object", r#"{"account_name": "account", "account_key": "a2V5"}"#),
];

/// Names that only go together, and not with `key` and `secret`.
const PAIRS: [(&str, &str); 4] =
    [("username", "password"), ("password", "username"), ("secret_id", "secret_key"), ("secret_key", "secret_id")];

/// Values of every type, and the words that some options want: each option takes one of them at least.
fn values() -> Vec<Value> {
    let words = [
        "x",
        "K",
        "S",
        "a2V5",
        "default",
        "AES256",
        "ap-guangzhou",
        "cn-hangzhou",
        "http://127.0.0.1:9",
        "virtual",
        "legacy",
        "s3v4",
        "when_required",
        "standard",
        "read_only",
        "primary",
        "sig=x",
        "AccountName=account;AccountKey=a2V5",
    ];
    let others = [json!(true), json!(false), json!(7), json!({"x": 1})];
    others.into_iter().chain(words.map(Value::from)).collect()
}

fn registry() -> Registry {
    Registry::with_environment(Environment::default())
}

/// What the tables of a section say.
fn listed(section: &Section) -> BTreeMap<String, OptionUse> {
    let mut listed = BTreeMap::new();
    for table in &section.tables {
        let Some(inside) = table.header[0].strip_prefix("option") else { continue };
        let prefix = codes(inside).first().map(|outer| format!("{outer}.")).unwrap_or_default();
        for row in &table.rows {
            let says = row.last().expect("cells");
            let usage = match says.split([':', ' ']).next() {
                Some("Ignored") => OptionUse::Ignored,
                Some("Refused") => OptionUse::Refused,
                _ => OptionUse::Honoured,
            };
            assert!(!says.is_empty() && !codes(&row[0]).is_empty(), "a row says nothing: {row:?}");
            for name in codes(&row[0]) {
                let twice = listed.insert(format!("{prefix}{name}"), usage).is_some();
                assert!(!twice, "{prefix}{name} is listed twice in {}", section.heading);
            }
        }
    }
    listed
}

/// What the page says of a protocol.
fn documented(protocol: &str) -> BTreeMap<String, OptionUse> {
    let sections = Page::read("docs/configuration.md").sections();
    let of = |heading: &str| {
        let section = sections.iter().find(|section| section.heading == heading);
        listed(section.expect(heading))
    };
    let mut options = of("For every protocol");
    if protocol == "cos" {
        options.extend(of("`s3`"));
    }
    options.extend(of(&format!("`{protocol}`")));
    options
}

/// `base` with an option in it, as deep as its name says.
fn with(base: &str, name: &str, value: Value) -> Value {
    let mut options: Value = serde_json::from_str(base).expect("JSON");
    if let Some((_, other)) = PAIRS.iter().find(|(one, _)| *one == name) {
        options["key"] = Value::Null;
        options["secret"] = Value::Null;
        options[*other] = json!("x");
    }
    let mut place = &mut options;
    for part in name.split('.') {
        place = &mut place[part];
    }
    *place = value;
    options
}

async fn resolved(registry: &Registry, protocol: &str, url: &str, options: Value) -> Result<Resolution> {
    let options = StorageOptions::from_value(json!({protocol: options}))?;
    registry.resolve(url, &options).await
}

#[test]
fn every_option_that_is_known_is_listed_and_no_other() {
    for (protocol, ..) in PROTOCOLS {
        let known = registry().option_names(protocol).expect("known");
        let known: BTreeMap<String, OptionUse> = known.into_iter().map(|option| (option.name, option.usage)).collect();
        let documented = documented(protocol);
        let names = |map: &BTreeMap<String, OptionUse>| map.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&documented), names(&known), "{protocol}: left the page, right the code");
        for (name, usage) in &known {
            let says = documented[name];
            // What a reader takes may still be refused by those that it reads for.
            let stricter = *usage == OptionUse::Honoured && says == OptionUse::Refused;
            assert!(says == *usage || stricter, "{protocol} {name}: the page says {says:?}, the code {usage:?}");
        }
    }
}

#[tokio::test]
async fn what_is_said_to_be_refused_is_and_what_is_said_to_do_nothing_does_nothing() {
    // Profiles must be there.
    let profiles = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&profiles, "[profile x]\nregion = eu-west-1\n").expect("written");
    let file = profiles.path().to_str().expect("text");
    let registry = Registry::with_environment([("AWS_CONFIG_FILE", file)].into_iter().collect());
    for (protocol, url, base) in PROTOCOLS {
        let options = serde_json::from_str(base).expect("JSON");
        let plain = resolved(&registry, protocol, url, options).await.expect(protocol);
        for (name, usage) in documented(protocol) {
            let mut accepted = Vec::new();
            // What is refused may stand there switched off.
            let switched_off = |value: &Value| usage == OptionUse::Refused && *value == json!(false);
            for value in values().into_iter().filter(|value| !switched_off(value)) {
                accepted.extend(resolved(&registry, protocol, url, with(base, &name, value)).await.ok());
            }
            let is_refused = usage == OptionUse::Refused;
            assert_eq!(accepted.is_empty(), is_refused, "{protocol} {name}: the page says {usage:?}");
            if usage == OptionUse::Ignored {
                assert!(accepted.iter().all(|found| *found == plain), "{protocol} {name} changes something");
            }
        }
    }
}

#[test]
fn every_name_of_a_protocol_has_a_page() {
    let headings: Vec<String> = Page::read("docs/configuration.md").sections().into_iter().map(|s| s.heading).collect();
    let text = Page::read("docs/configuration.md").text;
    for name in registry().names() {
        let written = headings.contains(&format!("`{name}`")) || text.contains(&format!("`{name}://`"));
        assert!(written, "{name}");
    }
}
