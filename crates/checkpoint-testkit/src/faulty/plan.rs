//! Plans of faults: by rule, or drawn from a seed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use checkpoint_fs::{ErrorKind, ObjectPath};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Operation;

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens, and the call fails.
    Refuse(ErrorKind),
    /// It happens, and the call fails all the same: the reply was lost. A listing gives its entries, then
    /// fails.
    LoseReply(ErrorKind),
    /// It happens later.
    Delay(Duration),
    /// A read gives so many bytes, and a listing so many entries, and both say that this is all. Other
    /// calls pass.
    Truncate(u64),
    /// The outcome of a write, finish, copy or rename is unknown. Other calls fail with `Timeout`.
    Unknown {
        /// Whether it happened.
        landed: bool,
    },
}

type PathTest = Arc<dyn Fn(&ObjectPath) -> bool + Send + Sync>;

/// Which calls of an operation a fault strikes.
#[derive(Clone)]
pub struct Rule {
    operation: Operation,
    path: Option<PathTest>,
    first: u64,
    last: u64,
    fault: Fault,
    matched: u64,
}

impl Rule {
    /// Strikes every call of an operation.
    pub fn new(operation: Operation, fault: Fault) -> Self {
        Self { operation, path: None, first: 1, last: u64::MAX, fault, matched: 0 }
    }

    /// Only calls on paths that pass the test: of copies and renames the target, of listings the prefix, of
    /// batches any key.
    #[must_use]
    pub fn path(mut self, test: impl Fn(&ObjectPath) -> bool + Send + Sync + 'static) -> Self {
        self.path = Some(Arc::new(test));
        self
    }

    /// Only the `n`th matching call, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        (self.first, self.last) = (n, n);
        self
    }

    /// Only from the `n`th matching call on.
    #[must_use]
    pub fn from_nth(mut self, n: u64) -> Self {
        (self.first, self.last) = (n, u64::MAX);
        self
    }

    /// Only the first `n` matching calls.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        (self.first, self.last) = (1, n);
        self
    }

    fn strike(&mut self, operation: Operation, paths: &[ObjectPath]) -> Option<Fault> {
        let fits = |path: &ObjectPath| self.path.as_ref().is_none_or(|test| test(path));
        if operation != self.operation || !paths.iter().any(fits) {
            return None;
        }
        self.matched += 1;
        (self.first..=self.last).contains(&self.matched).then(|| self.fault.clone())
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("operation", &self.operation)
            .field("calls", &(self.first..=self.last))
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// A fault that struck.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Struck {
    /// What was called.
    pub operation: Operation,
    /// On what; the first key of a batch.
    pub path: ObjectPath,
    /// What went wrong.
    pub fault: Fault,
}

#[derive(Debug)]
struct Chance {
    generator: StdRng,
    rate: f64,
    operations: Vec<Operation>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    chance: Option<Chance>,
    struck: Vec<Struck>,
}

/// A plan of faults, and a record of those that struck. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan(Arc<Mutex<State>>);

impl FaultPlan {
    /// No faults yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Random faults: each call of these operations fails, loses its reply, is delayed or ends unknown with
    /// the probability `rate`. The same seed gives the same faults to the same sequence of calls.
    pub fn random(seed: u64, rate: f64, operations: &[Operation]) -> Self {
        let generator = StdRng::seed_from_u64(seed);
        let chance = Chance { generator, rate: rate.clamp(0.0, 1.0), operations: operations.to_vec() };
        Self(Arc::new(Mutex::new(State { chance: Some(chance), ..State::default() })))
    }

    /// Adds a rule; of several that match a call the first strikes. Works while the plan is in use.
    #[must_use]
    pub fn with(self, rule: Rule) -> Self {
        self.add(rule);
        self
    }

    /// Adds a rule to a plan in use.
    pub fn add(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Ends all faults, random ones too: the store is healthy from here on.
    pub fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.chance = None;
    }

    /// The faults that struck, in order.
    pub fn struck(&self) -> Vec<Struck> {
        self.state().struck.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault of the next call, if it has one. Every rule that matches counts the call.
    pub(super) fn next(&self, operation: Operation, paths: &[ObjectPath]) -> Option<Fault> {
        let mut state = self.state();
        let mut fault = None;
        for rule in &mut state.rules {
            let struck = rule.strike(operation, paths);
            fault = fault.or(struck);
        }
        let fault = fault.or_else(|| state.chance.as_mut().and_then(|chance| chance.draw(operation)))?;
        let path = paths.first().cloned().unwrap_or_default();
        state.struck.push(Struck { operation, path, fault: fault.clone() });
        Some(fault)
    }
}

impl Chance {
    fn draw(&mut self, operation: Operation) -> Option<Fault> {
        if !self.operations.contains(&operation) || !self.generator.random_bool(self.rate) {
            return None;
        }
        Some(match self.generator.random_range(0..5) {
            0 => Fault::Refuse(ErrorKind::Io),
            1 => Fault::LoseReply(ErrorKind::Timeout),
            2 => Fault::Delay(Duration::from_millis(self.generator.random_range(1..20))),
            3 => Fault::Unknown { landed: true },
            _ => Fault::Unknown { landed: false },
        })
    }
}
