//! Environment variables as a value, so that nothing below reads process state and tests need none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    asked: Option<Arc<Mutex<BTreeSet<String>>>>,
}

impl Environment {
    /// The variables of this process. Those that are not UTF-8 are left out.
    pub fn from_process() -> Self {
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
    }

    /// A variable, when it is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).filter(|v| !v.is_empty())
    }

    /// The same variables, with a list of the names that are asked for from now on, which all clones share.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.asked = Some(Arc::default());
        self
    }

    /// The names that were asked for, set or not, since [`Environment::recording`]; none without it.
    pub fn asked(&self) -> BTreeSet<String> {
        let asked = |names: &Arc<Mutex<BTreeSet<String>>>| names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.asked.as_ref().map(asked).unwrap_or_default()
    }

    /// All variables, in the order of their names.
    #[cfg(feature = "_http")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A variable as it is set, perhaps to nothing: for the few that mean something by that.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        if let Some(asked) = &self.asked {
            asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
        self.variables.get(name).map(String::as_str)
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self { variables: pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect(), asked: None }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_noted_on_request() {
        let environment: Environment = [("SET", "x")].into_iter().collect();
        assert_eq!((environment.get("SET"), environment.asked().len()), (Some("x"), 0));
        let environment = environment.recording();
        let clone = environment.clone();
        assert_eq!((clone.get("SET"), clone.get("UNSET")), (Some("x"), None));
        assert_eq!(environment.asked(), BTreeSet::from(["SET".to_owned(), "UNSET".to_owned()]));
    }
}
