//! Reading one protocol's keywords: typed, each key read once, unknown ones named.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::known::{OptionUse, Record};
use crate::error::{Error, Result};

/// The keywords of one protocol while they are being read. Call [`KwArgs::finish`] at the end: what was
/// never asked for is unknown, and an error.
#[derive(Debug)]
pub struct KwArgs<'a> {
    protocol: &'a str,
    prefix: String,
    map: Option<&'a Map<String, Value>>,
    known: BTreeSet<&'static str>,
    /// Known ones that do nothing.
    ignored: BTreeSet<&'static str>,
    problems: Vec<String>,
    record: Record,
}

impl<'a> KwArgs<'a> {
    /// Starts reading.
    pub fn new(protocol: &'a str, map: Option<&'a Map<String, Value>>) -> Self {
        Self::noting(protocol, map, Record::default())
    }

    /// Starts reading, and notes which keywords are known.
    pub(super) fn noting(protocol: &'a str, map: Option<&'a Map<String, Value>>, record: Record) -> Self {
        Self {
            protocol,
            prefix: String::new(),
            map,
            known: BTreeSet::new(),
            ignored: BTreeSet::new(),
            problems: Vec::new(),
            record,
        }
    }

    fn raw(&mut self, key: &'static str) -> Option<&'a Value> {
        self.record.note(&format!("{}{key}", self.prefix), OptionUse::Honoured);
        self.holder(key)
    }

    /// A keyword that is known for those inside of it.
    fn holder(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.insert(key);
        self.map.and_then(|m| m.get(key)).filter(|v| !v.is_null())
    }

    fn wrong(&mut self, key: &str, wanted: &str) {
        self.problems.push(format!("{}{key} must be {wanted}", self.prefix));
    }

    /// A text. Numbers and booleans keep their JSON text, since an all-digit key is still a key.
    pub fn text(&mut self, key: &'static str) -> Option<String> {
        match self.raw(key)? {
            Value::String(s) => Some(s.clone()),
            Value::Number(n) => Some(n.to_string()),
            Value::Bool(b) => Some(b.to_string()),
            _ => {
                self.wrong(key, "text");
                None
            }
        }
    }

    /// A value of any type, for keywords that take several.
    pub fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.raw(key)
    }

    /// A truth value; the words `true` and `false` in any case count too, and 1 and 0. An empty text is not
    /// given.
    pub fn flag(&mut self, key: &'static str) -> Option<bool> {
        let word = match self.raw(key)? {
            Value::Bool(b) => return Some(*b),
            Value::Number(n) => n.to_string(),
            Value::String(s) => s.trim().to_ascii_lowercase(),
            _ => "neither".to_owned(),
        };
        match word.as_str() {
            "" => None,
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => {
                self.wrong(key, "true or false");
                None
            }
        }
    }

    /// A whole number of at least `min`.
    pub fn count(&mut self, key: &'static str, min: u64) -> Option<u64> {
        let value = self.raw(key)?;
        let number = value.as_u64().or_else(|| value.as_str().and_then(|s| s.trim().parse().ok()));
        match number {
            Some(n) if n >= min => Some(n),
            _ => {
                self.wrong(key, &format!("a whole number of at least {min}"));
                None
            }
        }
    }

    /// A duration in seconds, whole or fractional, above zero.
    pub fn seconds(&mut self, key: &'static str) -> Option<Duration> {
        let value = self.raw(key)?;
        let number = value.as_f64().or_else(|| value.as_str().and_then(|s| s.trim().parse().ok()));
        match number.and_then(|n| Duration::try_from_secs_f64(n).ok()).filter(|d| !d.is_zero()) {
            Some(d) => Some(d),
            None => {
                self.wrong(key, "a number of seconds above zero");
                None
            }
        }
    }

    /// Keywords that are accepted and do nothing here, with a debug line.
    pub fn ignored(&mut self, keys: &[&'static str], why: &str) {
        self.ignored.extend(keys);
        for key in keys {
            self.record.correct(&format!("{}{key}", self.prefix), OptionUse::Ignored);
            if self.raw(key).is_some() {
                tracing::debug!(protocol = self.protocol, option = key, why, "option ignored");
            }
        }
    }

    /// Keywords that cannot be honoured: giving one is a problem, for this reason, unless its value is `null`,
    /// `false`, or empty.
    pub fn refused(&mut self, keys: &[&'static str], why: &str) {
        self.ignored.extend(keys);
        for key in keys {
            self.record.correct(&format!("{}{key}", self.prefix), OptionUse::Refused);
            let given = match self.raw(key) {
                None | Some(Value::Bool(false)) => false,
                Some(Value::Object(map)) => !map.is_empty(),
                Some(Value::Array(list)) => !list.is_empty(),
                Some(Value::String(text)) => !text.is_empty() && !text.trim().eq_ignore_ascii_case("false"),
                Some(_) => true,
            };
            if given {
                self.problems.push(format!("{}{key} is not supported: {why}", self.prefix));
            }
        }
    }

    /// Whether an object is given, whose keys the caller reads by itself; `inside` are those that it knows.
    #[cfg(any(feature = "s3", feature = "cos"))]
    pub(crate) fn object<'n>(&mut self, key: &'static str, inside: impl Iterator<Item = (&'n str, OptionUse)>) -> bool {
        for (name, usage) in inside {
            self.record.note(&format!("{}{key}.{name}", self.prefix), usage);
        }
        match self.holder(key) {
            Some(Value::Object(_)) => true,
            Some(_) => {
                self.wrong(key, "an object");
                false
            }
            None => false,
        }
    }

    /// A nested object, read by the closure with its own known keys.
    pub fn nested<R>(&mut self, key: &'static str, read: impl FnOnce(&mut KwArgs<'a>) -> R) -> R {
        let map = match self.holder(key) {
            Some(Value::Object(map)) => Some(map),
            Some(_) => {
                self.wrong(key, "an object");
                None
            }
            None => None,
        };
        let mut inner = KwArgs::noting(self.protocol, map, self.record.clone());
        inner.prefix = format!("{}{key}.", self.prefix);
        let result = read(&mut inner);
        inner.note_unknown();
        self.problems.append(&mut inner.problems);
        result
    }

    fn note_unknown(&mut self) {
        let Some(map) = self.map else { return };
        for key in map.keys().filter(|k| !self.known.contains(k.as_str())) {
            let near = nearest(key, self.known.iter().copied());
            let near = near.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
            self.problems.push(format!("{}{key} is not an option of `{}`{near}", self.prefix, self.protocol));
        }
    }

    /// Adds a problem found by the caller's own checks.
    pub fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) that lists every problem, values left out.
    pub fn finish(mut self) -> Result<()> {
        self.note_unknown();
        if self.problems.is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = self.known.difference(&self.ignored).copied().collect();
        let hint = match known.as_slice() {
            [] => format!("`{}` has no options", self.protocol),
            known => format!("options of `{}`: {}", self.protocol, known.join(", ")),
        };
        Err(Error::invalid_config(format!("storage options of `{}`: {}", self.protocol, self.problems.join("; ")))
            .with_hint(hint))
    }
}

/// The known name that is nearest to what was written, when it is near at all.
pub(crate) fn nearest<'n>(written: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    known
        .map(|name| (strsim::jaro_winkler(&written.to_lowercase(), name), name))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_reported_once_and_no_value_is_shown() {
        let value = serde_json::json!({"secert": "hunter2", "anon": "maybe", "client_kwargs": {"region": "x"}});
        let mut kw = KwArgs::new("s3", value.as_object());
        kw.text("secret");
        kw.flag("anon");
        kw.nested("client_kwargs", |inner| inner.text("region_name"));
        kw.ignored(&["max_paths"], "it does nothing");
        let error = kw.finish().expect_err("has problems");
        assert_eq!(error.hint(), Some("options of `s3`: anon, client_kwargs, secret"));
        let text = error.to_string();
        assert!(text.contains("did you mean `secret`"), "{text}");
        assert!(text.contains("anon must be true or false"), "{text}");
        assert!(text.contains("client_kwargs.region is not an option"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn flags_are_words_and_digits() {
        for (value, expected) in [
            (serde_json::json!(true), Ok(Some(true))),
            (serde_json::json!("False"), Ok(Some(false))),
            (serde_json::json!(" true "), Ok(Some(true))),
            (serde_json::json!("0"), Ok(Some(false))),
            (serde_json::json!(1), Ok(Some(true))),
            (serde_json::json!(""), Ok(None)),
            (serde_json::json!(null), Ok(None)),
            (serde_json::json!("no"), Err(())),
            (serde_json::json!(2), Err(())),
            (serde_json::json!([]), Err(())),
        ] {
            let map = serde_json::json!({"anon": value});
            let mut kw = KwArgs::new("s3", map.as_object());
            let read = kw.flag("anon");
            assert_eq!(kw.finish().map(|()| read).map_err(drop), expected, "{map}");
        }
    }

    #[test]
    fn what_is_refused_may_stand_there_switched_off() {
        let value = serde_json::json!({"a": null, "b": false, "c": {}, "d": "x", "e": 0});
        let mut kw = KwArgs::new("s3", value.as_object());
        kw.refused(&["a", "b", "c", "d", "e"], "there is nothing of the kind");
        let error = kw.finish().expect_err("two are given");
        let expected = ["d is not supported: there is nothing of the kind", "e is not supported"];
        assert!(expected.iter().all(|part| error.to_string().contains(part)), "{error}");
        assert_eq!(error.to_string().matches("not supported").count(), 2, "{error}");
    }

    #[test]
    fn an_all_digit_secret_keeps_its_text() {
        let value = serde_json::json!({"secret": 12345, "key": "000123"});
        let mut kw = KwArgs::new("s3", value.as_object());
        assert_eq!(kw.text("secret").as_deref(), Some("12345"));
        assert_eq!(kw.text("key").as_deref(), Some("000123"));
        kw.finish().expect("no problems");
    }
}
