//! Recovery: what counts of the past, decided once and for all, and what does not, swept away.

mod close;
mod elsewhere;
mod gather;
mod load;
mod pending;
mod plan;
mod ray;
mod roll_forward;
mod settle;
mod sweep;
mod unrecorded;

pub use elsewhere::{PartReader, ReadElsewhere, read_part};
pub(crate) use load::{Loaded, Wanted, class_problem, first_class, load_records, whole_or_damage};
pub(crate) use plan::{Plan, Wants};
pub use settle::RecoveryReport;
pub(crate) use settle::{Damage, Settled, Settling, foresee, settle};
pub(crate) use sweep::{Verdict, delete_all, sweep_plan};
pub(crate) use unrecorded::{surely_without, without_record};
