//! `ckpt fs`: looking at files, copying and deleting them, the same on every storage.

mod cat;
mod cp;
mod doctor;
mod ls;
mod place;
mod resolve;
mod rm;
mod stat;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::failure::Result;
use crate::session::Session;

/// `ckpt fs`.
#[derive(Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct FsArgs {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Subcommand)]
enum FsCommand {
    /// List a directory
    Ls(ls::LsArgs),
    /// Write files to standard output
    Cat(cat::CatArgs),
    /// Copy a file, from any storage to any other
    Cp(cp::CpArgs),
    /// Show what is known of a file
    Stat(stat::StatArgs),
    /// Show how a URL would be reached: endpoint, region, credentials; nothing is sent
    Resolve(resolve::ResolveArgs),
    /// Delete files, or directories with -r
    Rm(rm::RmArgs),
    /// Show how a URL is reached, and try whether the store does what a job needs
    Doctor(doctor::DoctorArgs),
}

/// Runs one of them.
pub(crate) async fn run(args: &FsArgs, session: &Session) -> Result<Exit> {
    match &args.command {
        FsCommand::Ls(args) => ls::run(args, session).await,
        FsCommand::Cat(args) => cat::run(args, session).await,
        FsCommand::Cp(args) => cp::run(args, session).await,
        FsCommand::Stat(args) => stat::run(args, session).await,
        FsCommand::Resolve(args) => resolve::run(args, session).await,
        FsCommand::Rm(args) => rm::run(args, session).await,
        FsCommand::Doctor(args) => Box::pin(doctor::run(args, session)).await,
    }
}
