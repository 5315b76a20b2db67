//! What the tests of this workspace share: a conformance suite for storages, and storages that count, fail,
//! or stop at an exact point.
//!
//! - [`conformance`]: one suite for every backend, selected by capability.
//! - [`CountingStorage`]: calls, bytes and items by operation.
//! - [`FaultyStorage`]: failures before and after the effect, delays, short reads, unknown outcomes; by rule
//!   or by seed.
//! - [`EffectStorage`]: a hook before and after every effect, numbered, for killing a process there.
//! - [`ManualRuntime`]: a clock that moves when it is told, seeded randomness, processes to stop and to kill.
//! - [`mock`]: strict mocks of the vendors' services, which their own clients accept.
//! - [`proxy`]: a proxy that breaks what passes, in front of any of them.
//! - [`server`]: a real S3 server, started on demand.
//! - [`WrappedScheme`] and [`wrap_all`]: a registry whose storages all pass through one of these.

pub mod conformance;
mod counting;
mod effects;
mod faulty;
mod hangups;
pub mod mock;
mod object_store_suite;
mod operation;
pub mod proxy;
mod runtime;
mod scheme;
pub mod server;

pub use counting::{Count, Counters, CountingStorage, Counts};
pub use effects::{EffectPoint, EffectStorage, Effects, When};
pub use faulty::{Fault, FaultPlan, FaultyStorage, Rule, Struck};
pub use hangups::handle_hangups;
pub use object_store_suite::object_store_suite;
pub use operation::Operation;
pub use runtime::{ManualClock, ManualRuntime};
pub use scheme::{WrappedScheme, wrap_all};
