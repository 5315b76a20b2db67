//! The machine that the figures are of.

use std::fs;
use std::process::Command;

use crate::report::bytes;

/// What it is, in one line.
pub(crate) fn describe() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpu.lines().find_map(|line| line.strip_prefix("model name")).map(|line| line.trim_matches([' ', '\t', ':']));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{} cores of {}, {} of memory ({} free), load {} at the start",
        cores(),
        model.unwrap_or("an unnamed processor"),
        bytes(memory("MemTotal:") as f64),
        bytes(memory("MemAvailable:") as f64),
        load.split(' ').next().unwrap_or("unknown"),
    )
}

/// Processor cores.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes of memory that are to be had now.
pub(crate) fn available_memory() -> u64 {
    memory("MemAvailable:")
}

/// The versions of what a Python has, in one line.
pub(crate) fn peers(python: &std::path::Path) -> String {
    const ASK: &str = "import importlib.metadata as m; print(', '.join(f'{p} {m.version(p)}' for p in ['ray', 'daft', 'pyarrow', 'numpy', 's3fs', 'obstore']))";
    let said = Command::new(python).args(["-c", ASK]).output().map(|said| said.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn memory(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}
