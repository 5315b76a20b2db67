//! Where a run makes its files: a directory that is gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::settings::Settings;
use crate::side::Side;

/// The scripts of the peers, by name.
const SCRIPTS: [(&str, &str); 9] = [
    ("side.py", include_str!("../python/side.py")),
    ("cluster.py", include_str!("../python/cluster.py")),
    ("ray_load.py", include_str!("../python/ray_load.py")),
    ("ray_commits.py", include_str!("../python/ray_commits.py")),
    ("ray_job.py", include_str!("../python/ray_job.py")),
    ("daft_job.py", include_str!("../python/daft_job.py")),
    ("arrow_copy.py", include_str!("../python/arrow_copy.py")),
    ("store_files.py", include_str!("../python/store_files.py")),
    ("ray_resume.py", include_str!("../python/ray_resume.py")),
];

/// The directory of a run, and who runs in it.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
    python: Option<PathBuf>,
}

impl Place {
    /// A new one.
    pub(crate) fn new(settings: &Settings) -> Result<Self> {
        let parent = settings.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new().prefix("ckpt-bench-").tempdir_in(parent)?;
        let scripts = dir.path().join("python");
        fs::create_dir(&scripts)?;
        for (name, text) in SCRIPTS {
            fs::write(scripts.join(name), text)?;
        }
        Ok(Self { dir, python: settings.python.clone() })
    }

    /// The directory itself.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A directory in it that is empty now.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Fails when there is less room than this.
    pub(crate) fn must_have(&self, bytes: u64) -> Result<()> {
        let free = rustix::fs::statvfs(self.path()).map(|room| room.f_bavail * room.f_frsize)?;
        ensure!(
            free >= bytes,
            "not enough room on the disk: needed={bytes} free={free} dir={}; name another with --dir",
            self.path().display()
        );
        Ok(())
    }

    /// Whether there are peers to compare with.
    pub(crate) fn has_peers(&self) -> bool {
        self.python.is_some()
    }

    /// A side of ours.
    pub(crate) fn ours(&self, name: &str, spec: &Value) -> Result<Side> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["side", name, &spec.to_string()]);
        Ok(Side::new(&format!("ours, {name}"), command, self.path()))
    }

    /// The `ckpt` program.
    pub(crate) fn ckpt<I: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Result<Side> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("ckpt").args(args);
        Ok(Side::new("ckpt", command, self.path()))
    }

    /// A side of a peer. Ask [`has_peers`](Place::has_peers) first.
    pub(crate) fn peer(&self, script: &str, spec: &Value) -> Result<Side> {
        let python = self.python.as_ref().context("there is no Python with peers: give it by --python")?;
        let mut command = Command::new(python);
        command.arg(self.dir.path().join("python").join(script)).arg(spec.to_string());
        Ok(Side::new(script, command, self.path()))
    }
}
