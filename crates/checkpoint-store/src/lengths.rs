//! How long the files of a checkpoint may be: what is longer is never written, and never read into memory, whatever
//! a server or another writer made of it.

use bytes::Bytes;
use checkpoint_fs::ReadOptions;

use crate::error::{Error, Result};

/// The most bytes of a file: a record, a list, a fingerprint. One task's record with ten million IDs of 36
/// characters has a third of it.
const LONGEST: u64 = 1 << 30;
/// What a record may have at the least, where a listing shows a size that may be that of an older one.
const RECORD: u64 = 64 << 20;

/// Reads a whole file of the checkpoint.
pub(crate) fn whole() -> ReadOptions {
    ReadOptions::new().limit(Some(LONGEST))
}

/// Reads a whole record that has, or had, this size.
pub(crate) fn whole_of(size: Option<u64>) -> ReadOptions {
    ReadOptions::new().limit(Some(size.map_or(LONGEST, |size| size.clamp(RECORD, LONGEST))))
}

/// The bytes of a file, if it may be so long.
///
/// # Errors
/// `InvalidConfig` where it is longer.
pub(crate) fn checked(bytes: Bytes, what: &dyn std::fmt::Display) -> Result<Bytes> {
    within(LONGEST, bytes, what)
}

fn within(longest: u64, bytes: Bytes, what: &dyn std::fmt::Display) -> Result<Bytes> {
    if bytes.len() as u64 <= longest {
        return Ok(bytes);
    }
    Err(Error::invalid_config(format!("{what} is too long: bytes={} limit={longest}", bytes.len()))
        .with_hint("let tasks have fewer IDs, by --rows-per-task; and a job fewer files"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn what_is_too_long_is_never_written() {
        assert!(within(3, Bytes::from_static(b"abc"), &"the record of task x").is_ok());
        let error = within(2, Bytes::from_static(b"abc"), &"the record of task x").expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains("the record of task x is too long: bytes=3 limit=2"), "{error}");
    }

    #[test]
    fn a_record_may_be_longer_than_a_listing_shows_but_not_much() {
        assert_eq!(whole_of(None).limit, Some(LONGEST));
        assert_eq!(whole_of(Some(17)).limit, Some(RECORD));
        assert_eq!(whole_of(Some(RECORD + 1)).limit, Some(RECORD + 1));
        assert_eq!(whole_of(Some(u64::MAX)).limit, Some(LONGEST));
    }
}
