//! A request as it arrived: nothing decoded, nothing normalised.

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::refusal::Refusal;

/// All but RFC 3986's unreserved characters.
const STRICT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The same, with slashes.
const STRICT_PATH: &AsciiSet = &STRICT.remove(b'/');

/// A request as the wire carried it.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) method: String,
    /// The `Host` header, with its port.
    pub(crate) host: String,
    /// Still encoded; starts with a slash.
    pub(crate) path: String,
    /// Still encoded, without the question mark.
    pub(crate) query: String,
    /// Names in lower case, in the order of arrival.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Arrived {
    /// The first header of a name, given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// All values of a header, joined as signatures want them.
    pub(crate) fn joined(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.trim()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// The decoded path.
    ///
    /// # Errors
    /// `InvalidURI` where it is not UTF-8.
    pub(crate) fn decoded_path(&self) -> Result<String, Refusal> {
        decode(&self.path)
    }

    /// The decoded query in the order of arrival. A plus is a blank, as web servers take it.
    ///
    /// # Errors
    /// `InvalidURI` where it is not UTF-8.
    pub(crate) fn pairs(&self) -> Result<Vec<(String, String)>, Refusal> {
        self.query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
            })
            .collect()
    }
}

/// Takes percent-encoding off.
///
/// # Errors
/// `InvalidURI` where what remains is not UTF-8.
pub(crate) fn decode(text: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(|t| t.into_owned()).map_err(|_| Refusal::new(400, "InvalidURI", "Couldn't parse the specified URI."))
}

/// Encodes all but unreserved characters, in upper-case hex.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, STRICT).to_string()
}

/// The same, but slashes stay.
pub(crate) fn encode_path(text: &str) -> String {
    utf8_percent_encode(text, STRICT_PATH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_once() {
        let request = Arrived {
            method: "GET".to_owned(),
            host: "h".to_owned(),
            path: "/a%2Fb%2520".to_owned(),
            query: "prefix=a%2Bb+c&uploads&x=%25".to_owned(),
            headers: vec![("a".to_owned(), " 1".to_owned()), ("a".to_owned(), "2 ".to_owned())],
            body: Bytes::new(),
        };
        let pairs = request.pairs().expect("UTF-8");
        let text: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(text, [("prefix", "a+b c"), ("uploads", ""), ("x", "%")]);
        assert_eq!(request.decoded_path().expect("UTF-8"), "/a/b%20");
        assert_eq!(request.joined("a").as_deref(), Some("1,2"));
        assert_eq!(encode_path("/a b/é*"), "/a%20b/%C3%A9%2A");
        assert!(decode("%ff").is_err());
    }
}
