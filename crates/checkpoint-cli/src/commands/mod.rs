//! The commands, a file each.

pub(crate) mod compact;
pub(crate) mod demo;
pub(crate) mod fs;
pub(crate) mod gc;
pub(crate) mod ids;
mod plan;
pub(crate) mod recover;
pub(crate) mod rm;
mod run;
pub(crate) mod status;
pub(crate) mod verify;

use crate::args::Command;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::session::Session;

/// Runs a command. `run` ends by itself after a signal; the others are dropped where they are, which all
/// of them stand.
pub(crate) async fn run(command: Command, session: &Session) -> Result<Exit> {
    if let Command::Run(args) = &command {
        return Box::pin(run::run(args, session)).await;
    }
    tokio::select! {
        done = Box::pin(perform(command, session)) => done,
        exit = session.signals.first() => Err(Failure::new(exit, "interrupted")),
    }
}

async fn perform(command: Command, session: &Session) -> Result<Exit> {
    match command {
        Command::Run(args) => run::run(&args, session).await,
        Command::Plan(args) => plan::run(&args, session).await,
        Command::Status(args) => status::run(&args, session).await,
        Command::Ids(args) => ids::run(&args, session).await,
        Command::Verify(args) => verify::run(&args, session).await,
        Command::Recover(args) => recover::run(&args, session).await,
        Command::Compact(args) => compact::run(&args, session).await,
        Command::Rm(args) => rm::run(&args, session).await,
        Command::Gc(args) => gc::run(&args, session).await,
        Command::Demo(args) => demo::run(&args, session).await,
        Command::Fs(args) => fs::run(&args, session).await,
    }
}
