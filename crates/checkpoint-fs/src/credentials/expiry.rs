//! Times of expiry, as the many sources of credentials write them.

use std::time::SystemTime;

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

/// Reads a time such as `2030-01-31T12:00:00Z`. A blank may stand for the `T`, `UTC` for the `Z`, and
/// `+0100` for `+01:00`. A time without a zone is none: whose clock would it be by?
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let mut text = match text.strip_suffix("UTC").or_else(|| text.strip_suffix("GMT")) {
        Some(rest) => format!("{}Z", rest.trim_end()),
        None => text.to_owned(),
    };
    if let Some((date, rest)) = text.split_once(' ') {
        text = format!("{date}T{rest}");
    }
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let zone = text.len() - digits;
    if digits == 4 && matches!(text.as_bytes().get(zone.wrapping_sub(1)), Some(b'+' | b'-')) && text.contains('T') {
        text.insert(zone + 2, ':');
    }
    DateTime::from_str(&text, Format::DateTimeWithOffset).ok().and_then(|time| SystemTime::try_from(time).ok())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_ways_in_which_it_is_written() {
        let expected = Some(UNIX_EPOCH + Duration::from_secs(1_577_836_800));
        for text in [
            "2020-01-01T00:00:00Z",
            " 2020-01-01T00:00:00.000Z\n",
            "2020-01-01T00:00:00UTC",
            "2020-01-01 00:00:00+00:00",
            "2020-01-01T01:00:00+01:00",
            "2020-01-01T01:00:00+0100",
            "2019-12-31T20:00:00-0400",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        for text in ["", "tomorrow", "2020-01-01T00:00:00", "2020-01-01", "1577836800", "+0100", "UTC"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
