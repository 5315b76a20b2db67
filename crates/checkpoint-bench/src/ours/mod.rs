//! Our sides, each run in a process of its own.

mod build;
mod commits;
mod filter;
mod load;
mod probe;

use std::io::{BufRead, Write};

use anyhow::{Result, bail};
use serde_json::{Value, json};

/// Runs the side with this name.
pub(crate) fn run(name: &str, spec: &str) -> Result<()> {
    match name {
        "load" => load::run(&serde_json::from_str(spec)?),
        "commits" => commits::run(&serde_json::from_str(spec)?),
        "build" => build::run(&serde_json::from_str(spec)?),
        "probe" => probe::run(&serde_json::from_str(spec)?),
        other => bail!("there is no such side: side={other}"),
    }
}

/// Says how far it is and what was found, and waits for leave to go on.
fn mark(name: &str, mut found: Value) -> Result<()> {
    found["mark"] = json!(name);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{found}")?;
    out.flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// A runtime as the program has it.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
