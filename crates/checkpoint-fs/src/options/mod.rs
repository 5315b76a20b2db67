//! Storage options: `{"<protocol>": {keyword: value}}`, the shape that fsspec users write.

mod environment;
mod exact;
#[cfg(feature = "_http")]
mod fsspec;
mod known;
mod kwargs;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

pub use self::environment::Environment;
#[cfg(feature = "_http")]
pub(crate) use self::fsspec::layered;
pub(crate) use self::known::Record;
pub use self::known::{KnownOption, OptionUse};
pub use self::kwargs::KwArgs;
pub(crate) use self::kwargs::nearest;
use crate::error::{Error, Result};

/// Options for every protocol, as given by the user. Plain data: opening a location reads its own entry.
///
/// `Debug` shows protocols and keywords, never values.
#[derive(Clone, Default, PartialEq)]
pub struct StorageOptions(BTreeMap<String, Entry>, Record);

/// The options of one protocol.
#[derive(Clone, Default, PartialEq)]
struct Entry {
    kwargs: Map<String, Value>,
    /// Where those come from that the caller did not give.
    sources: BTreeMap<String, String>,
}

impl StorageOptions {
    /// No options: everything comes from the environment and the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a JSON object of objects. Values are not repeated in errors. A number that would lose digits is
    /// kept as text.
    ///
    /// # Errors
    /// [`InvalidConfig`](crate::ErrorKind::InvalidConfig) when it is not that shape.
    pub fn from_json(text: &str) -> Result<Self> {
        let value = exact::parse(text).map_err(|e| {
            Error::invalid_config(format!("storage options are not JSON: line {} column {}", e.line(), e.column()))
                .with_hint(SHAPE)
        })?;
        Self::from_value(value)
    }

    /// From a parsed JSON value.
    ///
    /// # Errors
    /// As [`StorageOptions::from_json`].
    pub fn from_value(value: Value) -> Result<Self> {
        let Value::Object(protocols) = value else {
            return Err(Error::invalid_config("storage options are not a JSON object").with_hint(SHAPE));
        };
        let mut options = Self::new();
        for (protocol, kwargs) in protocols {
            let Value::Object(kwargs) = kwargs else {
                return Err(Error::invalid_config(format!(
                    "storage options of a protocol are not an object: protocol={protocol}"
                ))
                .with_hint(SHAPE));
            };
            options = options.with(protocol, kwargs);
        }
        Ok(options)
    }

    /// Adds or replaces the options of one protocol.
    #[must_use]
    pub fn with(mut self, protocol: impl Into<String>, kwargs: Map<String, Value>) -> Self {
        self.0.insert(protocol.into(), Entry { kwargs, sources: BTreeMap::new() });
        self
    }

    /// No options, for readers that note in `record` which ones they know.
    pub(crate) fn recording(record: Record) -> Self {
        Self(BTreeMap::new(), record)
    }

    /// Starts reading the options of the first of these protocol names that has any; messages call them by
    /// the first name.
    pub fn kwargs<'o>(&'o self, names: &[&'o str]) -> KwArgs<'o> {
        KwArgs::noting(names.first().copied().unwrap_or_default(), self.get(names), self.1.clone())
    }

    /// The options of the first of these protocol names that has any.
    pub fn get(&self, names: &[&str]) -> Option<&Map<String, Value>> {
        self.entry(names).map(|entry| &entry.kwargs)
    }

    /// Where an option of the first of these protocol names comes from, in words. `option` is a keyword, or
    /// one in a keyword: `client_kwargs.endpoint_url`.
    pub fn source(&self, names: &[&str], option: &str) -> String {
        let (key, inner) = option.split_once('.').map_or((option, None), |(key, inner)| (key, Some(inner)));
        match (self.entry(names).and_then(|entry| entry.sources.get(key)), inner) {
            (None, _) => format!("options: {option}"),
            // The variable of one keyword names it already.
            (Some(source), None) => source.clone(),
            (Some(source), Some(inner)) => format!("{source} ({inner})"),
        }
    }

    /// The same with the options of one backend, which is known by `names`, under the first of these alone: those
    /// that are given for the name in the URL, else those of the first name that has any.
    pub(crate) fn narrowed(&self, names: &[&str], written: &str) -> Self {
        let own = self.entry(&[written]).or_else(|| self.entry(names)).cloned();
        let mut narrowed = self.clone();
        narrowed.0.retain(|protocol, _| !names.contains(&protocol.as_str()));
        if let (Some(first), Some(own)) = (names.first(), own) {
            narrowed.0.insert((*first).to_owned(), own);
        }
        narrowed
    }

    /// The keywords of one protocol, to be changed.
    pub(crate) fn kwargs_mut(&mut self, protocol: &str) -> Option<&mut Map<String, Value>> {
        self.0.get_mut(protocol).map(|entry| &mut entry.kwargs)
    }

    fn entry(&self, names: &[&str]) -> Option<&Entry> {
        names.iter().find_map(|name| self.0.get(*name))
    }

    /// The protocols that have options.
    pub fn protocols(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

const SHAPE: &str =
    r#"write {"<protocol>": {"<option>": <value>}}, for example {"s3": {"endpoint_url": "http://127.0.0.1:9000"}}"#;

impl fmt::Debug for StorageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: BTreeMap<&str, Vec<&str>> =
            self.0.iter().map(|(p, e)| (p.as_str(), e.kwargs.keys().map(String::as_str).collect())).collect();
        f.debug_tuple("StorageOptions").field(&shown).finish()
    }
}
