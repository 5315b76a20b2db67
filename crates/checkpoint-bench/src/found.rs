//! What a side found, and that it is what had to be found.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The fields of a line of JSON.
#[derive(Debug, Clone)]
pub(crate) struct Found(Value);

impl Found {
    /// Reads a line.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        serde_json::from_str(line).map(Self).with_context(|| format!("a side said what is no JSON: line={line}"))
    }

    /// A number that must be there.
    pub(crate) fn number(&self, field: &str) -> Result<f64> {
        self.0.get(field).and_then(Value::as_f64).with_context(|| format!("a side did not say: field={field} {self}"))
    }

    /// A whole number that must be there.
    pub(crate) fn count(&self, field: &str) -> Result<u64> {
        self.0.get(field).and_then(Value::as_u64).with_context(|| format!("a side did not say: field={field} {self}"))
    }

    /// Fails unless a side found this number: a wrong answer has no speed.
    pub(crate) fn must_be(&self, side: &str, field: &str, expected: u64) -> Result<()> {
        let found = self.count(field)?;
        ensure!(found == expected, "a side is wrong: side={side} field={field} found={found} expected={expected}");
        Ok(())
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_an_error() {
        let found = Found::parse(r#"{"mark": "done", "rows": 3, "seconds": 0.5}"#).unwrap();
        found.must_be("ours", "rows", 3).unwrap();
        let wrong = found.must_be("ours", "rows", 4).unwrap_err().to_string();
        assert_eq!(wrong, "a side is wrong: side=ours field=rows found=3 expected=4");
        assert!((found.number("seconds").unwrap() - 0.5).abs() < f64::EPSILON);
        assert!(found.count("bytes").is_err() && Found::parse("x").is_err());
    }
}
