//! Names as they stand in a URL.

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
