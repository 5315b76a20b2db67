//! Reading the values of options, with errors that say what to write.

use std::time::Duration;

use checkpoint_pipeline::Format;

fn at_least_one(text: &str, most: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ if most == u64::MAX => Err("must be a whole number of at least 1".to_owned()),
        _ => Err(format!("must be a whole number from 1 to {most}")),
    }
}

/// How many workers.
pub(super) fn workers(text: &str) -> Result<usize, String> {
    at_least_one(text, 4_096).map(|n| n as usize)
}

/// How many rows a batch has.
pub(super) fn batch_rows(text: &str) -> Result<usize, String> {
    at_least_one(text, 1 << 30).map(|n| n as usize)
}

/// How many rows a task has.
pub(super) fn task_rows(text: &str) -> Result<u64, String> {
    at_least_one(text, u64::MAX)
}

/// A file format by name.
pub(super) fn format(text: &str) -> Result<Format, String> {
    let names: Vec<&str> = Format::ALL.iter().map(|f| f.name()).collect();
    Format::parse(text).map_err(|_| format!("known formats are {}", names.join(", ")))
}

/// A text that is not empty.
pub(super) fn text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A number of bytes such as `512MiB` or `4GiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "write a whole number with its unit, such as 512MiB or 4GiB".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match &text[digits..] {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// A time span such as `7d`, `12h` or `1d12h`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write numbers with their units, such as 45s, 30m, 12h, 7d or 2w".to_owned();
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let mut after = rest[digits..].chars();
        let unit = match after.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(unit).and_then(|seconds| total.checked_add(seconds)).ok_or_else(wrong)?;
        rest = after.as_str();
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(total)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_units() {
        let seconds = |text: &str| age(text).map(|d| d.as_secs());
        assert_eq!(seconds("7d"), Ok(7 * 86_400));
        assert_eq!(seconds("1d12h"), Ok(36 * 3_600));
        assert_eq!(seconds("0s"), Ok(0));
        for wrong in ["", "7", "d", "7y", "-1d", "1.5h", "7 d", "7d3", "99999999999999999999w", "99999999999999999w"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_numbers_with_units() {
        assert_eq!((size("0B"), size("3KiB"), size("512MiB")), (Ok(0), Ok(3 << 10), Ok(512 << 20)));
        assert_eq!((size("4GiB"), size("2TiB")), (Ok(4 << 30), Ok(2 << 40)));
        for wrong in ["", "4", "GiB", "4 GiB", "4GB", "4gib", "1.5GiB", "-1GiB", "4GiB2", "99999999999TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_begin_at_one() {
        assert_eq!(workers("3"), Ok(3));
        assert_eq!(task_rows("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["0", "-1", "1.5", "many", ""] {
            assert!(workers(wrong).is_err() && batch_rows(wrong).is_err() && task_rows(wrong).is_err(), "{wrong}");
        }
    }
}
