//! The `ckpt` program.

fn main() -> std::process::ExitCode {
    checkpoint_cli::main(std::env::args_os(), checkpoint_fs::Registry::from_process())
}
