//! `bench`: this workspace's checkpoint store against its peers, side by side in one run.
//!
//! Every side of a comparison is a process of its own, started by the run: one of ours is this program again
//! (`bench side NAME SPEC`), one of a peer's is a script in `python/`. Each is given the same files, does the same
//! work, and says what it found; an answer that is not the expected one fails the run and gives no number. What is
//! compared with what, and what the figures are good for, is in `docs/scale.md`.

mod clock;
mod found;
mod ids;
mod machine;
mod ours;
mod place;
mod probes;
mod process_tree;
mod records;
mod report;
mod section;
mod settings;
mod side;
mod target;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::settings::Settings;

/// Measures this workspace against its peers and prints tables.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs comparisons and prints their tables
    Run(Settings),
    /// One side of ours, alone; started by `run`
    #[command(hide = true)]
    Side {
        /// Which
        name: String,
        /// What it is to do, as JSON
        spec: String,
    },
    /// The `ckpt` program; started by `run`
    #[command(hide = true, disable_help_flag = true)]
    Ckpt {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<std::ffi::OsString>,
    },
}

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Command::Run(settings) => section::run(&settings),
        Command::Side { name, spec } => ours::run(&name, &spec).map(|()| ExitCode::SUCCESS),
        Command::Ckpt { args } => {
            let args = std::iter::once("ckpt".into()).chain(args);
            Ok(checkpoint_cli::main(args, checkpoint_fs::Registry::from_process()))
        }
    }
}
