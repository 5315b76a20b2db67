//! What was promised, and whether it holds here.

use std::fmt;

/// A target and the figure that was found.
#[derive(Debug)]
pub(crate) struct Target {
    what: String,
    limit: String,
    found: f64,
    met: bool,
}

impl Target {
    /// Met when the figure is at most the limit.
    pub(crate) fn at_most(what: impl Into<String>, found: f64, limit: f64) -> Self {
        Self { what: what.into(), limit: format!("<= {limit}"), found, met: found <= limit }
    }

    /// Met when the figure is at least the limit.
    pub(crate) fn at_least(what: impl Into<String>, found: f64, limit: f64) -> Self {
        Self { what: what.into(), limit: format!(">= {limit}"), found, met: found >= limit }
    }

    /// Whether it is met.
    pub(crate) fn is_met(&self) -> bool {
        self.met
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit, found, met } = self;
        let verdict = if *met { "met" } else { "NOT met" };
        let figure = if *found >= 0.1 { format!("{found:.2}") } else { format!("{found:.5}") };
        write!(f, "{what}: {figure}, target {limit}: {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_spelled_out() {
        let target = Target::at_most("bytes of an ID", 9.4, 10.0);
        assert_eq!(target.to_string(), "bytes of an ID: 9.40, target <= 10: met");
        let target = Target::at_least("times as fast", 12.0, 20.0);
        assert_eq!(target.to_string(), "times as fast: 12.00, target >= 20: NOT met");
        assert!(!target.is_met());
    }
}
