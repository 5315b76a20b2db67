//! The Azure backend against a scripted server that breaks the rules: tokens, lost replies, odd answers.
#![cfg(all(feature = "az", feature = "s3", feature = "cos"))]

#[path = "../s3_client/fake.rs"]
#[allow(dead_code, reason = "what is for the protocol of S3 is not used here")]
mod fake;

mod blocks;
mod faults;
mod tokens;

use std::time::Duration;

use checkpoint_fs::{AzConfig, AzStorage, Environment, Location, ObjectPath, OpenContext, RetryPolicy, StorageOptions};

use crate::fake::{Fake, Reply};

/// A key that is one, and secret.
const KEY: &str = "aHVudGVyMmh1bnRlcjJodW50ZXIy";

fn path(text: &str) -> ObjectPath {
    ObjectPath::parse(text).expect("valid")
}

/// A storage at `az://data/base` on the server, with short pauses.
fn storage(fake: &Fake, options: serde_json::Value, variables: &[(&str, &str)]) -> AzStorage {
    let mut options = options;
    options["account_host"] = format!("{}/acct", fake.url).into();
    let mut context = OpenContext::default();
    context.options = StorageOptions::from_value(serde_json::json!({ "az": options })).expect("the right shape");
    context.environment = variables.iter().copied().collect::<Environment>();
    let location = Location::parse("az://data/base").expect("valid");
    let config = AzConfig::resolve(&location, &context).expect("valid");
    let config = config.with_retry(RetryPolicy::new(5, Duration::from_millis(5), Duration::from_millis(20)));
    AzStorage::new(config, &location).expect("opens")
}

/// The same with an account key.
fn with_key(fake: &Fake) -> AzStorage {
    storage(fake, serde_json::json!({ "account_key": KEY }), &[])
}

/// An error as Azure writes it.
fn error(status: u16, code: &str) -> Reply {
    let body = format!(
        "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>{code}</Code><Message>the fake says {code}\n\
         RequestId:REQ1\nTime:2026-01-01T00:00:00Z</Message></Error>"
    );
    Reply::status(status, &body).with("x-ms-error-code", code).with("x-ms-request-id", "REQ1")
}
