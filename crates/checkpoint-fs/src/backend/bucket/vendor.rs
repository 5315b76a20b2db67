//! What differs between the stores of this family.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};

use crate::backend::multi_delete::Report;
use crate::transport::{Dialect, Signer};

/// A store's own ways. Everything else is common to the family.
#[derive(Debug, Clone)]
pub(crate) struct Vendor {
    /// What the names of its own headers begin with, `x-amz-` for S3.
    pub(crate) header_prefix: &'static str,
    /// What the names of a user's own metadata may begin with in answers.
    pub(crate) metadata_prefixes: &'static [&'static str],
    /// How a write says that it must not replace.
    pub(crate) if_absent: IfAbsent,
    /// What comes before the bucket in the source of a copy: nothing for S3.
    pub(crate) copy_source_root: &'static str,
    /// A header that makes the store take ranges as HTTP has them, where it needs one.
    pub(crate) range_header: Option<(HeaderName, HeaderValue)>,
    /// Whether the token of a listing's next page comes encoded like its keys.
    pub(crate) encodes_page_tokens: bool,
    /// Whether the vendor promises that a listing shows what was written and deleted before it began.
    pub(crate) consistent_list: bool,
    /// How a multi-delete tells which keys it did not delete.
    pub(crate) delete_report: Report,
    /// The longest key, in bytes.
    pub(crate) max_key: usize,
    /// How requests are signed.
    pub(crate) signer: Arc<dyn Signer>,
    /// How failures are reported. A write that met what it must not replace has the kind
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists), whatever its status and code.
    pub(crate) dialect: Arc<dyn Dialect>,
}

/// How a write says that it must not replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// `If-None-Match: *`.
    #[cfg_attr(
        not(any(feature = "s3", test)),
        expect(dead_code, reason = "the other stores have headers of their own")
    )]
    IfNoneMatch,
    /// This header with the value `true`. Such stores ignore it on a bucket that keeps, or ever kept,
    /// old versions.
    #[cfg_attr(not(any(feature = "cos", feature = "oss")), expect(dead_code, reason = "S3 has no such header"))]
    ForbidOverwrite(HeaderName),
    /// Not at all, and what to do about it: such a write is refused before anything is sent.
    #[cfg_attr(not(feature = "s3"), expect(dead_code, reason = "the other stores have their own word for it"))]
    Never(&'static str),
}
