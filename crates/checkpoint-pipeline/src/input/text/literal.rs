//! Numbers as text: which are integers, which are floats, and which are neither.

/// What a piece of text is, by its form alone. The grammar is that of JSON numbers: no leading zeros, no
/// plus sign, so that a text that is a number can be written back the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal {
    /// `0`, `-17`.
    Integer,
    /// With a fraction or an exponent.
    Float,
    /// Anything else, such as `007`, `+1`, `1_000` or `nan`.
    Other,
}

/// Classifies a text.
pub(super) fn classify(text: &str) -> Literal {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned.starts_with('0')) {
        return Literal::Other;
    }
    let mut rest = &unsigned[whole..];
    if rest.is_empty() {
        // `-0` would lose its sign as an integer.
        return if text == "-0" { Literal::Float } else { Literal::Integer };
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = digits(fraction);
        if length == 0 {
            return Literal::Other;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let length = digits(exponent);
        if length == 0 {
            return Literal::Other;
        }
        rest = &exponent[length..];
    }
    if rest.is_empty() { Literal::Float } else { Literal::Other }
}

/// The float that a number's text stands for; `None` where it is infinite, or an integer that no float is.
pub(super) fn exact_float(text: &str) -> Option<f64> {
    let float: f64 = text.parse().ok().filter(|f: &f64| f.is_finite())?;
    match classify(text) {
        Literal::Float => Some(float),
        Literal::Integer => match text.parse::<i128>() {
            Ok(integer) if float as i128 == integer => Some(float),
            _ => None,
        },
        Literal::Other => None,
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_canonical() {
        for text in ["0", "7", "-7", "10", "18446744073709551615", "99999999999999999999999"] {
            assert_eq!(classify(text), Literal::Integer, "{text}");
        }
        for text in ["007", "-07", "+1", "", "-", "1_000", "1 ", " 1", "0x1", "nan", "inf", "1a", "١"] {
            assert_eq!(classify(text), Literal::Other, "{text}");
        }
    }

    #[test]
    fn floats_have_a_fraction_or_an_exponent() {
        for text in ["0.5", "-1.25", "1e5", "1E-5", "1.0e+300", "-0", "-0.0"] {
            assert_eq!(classify(text), Literal::Float, "{text}");
        }
        for text in [".5", "5.", "1e", "1e+", "00.5", "1.5.5", "1e5e5"] {
            assert_eq!(classify(text), Literal::Other, "{text}");
        }
    }

    #[test]
    fn only_what_a_float_can_hold_becomes_one() {
        assert_eq!(exact_float("9007199254740992"), Some(9_007_199_254_740_992.0));
        assert_eq!(exact_float("9007199254740993"), None);
        assert_eq!(exact_float("0.1"), Some(0.1));
        assert_eq!(exact_float("1e999"), None);
        assert_eq!(exact_float("-0").map(f64::is_sign_negative), Some(true));
        assert_eq!(exact_float("nan"), None);
    }
}
