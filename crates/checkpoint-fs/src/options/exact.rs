//! JSON in which no digit of a number is lost.

use serde_json::{Number, Value};

/// Parses JSON. A number that cannot be held as it is written (too long, or spelt as `1e5`) becomes a text of
/// the same characters, since it may be somebody's key.
pub(crate) fn parse(text: &str) -> serde_json::Result<Value> {
    let value = serde_json::from_str(text)?;
    match quoted(text) {
        Some(text) => serde_json::from_str(&text),
        None => Ok(value),
    }
}

/// The same valid JSON with such numbers in quotes; `None` when there are none.
fn quoted(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with('"') { string_length(rest) } else { number_length(rest) };
        let token = &rest[..length];
        let exact = token.starts_with('"')
            || serde_json::from_str::<Number>(token).is_ok_and(|number| number.to_string() == token);
        if exact {
            out.push_str(token);
        } else {
            changed = true;
            out.extend(["\"", token, "\""]);
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    changed.then_some(out)
}

fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

fn number_length(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_characters() {
        for (text, expected) in [
            ("12", json!(12)),
            ("1e5", json!("1e5")),
            (" [1, 1.50, -0.5] ", json!([1, "1.50", -0.5])),
            ("123456789012345678901234567890", json!("123456789012345678901234567890")),
            (r#"{"a\"1e5": "1e5", "b": {"c": 1E5}}"#, json!({"a\"1e5": "1e5", "b": {"c": "1E5"}})),
            (r#"["\\", 1e1, "x"]"#, json!(["\\", "1e1", "x"])),
            ("true", json!(true)),
        ] {
            assert_eq!(parse(text).expect(text), expected, "{text}");
        }
        for text in ["", "01", "1e", "NaN", "{\"a\":1e5,}", "-"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
