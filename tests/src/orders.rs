//! What a child program is told to do to itself: in its environment, and carried out around its effects.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use checkpoint_fs::Registry;
use checkpoint_testkit::{EffectPoint, EffectStorage, Effects, When, wrap_all};
use rustix::process::{Signal, getpid, kill_process, kill_process_group};

use crate::effect_kind::EffectKind;

const TRACE: &str = "CKPT_TEST_TRACE";
const DELAY: &str = "CKPT_TEST_DELAY_MICROS";
const STRIKE: &str = "CKPT_TEST_STRIKE";

/// What happens to the process at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL to its whole process group.
    Kill,
    /// SIGSTOP to itself.
    Stop,
}

/// An effect of the process, over all its storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The effect of this number, from 0.
    Effect(u64),
    /// The effect of a kind of this number, from 1.
    Nth(EffectKind, u64),
}

/// A blow at one side of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strike {
    /// What happens.
    pub blow: Blow,
    /// Before or after the effect.
    pub when: When,
    /// Which effect.
    pub point: Point,
}

/// All that a child is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// A line is added to this file on each side of each effect.
    pub trace: Option<PathBuf>,
    /// A pause on each side of each effect; where there is a stop, of each effect after it.
    pub delay: Duration,
    /// The blow, if any.
    pub strike: Option<Strike>,
}

impl Orders {
    /// The orders as variables of an environment.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![(DELAY, self.delay.as_micros().to_string())];
        variables.extend(self.trace.iter().map(|path| (TRACE, path.display().to_string())));
        variables.extend(self.strike.iter().map(|strike| (STRIKE, strike.to_string())));
        variables
    }

    /// The orders of this process.
    ///
    /// # Errors
    /// A variable that cannot be read: a test must not go on as if it had struck.
    pub fn from_process() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let delay = variable(DELAY).map_or(Ok(0), |text| text.parse()).context(DELAY)?;
        let strike = variable(STRIKE).map(|text| text.parse()).transpose().context(STRIKE)?;
        Ok(Self { trace: variable(TRACE).map(PathBuf::from), delay: Duration::from_micros(delay), strike })
    }

    /// The registry whose storages carry the orders out.
    ///
    /// # Errors
    /// When the trace cannot be opened.
    pub fn apply(self, real: &Registry) -> Result<Registry> {
        let hand = Arc::new(Hand::new(self)?);
        let effects = Effects::new(move |point| hand.at(point));
        Ok(wrap_all(real, move |storage| Arc::new(EffectStorage::new(storage, effects.clone()))))
    }
}

/// Carries orders out.
struct Hand {
    orders: Orders,
    trace: Option<Mutex<File>>,
    /// Effects of the wanted kind so far; their indices tell both sides of the wanted one.
    of_kind: AtomicU64,
    wanted: Mutex<Option<u64>>,
    is_slow: AtomicBool,
}

impl Hand {
    fn new(orders: Orders) -> Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path).map(Mutex::new);
        let trace = orders.trace.as_ref().map(open).transpose().context("the trace cannot be opened")?;
        let wanted = match orders.strike {
            Some(Strike { point: Point::Effect(index), .. }) => Some(index),
            _ => None,
        };
        let is_slow = AtomicBool::new(orders.strike.is_none_or(|strike| strike.blow != Blow::Stop));
        Ok(Self { orders, trace, of_kind: AtomicU64::new(0), wanted: Mutex::new(wanted), is_slow })
    }

    fn at(&self, point: &EffectPoint) {
        let kind = EffectKind::of(point);
        if point.when == When::Before {
            self.pause();
        }
        self.note(point, kind);
        if let Some(strike) = self.orders.strike
            && self.is_wanted(strike.point, point, kind)
            && strike.when == point.when
        {
            fall(strike.blow);
            self.is_slow.store(true, Ordering::Relaxed);
        }
        if point.when == When::After {
            self.pause();
        }
    }

    fn pause(&self) {
        if self.is_slow.load(Ordering::Relaxed) && !self.orders.delay.is_zero() {
            std::thread::sleep(self.orders.delay);
        }
    }

    fn note(&self, point: &EffectPoint, kind: EffectKind) {
        let Some(trace) = &self.trace else { return };
        let when = name(point.when);
        let line = format!("{} {when} {kind} {} {}\n", point.index, point.operation, point.url);
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        // A trace that is lost fails the test that reads it.
        let _ = trace.write_all(line.as_bytes());
    }

    fn is_wanted(&self, wanted: Point, point: &EffectPoint, kind: EffectKind) -> bool {
        let mut index = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Point::Nth(of, number) = wanted
            && of == kind
            && point.when == When::Before
            && self.of_kind.fetch_add(1, Ordering::Relaxed) + 1 == number
        {
            *index = Some(point.index);
        }
        *index == Some(point.index)
    }
}

/// Strikes this process. A kill does not come back.
fn fall(blow: Blow) {
    match blow {
        Blow::Kill => {
            let _ = kill_process_group(getpid(), Signal::KILL);
            loop {
                std::thread::park();
            }
        }
        Blow::Stop => {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}

fn name(when: When) -> &'static str {
    match when {
        When::Before => "before",
        When::After => "after",
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blow = match self.blow {
            Blow::Kill => "kill",
            Blow::Stop => "stop",
        };
        match self.point {
            Point::Effect(index) => write!(f, "{blow} {} effect {index}", name(self.when)),
            Point::Nth(kind, number) => write!(f, "{blow} {} {kind} {number}", name(self.when)),
        }
    }
}

impl FromStr for Strike {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let unreadable = || anyhow!("no such blow: {text:?}");
        let words: Vec<&str> = text.split(' ').collect();
        let [blow, when, what, number] = words[..] else { return Err(unreadable()) };
        let blow = match blow {
            "kill" => Blow::Kill,
            "stop" => Blow::Stop,
            _ => return Err(unreadable()),
        };
        let when = match when {
            "before" => When::Before,
            "after" => When::After,
            _ => return Err(unreadable()),
        };
        let number = number.parse()?;
        let point = if what == "effect" { Point::Effect(number) } else { Point::Nth(what.parse()?, number) };
        Ok(Self { blow, when, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        let strikes = [
            Strike { blow: Blow::Kill, when: When::Before, point: Point::Effect(12) },
            Strike { blow: Blow::Stop, when: When::After, point: Point::Nth(EffectKind::Data, 3) },
        ];
        for strike in strikes.map(Some).into_iter().chain([None]) {
            let orders = Orders { trace: Some("/tmp/trace".into()), delay: Duration::from_micros(1500), strike };
            let variables: std::collections::HashMap<_, _> = orders.variables().into_iter().collect();
            let read = Orders::from_variables(|name| variables.get(name).cloned()).expect("readable");
            assert_eq!(read, orders);
        }
        assert!(Orders::from_variables(|name| (name == STRIKE).then(|| "kill before".to_owned())).is_err());
    }
}
