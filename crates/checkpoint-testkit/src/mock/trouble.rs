//! Troubles that a test plans for a mock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It is refused with the request to slow down, and has no effect.
    SlowDown,
    /// It is refused with an internal error, and has no effect.
    InternalError,
    /// It takes effect, and the answer is lost on its way.
    LostAnswer,
}

#[derive(Debug, Default)]
struct Planned {
    requests: VecDeque<Trouble>,
    copies: u32,
    /// How often the delete of a key fails, and with which code.
    deletes: BTreeMap<String, (&'static str, u32)>,
}

/// Troubles that are still to come.
#[derive(Debug, Default)]
pub(crate) struct Troubles(Mutex<Planned>);

impl Troubles {
    pub(crate) fn plan(&self, trouble: Trouble, times: usize) {
        self.with(|planned| planned.requests.extend(std::iter::repeat_n(trouble, times)));
    }

    pub(crate) fn plan_errors_inside(&self, times: u32) {
        self.with(|planned| planned.copies += times);
    }

    pub(crate) fn plan_kept_key(&self, key: &str, code: &'static str, times: u32) {
        self.with(|planned| planned.deletes.insert(key.to_owned(), (code, times)));
    }

    /// The trouble of the request that has just arrived.
    pub(crate) fn next(&self) -> Option<Trouble> {
        self.with(|planned| planned.requests.pop_front())
    }

    /// Whether this copy or completion fails inside of a success.
    pub(crate) fn fails_inside(&self) -> bool {
        self.with(|planned| {
            let fails = planned.copies > 0;
            planned.copies = planned.copies.saturating_sub(1);
            fails
        })
    }

    /// Why this key is not deleted.
    pub(crate) fn keeps(&self, key: &str) -> Option<&'static str> {
        self.with(|planned| {
            let (code, left) = planned.deletes.get_mut(key)?;
            *left = left.checked_sub(1)?;
            Some(*code)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Planned) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
