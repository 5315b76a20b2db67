//! What a run compares, and how much of it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Size {
    /// Next to nothing: whether all of it works
    Smoke,
    /// Some ten minutes on two cores
    #[default]
    Quick,
    /// Up to a hundred million IDs
    Large,
}

impl Size {
    /// The one of three figures that this size takes.
    pub(crate) fn pick<T>(self, smoke: T, quick: T, large: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Large => large,
        }
    }
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Comparison {
    /// Loading what is done, and filtering by it
    Ids,
    /// Loading very many small records
    Records,
    /// Committing tasks, on a local disk and on an S3 server
    Commits,
    /// Resuming a job of wide rows that is nine tenths done
    Resume,
    /// A whole job that copies its rows
    Copy,
    /// Instructions of the hot loops
    Hot,
    /// Reading, writing and listing an S3 server from Python
    Files,
    /// Resuming a job of Ray Data, with this package and without
    Ray,
    /// A billion IDs; only when it is named
    Billion,
}

/// The options of `bench run`.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// How much is measured
    #[arg(long, value_enum, default_value_t)]
    pub(crate) size: Size,
    /// Only these comparisons
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    only: Vec<Comparison>,
    /// A Python that has the peers; ours run alone without it
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) python: Option<PathBuf>,
    /// Where files are made [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// A file that gets the tables too
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

impl Settings {
    /// The comparisons to make, in order.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = Comparison> + '_ {
        let all = Comparison::value_variants().iter().copied();
        all.filter(|one| if self.only.is_empty() { *one != Comparison::Billion } else { self.only.contains(one) })
    }
}
