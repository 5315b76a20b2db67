//! The trace of a child: a line for each side of each effect.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use checkpoint_testkit::When;

use crate::effect_kind::EffectKind;

/// One side of one effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// The number of the effect, from 0.
    pub index: u64,
    /// Before or after it.
    pub when: When,
    /// What it is for.
    pub kind: EffectKind,
    /// The operation and the URL, for people.
    pub what: String,
}

/// Reads a trace. A file that is not there yet has no lines; a last line without an end is not read.
///
/// # Errors
/// A line that cannot be read.
pub fn read_trace(path: &Path) -> Result<Vec<TraceLine>> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(Vec::new()) };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| parse(line).with_context(|| format!("in the trace: {line:?}"))).collect()
}

fn parse(line: &str) -> Result<TraceLine> {
    let mut words = line.splitn(4, ' ');
    let mut next = || words.next().ok_or_else(|| anyhow!("too few words"));
    let index = next()?.parse()?;
    let when = match next()? {
        "before" => When::Before,
        "after" => When::After,
        other => return Err(anyhow!("neither before nor after: {other}")),
    };
    Ok(TraceLine { index, when, kind: next()?.parse()?, what: next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_waits_for_its_end() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("trace");
        assert_eq!(read_trace(&path).expect("nothing yet"), []);
        std::fs::write(&path, "0 before lease write /x/a b\n1 after del").expect("writes");
        let expected =
            TraceLine { index: 0, when: When::Before, kind: EffectKind::Lease, what: "write /x/a b".to_owned() };
        assert_eq!(read_trace(&path).expect("readable"), [expected]);
        std::fs::write(&path, "0 beside lease write /x\n").expect("writes");
        assert!(read_trace(&path).is_err());
    }
}
