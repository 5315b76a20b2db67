//! Names as they stand in a URL.

#[cfg(any(feature = "_bucket", feature = "gs"))]
use percent_encoding::percent_decode_str;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What may stand bare in a query; all else is encoded, as signatures want it.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What may stand bare in a path.
pub(crate) const PATH: &AsciiSet = &QUERY.remove(b'/');

/// A key as it stands in the path of a request.
pub(crate) fn encode_key(key: &str) -> String {
    utf8_percent_encode(key, PATH).to_string()
}

/// A name or value as it stands in a query.
pub(crate) fn encode_query(text: &str) -> String {
    utf8_percent_encode(text, QUERY).to_string()
}

/// Takes off the encoding that keys have in a document with the encoding type `url`.
///
/// # Errors
/// When what remains is not UTF-8.
#[cfg(any(feature = "_bucket", feature = "gs"))]
pub(crate) fn decode_listed(text: &str) -> Result<String, String> {
    // A blank may be written as `+`; a plus sign never stands bare.
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().map(Into::into).map_err(|_| "a key that is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_queries_are_encoded_strictly() {
        let key = "a b+c/é%2F~!*'()=&@:,;#?.txt";
        assert_eq!(encode_key(key), "a%20b%2Bc/%C3%A9%252F~%21%2A%27%28%29%3D%26%40%3A%2C%3B%23%3F.txt");
        assert_eq!(encode_query("a/b c+"), "a%2Fb%20c%2B");
    }
}
