//! What a URL resolves to before anything is sent: for `ckpt fs resolve`, and for whoever asks why.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::location::Location;

/// A resolved value, and where it came from: an option, a variable, or a default.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from, in words.
    pub source: Cow<'static, str>,
}

impl<T> Setting<T> {
    /// A value with its source.
    pub fn new(value: T, source: impl Into<Cow<'static, str>>) -> Self {
        Self { value, source: source.into() }
    }
}

/// How a URL would be reached. Holds no secret: of the credentials it names the public half alone.
///
/// A field is `None` where the backend has no such thing, or where only a network call could tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Resolution {
    /// The URL's scheme, as written.
    pub scheme: String,
    /// The backend that opens it, by the first name of its schemes.
    pub backend: String,
    /// The bucket (container, for Azure).
    pub bucket: Option<String>,
    /// The object's key in the bucket; the path, for files.
    pub key: String,
    /// The endpoint's URL, without the bucket.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The region that signatures are made for.
    pub signing_region: Option<String>,
    /// Where the bucket's name stands: `path` or `virtual`.
    pub addressing: Option<String>,
    /// The access key ID, or the public name of whatever signs.
    pub access_key_id: Option<String>,
    /// Whether the credentials are temporary ones with a session token.
    pub has_session_token: bool,
    /// Whether requests go out unsigned.
    pub anonymous: bool,
    /// The URL of a request for the object.
    pub object_url: Option<String>,
    /// The URL of a request for the first page of a listing: of the object's directory, or of the directory
    /// that a URL with a slash at its end names.
    pub list_url: Option<String>,
    /// Where each setting came from, in words, by the setting's name.
    pub sources: BTreeMap<String, String>,
}

impl Resolution {
    /// A location that needs no settings.
    pub fn plain(backend: impl Into<String>, location: &Location) -> Self {
        Self {
            scheme: location.scheme().to_owned(),
            backend: backend.into(),
            bucket: None,
            key: location.path().as_str().to_owned(),
            endpoint: None,
            region: None,
            signing_region: None,
            addressing: None,
            access_key_id: None,
            has_session_token: false,
            anonymous: false,
            object_url: None,
            list_url: None,
            sources: BTreeMap::new(),
        }
    }
}
