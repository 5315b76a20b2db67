//! What differs between the services that the mocks play, as far as objects are concerned.

/// How one service, or one of its interfaces, names and limits things.
#[derive(Debug)]
pub(crate) struct Face {
    /// The start of its own headers.
    pub(crate) family: &'static str,
    /// The start of the headers that only its vendor has, such as `forbid-overwrite`.
    pub(crate) vendor: &'static str,
    /// The value that makes a copy take its own metadata.
    pub(crate) replace: &'static [&'static str],
    /// Parts of an upload, but for the last, have at least so many bytes.
    pub(crate) least_part: usize,
    /// The code for a delete of many without its digest, and what is said.
    pub(crate) missing_digest: (&'static str, &'static str),
    /// Keys have at most so many bytes.
    pub(crate) longest_key: usize,
    /// What entries of a listing have besides.
    pub(crate) listed: &'static [(&'static str, &'static str)],
    /// Whether the first version of listing always names where it goes on.
    pub(crate) always_marks: bool,
    /// Whether a range that reaches beyond the end gives the whole object.
    pub(crate) is_lax_about_ranges: bool,
}

impl Face {
    pub(crate) fn name(&self, rest: &str) -> String {
        format!("{}{rest}", self.family)
    }

    pub(crate) fn vendor_name(&self, rest: &str) -> String {
        format!("{}{rest}", self.vendor)
    }
}

/// COS when it is spoken to in S3's way.
pub(crate) const COS_AS_S3: Face = Face { family: "x-amz-", ..COS };

/// COS in its own way.
pub(crate) const COS: Face = Face {
    family: "x-cos-",
    vendor: "x-cos-",
    replace: &["REPLACE", "Replaced"],
    least_part: 1 << 20,
    missing_digest: ("InvalidRequest", "Missing required header for this request: Content-MD5"),
    longest_key: 850,
    listed: &[("StorageClass", "STANDARD")],
    always_marks: true,
    is_lax_about_ranges: false,
};
/// OSS.
pub(crate) const OSS: Face = Face {
    family: "x-oss-",
    vendor: "x-oss-",
    replace: &["REPLACE"],
    least_part: 100 << 10,
    missing_digest: ("MissingArgument", "Missing Some Required Arguments."),
    longest_key: 1023,
    listed: &[("Type", "Normal"), ("StorageClass", "Standard")],
    always_marks: true,
    is_lax_about_ranges: true,
};
