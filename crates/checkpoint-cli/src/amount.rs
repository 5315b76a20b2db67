//! Counts, sizes and times as people read them.

use std::time::{Duration, SystemTime};

/// A number with commas: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and its noun: `1 row`, `2,000 rows`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A size in bytes: `17 B`, `1.2 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A time span in its two largest units: `4.2 s`, `3 min 20 s`, `2 d 5 h`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        return format!("{:.1} s", (time.as_millis() / 100) as f64 / 10.0);
    }
    let (large, large_unit, small, small_unit) = match seconds {
        60..3_600 => (seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => (seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => (seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    };
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// A time span that is only guessed, in whole seconds where it is short.
pub(crate) fn rough_span(time: Duration) -> String {
    match time.as_secs_f64().ceil() {
        seconds if seconds < 60.0 => format!("{seconds:.0} s"),
        _ => span(time),
    }
}

/// A time span given in seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    span(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A moment as RFC 3339 in UTC, to the second.
pub(crate) fn moment(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|t| format!("{t:.0}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes() {
        let counts: Vec<String> = [0, 999, 1_000, 1_234_567].map(count).into();
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((counted(1, "row"), counted(0, "row")), ("1 row".into(), "0 rows".into()));
        let sizes: Vec<String> = [0, 1_023, 1_024, 1_048_575, 5 << 30, u64::MAX].map(size).into();
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 GiB", "16.0 EiB"]);
    }

    #[test]
    fn spans_and_moments() {
        let spans: Vec<String> = [0, 59, 60, 200, 7_200, 200_000].map(|s| span(Duration::from_secs(s))).into();
        assert_eq!(spans, ["0.0 s", "59.0 s", "1 min", "3 min 20 s", "2 h", "2 d 7 h"]);
        assert_eq!(seconds(f64::NAN), "0.0 s");
        let rough: Vec<String> = [0, 2_100, 59_000, 61_000].map(|ms| rough_span(Duration::from_millis(ms))).into();
        assert_eq!(rough, ["0 s", "3 s", "59 s", "1 min 1 s"]);
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500_000_000_250);
        assert_eq!(moment(time), "2017-07-14T02:40:00Z");
    }
}
