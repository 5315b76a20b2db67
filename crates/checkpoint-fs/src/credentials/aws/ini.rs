//! The shared files: INI whose values may be indented blocks of settings of their own.

use std::collections::BTreeMap;
use std::fmt;

pub(super) use crate::ini::{Fault, strip};

/// A setting's value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text; of several lines, joined by line breaks.
    Text(String),
    /// An indented block of `key = value` lines. Its keys keep their case.
    Nested(BTreeMap<String, String>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Value::Text(_) => "Text(***)",
            Value::Nested(_) => "Nested(***)",
        })
    }
}

/// The settings of one section, by their names in lower case.
pub(crate) type Section = BTreeMap<String, Value>;

/// A setting's text; `None` when it is not there or is an indented block.
pub(super) fn text<'s>(section: &'s Section, name: &str) -> Option<&'s str> {
    match section.get(name)? {
        Value::Text(text) => Some(text),
        Value::Nested(_) => None,
    }
}

/// Parses a text. Sections are in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Section)>, Fault> {
    crate::ini::parse(text)?
        .into_iter()
        .map(|(header, texts)| {
            let section = texts.into_iter().map(|(name, text)| {
                let value = if text.text.starts_with('\n') {
                    Value::Nested(nested(&text.text).ok_or_else(|| {
                        let why = format!("a line of an indented block is not `key = value`: setting={name}");
                        Fault::new(text.line, why)
                    })?)
                } else {
                    Value::Text(text.text)
                };
                Ok((name, value))
            });
            Ok((header, section.collect::<Result<Section, Fault>>()?))
        })
        .collect()
}

/// The lines of an indented block. Where a key is there twice the last one counts.
fn nested(text: &str) -> Option<BTreeMap<String, String>> {
    text.split(is_line_end)
        .map(strip)
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once('=').map(|(key, value)| (strip(key).to_owned(), strip(value).to_owned())))
        .collect()
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_blocks() {
        let sections = parse("[a]\ns3 =\n  Style = path\n\n  # no\n  b = c = d\nx = y").expect("valid");
        let expected = [("Style", "path"), ("b", "c = d")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(sections[0].1["s3"], Value::Nested(expected.into()));
        assert_eq!(sections[0].1["x"], Value::Text("y".to_owned()));
    }

    #[test]
    fn a_block_of_something_else_is_named_by_its_line() {
        let fault = parse("[a]\nx = 1\ns3 =\n  hunter2").expect_err("no setting");
        assert_eq!(fault.line, 3);
        assert!(fault.why.contains("setting=s3") && !fault.why.contains("hunter2"), "{fault:?}");
    }
}
