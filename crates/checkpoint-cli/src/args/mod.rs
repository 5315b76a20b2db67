//! The command line: what can be written, and nothing about what it does.

mod complaint;
mod id_sets;
mod job;
mod values;

use clap::{ArgAction, Args, Parser, Subcommand};

pub(crate) use complaint::complain;
pub(crate) use id_sets::IdSetArgs;
pub(crate) use job::{ProgressMode, RunArgs};
pub(crate) use values::age;

use crate::commands::{
    compact::CompactArgs, demo::DemoArgs, fs::FsArgs, gc::GcArgs, ids::IdsArgs, recover::RecoverArgs, rm::RmArgs,
};
use crate::commands::{status::StatusArgs, verify::VerifyArgs};
use crate::exit::Exit;

/// Resumable batch jobs: kill it anywhere, run it again, and every input row is in the output exactly once.
#[derive(Parser)]
#[command(
    name = "ckpt",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = exit_codes(),
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

fn exit_codes() -> String {
    format!("Exit codes:\n{}", Exit::table())
}

/// What every command takes.
#[derive(Args)]
#[command(next_help_heading = "For all commands")]
pub(crate) struct SharedArgs {
    /// Options of the storages, as {"<protocol>": {"<option>": <value>}}, or a file that holds them
    #[arg(long, global = true, value_name = "JSON|@FILE")]
    pub(crate) storage_options: Option<String>,
    /// Say more on stderr: -v causes and steps, -vv details
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say nothing on stderr but errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// Whether people or programs read the result.
#[derive(Args)]
pub(crate) struct JsonArg {
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where the lease is, for commands that read a checkpoint.
#[derive(Args)]
pub(crate) struct LeaseUrlArg {
    /// Where the lease is kept instead, for a checkpoint whose store has no create-only writes
    #[arg(long, value_name = "URL")]
    pub(crate) lease_url: Option<String>,
}

/// How the lease is taken, for commands that change a checkpoint.
#[derive(Args)]
pub(crate) struct ExclusiveArg {
    /// Trust that nobody else works on the checkpoint, where its store cannot tell
    #[arg(long)]
    pub(crate) assume_exclusive: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a job, or go on with it where it was stopped
    Run(RunArgs),
    /// Say what a run would do; writes nothing
    Plan(RunArgs),
    /// Count what is done
    Status(StatusArgs),
    /// List, count or look up the IDs that are done
    Ids(IdsArgs),
    /// Prove that the output holds what the checkpoint says
    Verify(VerifyArgs),
    /// Settle what earlier attempts left, without running
    Recover(RecoverArgs),
    /// Merge many small records into few
    Compact(CompactArgs),
    /// Delete a checkpoint
    Rm(RmArgs),
    /// Delete old checkpoints under a prefix
    Gc(GcArgs),
    /// See it work: run a job, kill it half way, run it again, count the rows
    Demo(DemoArgs),
    /// Look at files, copy and delete them, on any storage
    Fs(FsArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
