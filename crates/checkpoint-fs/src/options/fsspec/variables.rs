//! Variables: `FSSPEC_<PROTOCOL>` with an object, and `FSSPEC_<PROTOCOL>_<KEYWORD>` with one value.

use serde_json::Value;

use super::Configuration;
use crate::options::{Environment, exact};

/// What all of these variables begin with, in this case.
const PREFIX: &str = "FSSPEC_";
/// Parts of the names of options whose text must reach the signature as it is.
const CREDENTIALS: [&str; 4] = ["key", "secret", "token", "password"];

/// Reads the variables.
pub(super) fn read(environment: &Environment, configuration: &mut Configuration) {
    let mut keywords = Vec::new();
    for (name, text) in environment.iter() {
        let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !rest.is_empty() && !rest.starts_with('_')) else {
            continue;
        };
        match rest.split_once('_') {
            Some((protocol, keyword)) => keywords.push((name, protocol, keyword, text)),
            None => match exact::parse(text) {
                Ok(Value::Object(kwargs)) => {
                    for (key, value) in kwargs {
                        configuration.set(&rest.to_lowercase(), &key, value, &source(name));
                    }
                }
                _ => tracing::warn!(variable = name, "the variable is not a JSON object, and is ignored"),
            },
        }
    }
    for (name, protocol, keyword, text) in keywords {
        let keyword = keyword.to_lowercase();
        configuration.set(&protocol.to_lowercase(), &keyword, value(name, &keyword, text), &source(name));
    }
}

/// A value is JSON where it can be, else text. Numbers and truth values keep their text: readers of options
/// take them from it, and a secret that looks like one is not turned into another.
fn value(name: &str, keyword: &str, text: &str) -> Value {
    let scalar = match exact::parse(text) {
        Ok(value @ (Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_))) => return value,
        Ok(_) => true,
        Err(_) => matches!(text.trim(), "NaN" | "Infinity" | "-Infinity"),
    };
    if scalar && CREDENTIALS.iter().any(|part| keyword.contains(part)) {
        tracing::warn!(
            variable = name,
            "the value looks like a number or a truth value, and fsspec would turn it into one; its text is used as \
             it stands. The AWS_* variables (or the service's own) are safe for such values, and so are quotes"
        );
    }
    Value::String(text.to_owned())
}

fn source(name: &str) -> String {
    format!("environment: {name}")
}
