//! The `ckpt` program as users get it, under a name that does not collide with the one of its own package.

use std::process::ExitCode;

fn main() -> ExitCode {
    checkpoint_cli::main(std::env::args_os(), checkpoint_fs::Registry::from_process())
}
