//! The `ckpt` program over storages that carry out what a test orders.

use std::process::ExitCode;

use checkpoint_fs::Registry;
use checkpoint_tests::Orders;

fn main() -> anyhow::Result<ExitCode> {
    let registry = Orders::from_process()?.apply(&Registry::from_process())?;
    Ok(checkpoint_cli::main(std::env::args_os(), registry))
}
