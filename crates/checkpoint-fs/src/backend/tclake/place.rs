//! Where a volume lies: the storage location that the catalog names.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::path::ObjectPath;

/// A bucket of COS and the prefix in it that a volume is rooted at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: String,
    pub(super) prefix: ObjectPath,
}

impl Place {
    /// Parses `cosn://<bucket>/<prefix>` (or `cos://`). Nothing is decoded, and nothing is repaired: what
    /// an odd location is rewritten to could be somebody else's prefix.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a volume that lies elsewhere than on COS, and
    /// [`Corrupt`](ErrorKind::Corrupt) for what is no such location.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let shown = without_user(text);
        let corrupt = || {
            let message = format!("the volume's storage location is not valid: location={shown:?}");
            Error::new(ErrorKind::Corrupt, message)
                .with_hint("it should look like cosn://<bucket>/<prefix>: ask whoever manages the catalog")
        };
        let Some((scheme, rest)) = text.split_once("://") else { return Err(corrupt()) };
        if scheme != "cosn" && scheme != "cos" {
            return Err(Error::unsupported(format!("the volume does not lie on COS: location={shown:?}"))
                .with_hint("open the location itself, by its own scheme"));
        }
        let is_bucket = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let bucket = rest.split('/').next().unwrap_or_default();
        if bucket.is_empty() || !bucket.bytes().all(is_bucket) {
            return Err(corrupt());
        }
        let location = Location::parse(text).map_err(|e| corrupt().with_source(e))?;
        Ok(Self { bucket: bucket.to_owned(), prefix: location.path().clone() })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cosn://{}/{}", self.bucket, self.prefix)
    }
}

/// The text without what may be credentials before `@`.
fn without_user(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("***@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_and_a_prefix() {
        for (text, prefix) in [
            ("cosn://bkt-125/a/b", "a/b"),
            ("cosn://bkt-125/a/b/", "a/b"),
            ("cos://bkt-125/a b/%2F+#?/ä", "a b/%2F+#?/ä"),
            ("cosn://bkt-125", ""),
            ("cosn://bkt-125/", ""),
        ] {
            let place = Place::parse(text).expect(text);
            assert_eq!((place.bucket.as_str(), place.prefix.as_str()), ("bkt-125", prefix), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "bkt-125/a",
            "/a/b",
            "cosn:/bkt-125/a",
            "cosn://",
            "cosn:///a",
            "cosn://bkt-125//a",
            "cosn://bkt-125/a//b",
            "cosn://bkt-125/a/../b",
            "cosn://bkt-125/./b",
            "cosn://bkt-125/..",
            "cosn://AK:hunter2@bkt-125/a",
            "cosn://bkt-125:80/a",
            "cosn://bkt-125?x/a",
            "cosn://bkt.125/a",
            "cosn://bkt-125/a\nb",
        ] {
            let error = Place::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        for text in ["s3://bkt/a", "hdfs://nn/a", "COSN://bkt-125/a", "file:///a", "ofs://x/a"] {
            assert_eq!(Place::parse(text).expect_err(text).kind(), ErrorKind::Unsupported, "{text}");
        }
    }
}
