//! The `ckpt` program as a library: `main` with the arguments and the storages as values.
//!
//! An engine that has a scheme of its own, or a test that wraps every storage, runs the same program:
//!
//! ```no_run
//! let registry = checkpoint_fs::Registry::from_process();
//! let args = ["ckpt", "status", "/data/job/checkpoint"].map(Into::into);
//! let code = checkpoint_cli::main(args, registry);
//! # let _ = code;
//! ```
//!
//! Results go to standard output, everything else to standard error; [`Exit`] lists the exit codes.

mod amount;
mod args;
mod commands;
mod console;
mod exit;
mod failure;
mod logging;
mod output;
mod progress;
mod rate;
mod session;
mod signals;
mod subdirectory;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use checkpoint_fs::Registry;
use clap::Parser;
use clap::error::ErrorKind;

pub use exit::Exit;

use crate::args::Cli;
use crate::console::console;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::Session;

/// Gives large buffers back to the system, and takes half the time of the system's allocator on wide rows. Without huge
/// pages (its feature `no_thp`), of which a whole one stays for any part that is in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Decoders of Parquet and Arrow assert on some damaged bytes. That is caught and reported as damage; nobody
/// needs to see the panic besides.
fn quiet_decoders() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |l| l.file());
        if !["/parquet-", "/arrow-"].iter().any(|decoder| file.contains(decoder)) {
            report(info);
        }
    }));
}

/// Runs the program on a runtime of its own and answers what the process should exit with. The first
/// argument is the program's name.
pub fn main(args: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    quiet_decoders();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(cores.max(2)).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::new(Exit::Storage, format!("threads cannot be started: {error}"))
                .with_hint("the limit of processes or of open files may be too low; see `ulimit -a`");
            return report(&failure, false).into();
        }
    };
    let exit = runtime.block_on(Box::pin(run(args, registry)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    exit.into()
}

/// Runs the program on the caller's tokio runtime, which must have several threads. Signals, logging and
/// standard output are the process's.
pub async fn run(args: impl IntoIterator<Item = OsString>, registry: Registry) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return explain(&error, &args),
    };
    let verbose = cli.shared.verbose;
    logging::start(verbose, cli.shared.quiet);
    match Box::pin(dispatch(cli, registry)).await {
        Ok(exit) => exit,
        Err(failure) => report(&failure, verbose > 0),
    }
}

async fn dispatch(cli: Cli, registry: Registry) -> Result<Exit> {
    let session = Session::open(&cli.shared, registry)?;
    let exit = Box::pin(commands::run(cli.command, &session)).await?;
    session.out.flush()?;
    Ok(exit)
}

/// Prints a failure and answers its code.
fn report(failure: &Failure, with_causes: bool) -> Exit {
    for line in failure.lines(with_causes) {
        console().line(&line);
    }
    failure.exit()
}

/// Prints the help, the version, or what is wrong with the command line.
fn explain(error: &clap::Error, args: &[OsString]) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let out = Output::stdout();
            let printed = out.bytes(error.render().to_string().as_bytes()).and_then(|()| out.flush());
            printed.map_or_else(|failure| report(&failure, false), |()| Exit::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            console().write(error.render().to_string().as_bytes());
            Exit::Usage
        }
        _ => report(&args::complain(error, args), false),
    }
}
