//! The exit codes of `ckpt`, and which error gives which: the one place that knows.

use std::process::ExitCode;

use checkpoint_fs::ErrorKind as Fs;
use checkpoint_pipeline::ErrorKind as Pipeline;
use checkpoint_store::ErrorKind as Store;

/// How the program ended. The numbers are frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exit {
    /// What was asked for is done, or was done already.
    Done,
    /// It ran and the answer is no, the transform failed, or rows were set aside.
    No,
    /// A flag, an option or a URL is wrong, or there is no such checkpoint or object.
    Usage,
    /// Somebody else owns the checkpoint, or the job, its input or its output is not the same as before.
    Conflict,
    /// A storage failed; trying again later may help.
    Storage,
    /// IDs, records or files break the rules or are damaged.
    BadData,
    /// Whether an effect happened could not be found out.
    OutcomeUnknown,
    /// SIGHUP.
    HungUp,
    /// SIGINT.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    /// All of them, as the help lists them.
    pub const ALL: [Exit; 10] = [
        Exit::Done,
        Exit::No,
        Exit::Usage,
        Exit::Conflict,
        Exit::Storage,
        Exit::BadData,
        Exit::OutcomeUnknown,
        Exit::HungUp,
        Exit::Interrupted,
        Exit::Terminated,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Usage => 2,
            Exit::Conflict => 3,
            Exit::Storage => 4,
            Exit::BadData => 5,
            Exit::OutcomeUnknown => 6,
            Exit::HungUp => 129,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// What it means, for the help.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done, or already complete",
            Exit::No => "ran and the answer is no, the transform failed, or rows were set aside",
            Exit::Usage => "usage or configuration; no such bucket, checkpoint, file or object",
            Exit::Conflict => "conflict: the checkpoint is in use, or the job, input or output changed",
            Exit::Storage => "storage failed; trying again may help",
            Exit::BadData => "bad data: IDs, damaged records or files",
            Exit::OutcomeUnknown => "outcome unknown; nothing was deleted",
            Exit::HungUp => "interrupted by SIGHUP",
            Exit::Interrupted => "interrupted by SIGINT (Ctrl-C)",
            Exit::Terminated => "interrupted by SIGTERM",
        }
    }

    /// The table of codes, a line each.
    pub(crate) fn table() -> String {
        let lines = Exit::ALL.iter().map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// What a failed storage call gives. A missing object is 2, as a missing checkpoint is: trying again
    /// does not help. A refused login is 4, as it comes and goes with the service.
    pub(crate) fn of_fs(kind: Fs) -> Self {
        match kind {
            Fs::InvalidConfig | Fs::Unsupported | Fs::NotFound => Exit::Usage,
            Fs::Conflict | Fs::AlreadyExists => Exit::Conflict,
            Fs::Corrupt => Exit::BadData,
            _ => Exit::Storage,
        }
    }

    /// What a failed operation on a checkpoint gives.
    pub(crate) fn of_store(kind: Store) -> Self {
        match kind {
            Store::InvalidConfig | Store::NoCheckpoint => Exit::Usage,
            Store::Conflict => Exit::Conflict,
            Store::BadData => Exit::BadData,
            Store::OutcomeUnknown => Exit::OutcomeUnknown,
            _ => Exit::Storage,
        }
    }

    /// What a failed run gives. `interrupted` is the exit of the signal that was received, if any was.
    pub(crate) fn of_pipeline(kind: Pipeline, interrupted: Option<Exit>) -> Self {
        match kind {
            Pipeline::InvalidConfig => Exit::Usage,
            Pipeline::Conflict => Exit::Conflict,
            Pipeline::BadData => Exit::BadData,
            Pipeline::OutcomeUnknown => Exit::OutcomeUnknown,
            Pipeline::Transform => Exit::No,
            Pipeline::Interrupted => interrupted.unwrap_or(Exit::Interrupted),
            _ => Exit::Storage,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_frozen_ones_and_the_table_lists_each_once() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 129, 130, 143]);
        assert_eq!(Exit::table().lines().count(), codes.len());
    }

    #[test]
    fn kinds_of_all_three_layers_agree() {
        assert_eq!(Exit::of_fs(Fs::NotFound), Exit::of_store(Store::NoCheckpoint));
        assert_eq!(Exit::of_fs(Fs::Timeout), Exit::of_store(Store::Storage));
        assert_eq!(Exit::of_fs(Fs::Corrupt), Exit::of_pipeline(Pipeline::BadData, None));
        assert_eq!(Exit::of_store(Store::OutcomeUnknown), Exit::of_pipeline(Pipeline::OutcomeUnknown, None));
        assert_eq!(Exit::of_pipeline(Pipeline::Transform, None), Exit::No);
        assert_eq!(Exit::of_pipeline(Pipeline::Interrupted, Some(Exit::Terminated)).code(), 143);
        assert_eq!(Exit::of_pipeline(Pipeline::Storage, Some(Exit::Terminated)), Exit::Storage);
    }
}
