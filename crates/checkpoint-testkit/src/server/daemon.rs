//! Background programs that live exactly as long as the test that needs them.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Waits for the end of its input, which comes with the end of the test process, however that ends. Then
/// it kills what it was told of (as long as that still names the directory) and removes the directory.
const WATCHDOG: &str = r#"
trap '' HUP INT TERM
pids=
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do
    if grep -qaF "$1" "/proc/$pid/cmdline" 2>/dev/null; then kill -9 "$pid" 2>/dev/null; fi
done
rm -rf "$1"
"#;

/// How long a program may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// The full path of a program on the `PATH`.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Where `scripts/install-tools` puts what no package of the system holds.
pub(super) fn tools() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("CKPT_TOOLS").or_else(|| Some(cache()?.join("checkpoint-tools")))
}

/// A port of the loopback interface that is free now.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Whether something answers HTTP on a port.
pub(super) fn answers_http(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 5];
        stream.read_exact(&mut start)?;
        Ok(&start == b"HTTP/")
    };
    ask().unwrap_or(false)
}

/// A directory for the state of some programs, and the watchdog that ends them all with this process.
pub(super) struct Kennel {
    dir: PathBuf,
    watchdog: Child,
    line: Option<ChildStdin>,
}

impl Kennel {
    pub(super) fn new(name: &str) -> Result<Self> {
        // Sockets of the programs go below, and their paths may have no more than 107 bytes.
        let parent = Some(std::env::temp_dir()).filter(|d| d.as_os_str().len() < 40).unwrap_or_else(|| "/tmp".into());
        let dir = tempfile::Builder::new().prefix(name).tempdir_in(parent)?.keep();
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("the watchdog did not start")?;
        let line = watchdog.stdin.take();
        Ok(Self { dir, watchdog, line })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a program in a process group of its own. Its command must name the directory.
    pub(super) fn spawn(&mut self, name: &'static str, command: &mut Command) -> Result<Daemon> {
        let log = self.dir.join(format!("{name}.out"));
        let out = File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name} did not start"))?;
        if let Some(line) = &mut self.line {
            writeln!(line, "{}", child.id())?;
        }
        Ok(Daemon { name, child, log })
    }
}

impl Drop for Kennel {
    fn drop(&mut self) {
        self.line = None;
        // Nothing is to be done about a watchdog that cannot be waited for.
        let _ = self.watchdog.wait();
    }
}

impl fmt::Debug for Kennel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kennel").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A program in the background; ended on drop.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Fails, with the last lines of its log, when it has ended.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended early ({status}):\n{}", self.name, self.last_lines());
        }
        Ok(())
    }

    pub(super) fn last_lines(&self) -> String {
        let text = fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Ends it without warning, as a power cut would.
    pub(super) fn kill(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        for _ in 0..GRACE.as_millis() / 50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.kill();
    }
}

/// Tries until it works or the time is up; `check` ends it early.
pub(super) fn wait_until(
    what: &str,
    limit: Duration,
    mut works: impl FnMut() -> bool,
    mut check: impl FnMut() -> Result<()>,
) -> Result<()> {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < limit {
        check()?;
        if works() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
    bail!("{what} did not come up within {} s", limit.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_end_with_their_owner_and_the_directory_goes() {
        let mut kennel = Kennel::new("kennel-").expect("starts");
        let dir = kennel.dir().to_owned();
        let mut sleep = Command::new("sh");
        sleep.args(["-c", "sleep 600 # $1", "sh"]).arg(&dir);
        let daemon = kennel.spawn("sleep", &mut sleep).expect("starts");
        let proc = PathBuf::from(format!("/proc/{}", daemon.child.id()));
        assert!(proc.exists() && dir.exists());
        drop(daemon);
        assert!(!proc.exists());
        drop(kennel);
        assert!(!dir.exists());
    }

    #[test]
    fn the_watchdog_ends_what_its_owner_left_behind() {
        let mut kennel = Kennel::new("kennel-").expect("starts");
        let mut sleep = Command::new("sh");
        sleep.args(["-c", "sleep 600; : $1", "sh"]).arg(kennel.dir());
        let mut daemon = kennel.spawn("sleep", &mut sleep).expect("starts");
        drop(kennel);
        let status = daemon.child.wait().expect("ended");
        assert!(!status.success(), "{status}");
    }
}
