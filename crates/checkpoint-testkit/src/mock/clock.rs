//! The services' clock: the machine's, plus what a test adds.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A clock that a test can set wrong.
#[derive(Debug, Default)]
pub(crate) struct MockClock {
    ahead_seconds: AtomicI64,
}

impl MockClock {
    /// Milliseconds since 1970.
    #[expect(clippy::disallowed_methods, reason = "clients sign with the real time")]
    pub(crate) fn millis(&self) -> i64 {
        let real =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(0));
        real + self.ahead_seconds.load(Ordering::SeqCst) * 1000
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(&self) -> i64 {
        self.millis() / 1000
    }

    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead_seconds.store(seconds, Ordering::SeqCst);
    }
}

/// A moment as `2026-01-31T12:00:00.000Z`.
pub(crate) fn iso(millis: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A moment as `Sat, 31 Jan 2026 12:00:00 GMT`.
pub(crate) fn http_date(millis: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Seconds since 1970 of `20260131T120000Z`.
pub(crate) fn parse_basic(text: &str) -> Option<i64> {
    let moment = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    Some(moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read() {
        assert_eq!(iso(1_369_353_600_007), "2013-05-24T00:00:00.007Z");
        assert_eq!(http_date(1_369_353_600_007), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(parse_basic("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(parse_basic("2013-05-24"), None);
    }
}
