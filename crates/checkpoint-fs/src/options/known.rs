//! The options that a protocol knows, as its own reader tells them: for the reference page, and for whoever
//! wants to offer them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// What is done with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OptionUse {
    /// It is read, and counts.
    Honoured,
    /// It is accepted and does nothing.
    Ignored,
    /// It is known, and an error with the reason.
    Refused,
}

/// An option that a protocol knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct KnownOption {
    /// Its name; `client_kwargs.region_name` for one within another.
    pub name: String,
    /// What is done with it.
    pub usage: OptionUse,
}

/// Where readers note the options that they know. All clones share one list, and it is no part of what
/// makes options equal.
#[derive(Clone, Default)]
pub(crate) struct Record(Option<Arc<Mutex<BTreeMap<String, OptionUse>>>>);

impl Record {
    /// An empty list; the default has none, and notes nothing.
    pub(crate) fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes an option, unless it is there.
    pub(super) fn note(&self, name: &str, usage: OptionUse) {
        self.change(|known| {
            known.entry(name.to_owned()).or_insert(usage);
        });
    }

    /// Notes an option, whatever was noted of it.
    pub(crate) fn correct(&self, name: &str, usage: OptionUse) {
        self.change(|known| {
            known.insert(name.to_owned(), usage);
        });
    }

    /// What was noted, by name.
    pub(crate) fn options(&self) -> Vec<KnownOption> {
        let mut options = Vec::new();
        self.change(|known| {
            options = known.iter().map(|(name, usage)| KnownOption { name: name.clone(), usage: *usage }).collect();
        });
        options
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, OptionUse>)) {
        if let Some(known) = &self.0 {
            change(&mut known.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl PartialEq for Record {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Record(on)" } else { "Record(off)" })
    }
}
