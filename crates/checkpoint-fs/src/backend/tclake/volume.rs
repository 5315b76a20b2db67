//! What a `tclake://` URL names: a volume of a catalog, and a path in it.

use crate::error::{Error, Result};
use crate::location::Location;
use crate::path::ObjectPath;

/// The first segment of every URL.
const FIRST: &str = "volume";
const SHAPE: &str = "write tclake://volume/<catalog>/<schema>/<volume>/<path>";

/// A volume, by the three names that the catalog knows it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeName {
    pub(super) catalog: String,
    pub(super) schema: String,
    pub(super) volume: String,
}

impl VolumeName {
    /// How many segments of a path name it.
    pub(super) const SEGMENTS: usize = 3;

    /// Splits a location into the volume and the path in it. Names are taken as written: nothing is
    /// decoded, and `.`, `..` and empty segments were refused when the location was parsed.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) with the shape of a URL, when another first
    /// segment than `volume` is named, or a part is missing.
    pub(super) fn parse(location: &Location) -> Result<(Self, ObjectPath)> {
        let wrong = |message: String| Error::invalid_config(message).with_url(location.to_string()).with_hint(SHAPE);
        if location.authority() != FIRST {
            let first = location.authority();
            return Err(wrong(format!(
                "only volumes hold files, so the URL must begin with `{FIRST}`: first={first:?}"
            )));
        }
        let mut segments = location.path().segments();
        let (catalog, schema, volume) = match (segments.next(), segments.next(), segments.next()) {
            (Some(catalog), Some(schema), Some(volume)) => (catalog, schema, volume),
            (Some(_), Some(_), None) => return Err(wrong("the URL names no volume after its schema".to_owned())),
            (Some(_), ..) => return Err(wrong("the URL names no schema and no volume after its catalog".to_owned())),
            (None, ..) => return Err(wrong("the URL names no catalog, schema and volume".to_owned())),
        };
        if [catalog, schema, volume].iter().any(|name| name.contains(char::is_control)) {
            return Err(wrong("a name in the URL holds a control character".to_owned()));
        }
        let path = ObjectPath::parse(segments.collect::<Vec<_>>().join("/"))?;
        Ok((Self { catalog: catalog.to_owned(), schema: schema.to_owned(), volume: volume.to_owned() }, path))
    }

    /// The URL of the volume.
    pub(super) fn url(&self) -> String {
        format!("tclake://{FIRST}/{}/{}/{}", self.catalog, self.schema, self.volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn parse(url: &str) -> Result<(VolumeName, ObjectPath)> {
        VolumeName::parse(&Location::parse(url)?)
    }

    #[test]
    fn names_and_path_are_taken_as_written() {
        for (url, catalog, schema, volume, path) in [
            ("tclake://volume/c/s/v", "c", "s", "v", ""),
            ("tclake://volume/c/s/v/", "c", "s", "v", ""),
            ("tclake://volume/c/s/v/a/b.parquet", "c", "s", "v", "a/b.parquet"),
            ("TCLAKE://volume/a.b/ä ö/v%2F+#?x/%2e%2e/...", "a.b", "ä ö", "v%2F+#?x", "%2e%2e/..."),
            ("tclake://volume/volume/volume/volume/volume", "volume", "volume", "volume", "volume"),
        ] {
            let (name, rest) = parse(url).expect(url);
            assert_eq!((name.catalog.as_str(), name.schema.as_str(), name.volume.as_str()), (catalog, schema, volume));
            assert_eq!(rest.as_str(), path, "{url}");
            assert_eq!(name.url(), format!("tclake://volume/{catalog}/{schema}/{volume}"));
        }
    }

    #[test]
    fn what_names_no_volume_is_refused_with_the_shape() {
        for (url, expected) in [
            ("tclake://lakehouse/c/s/t", "first=\"lakehouse\""),
            ("tclake://Volume/c/s/v", "first=\"Volume\""),
            ("tclake://mycatalog/s/v/x", "first=\"mycatalog\""),
            ("tclake://volume", "no catalog, schema and volume"),
            ("tclake://volume/", "no catalog, schema and volume"),
            ("tclake://volume/c", "no schema and no volume"),
            ("tclake://volume/c/s", "no volume after its schema"),
            ("tclake://volume/c/s/", "no volume after its schema"),
            ("tclake://volume/c/s\t/v", "control character"),
        ] {
            let error = parse(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert_eq!(error.hint(), Some(SHAPE), "{url}");
            assert!(error.url().starts_with("tclake://"), "{error}");
        }
    }

    #[test]
    fn nothing_leaves_the_volume() {
        for url in [
            "tclake://volume/c/s/v/../w",
            "tclake://volume/c/s/v/.",
            "tclake://volume/c/s/../v/x",
            "tclake://volume/../c/s/v",
            "tclake://volume/c/s/v/a/../../b",
            "tclake://volume/c/s/v//x",
            "tclake://volume//c/s/v",
            "tclake://../c/s/v",
        ] {
            assert_eq!(parse(url).expect_err(url).kind(), ErrorKind::InvalidConfig, "{url}");
        }
    }
}
