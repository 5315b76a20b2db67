//! The vendors' own clients, run as child processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

/// The directory with the clients' scripts and what to install for them.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/vendor_clients");

/// The programs of the environment that `scripts/install-tools` makes.
///
/// # Errors
/// When it is not there, or holds other versions than the tests want; says what to run.
pub fn tools() -> Result<PathBuf> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = match (var("CKPT_TOOLS"), var("XDG_CACHE_HOME"), var("HOME")) {
        (Some(tools), ..) => tools,
        (None, Some(cache), _) => cache.join("checkpoint-tools"),
        (None, None, Some(home)) => home.join(".cache/checkpoint-tools"),
        (None, None, None) => bail!("neither CKPT_TOOLS nor HOME is set"),
    };
    let python = base.join("python");
    let read = |path: &Path| std::fs::read(path).ok();
    let wanted = read(&Path::new(SCRIPTS).join("requirements.txt")).context("the list of clients is gone")?;
    let found = read(&python.join("requirements.txt"));
    ensure!(found == Some(wanted), "the vendors' clients are not installed, or are others: run scripts/install-tools");
    Ok(python.join("bin"))
}

/// A program of that environment, or a Python script of this workspace, with nothing in its environment
/// but what is given.
#[derive(Debug)]
pub struct VendorClient {
    command: Command,
}

impl VendorClient {
    /// A script beside the list of clients.
    ///
    /// # Errors
    /// As [`tools`].
    pub fn script(name: &str, variables: &[(&'static str, String)]) -> Result<Self> {
        let mut client = Self::program("python", variables)?;
        client.command.arg("-B").arg(Path::new(SCRIPTS).join(name));
        Ok(client)
    }

    /// A program that came with a client.
    ///
    /// # Errors
    /// As [`tools`].
    pub fn program(name: &str, variables: &[(&'static str, String)]) -> Result<Self> {
        let bin = tools()?;
        let mut command = Command::new(bin.join(name));
        let path = std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()])?;
        command.env_clear().env("PATH", path).env("PYTHONUTF8", "1").env("LC_ALL", "C.UTF-8");
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        Ok(Self { command })
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it with arguments; gives what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn run(self, arguments: &[&str]) -> Result<String> {
        let output = self.output(arguments)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "{arguments:?} ended with {}:\n{}{}",
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Runs it with arguments, however it ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn output(mut self, arguments: &[&str]) -> Result<Output> {
        self.command.args(arguments).output().with_context(|| format!("{:?} did not start", self.command))
    }
}
