//! OpenStack Swift with its `s3api`: an S3 server that refuses a multi-delete without a digest of its body.
//!
//! One replica, and every program once: the servers of accounts, containers and objects, and the proxy in front
//! of them. Without a cache, so that each request sees what the last one did.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::Access;
use super::daemon::{Daemon, Kennel, answers_http, free_port, program, tools, wait_until};

/// The servers behind the proxy, which are also the rings that say where each is.
const STORES: [&str; 3] = ["account", "container", "object"];
const PROXY: &str = "swift-proxy-server";
const INSTALL: &str = "run scripts/install-tools, or pip install swift";
const LIMIT: Duration = Duration::from_secs(120);
/// Makes the rings: one partition pair, one device, on the ports given.
const RINGS: &str = "
import sys
from swift.common.ring import RingBuilder
directory, *stores = sys.argv[1:]
for name, port in (store.split('=') for store in stores):
    ring = RingBuilder(part_power=1, replicas=1, min_part_hours=1)
    ring.add_dev(dict(region=1, zone=1, ip='127.0.0.1', port=int(port), device='disk', weight=1))
    ring.rebalance()
    ring.get_ring().save(f'{directory}/{name}.ring.gz')
";
/// The proxy's filters, in the order that `s3api` asks for.
const FILTERS: [&str; 10] = [
    "catch_errors",
    "gatekeeper",
    "listing_formats",
    "bulk",
    "s3api",
    "tempauth",
    "slo",
    "dlo",
    "versioned_writes",
    "copy",
];

/// A Swift on free ports of the loopback interface, with one user and its objects on disk. It ends with the
/// test process, however that ends, and is in process groups of its own.
#[derive(Debug)]
pub struct SwiftServer {
    access: Access,
    // Ended in this order, before the kennel removes their state.
    _proxy: Daemon,
    _stores: Vec<Daemon>,
    _kennel: Kennel,
}

impl SwiftServer {
    /// Starts one. Takes 5 to 40 seconds.
    ///
    /// # Errors
    /// When it is not installed (the message says how), or does not come up (with its last words).
    pub fn start() -> Result<Self> {
        let programs = installed().ok_or_else(|| anyhow!("no Swift for tests: {PROXY} not found; {INSTALL}"))?;
        let mut kennel = Kennel::new("swift-")?;
        let dir = kennel.dir().to_owned();
        fs::create_dir_all(dir.join("devices/disk"))?;
        let ports = STORES.iter().map(|_| free_port()).collect::<Result<Vec<u16>>>()?;
        let stores = || STORES.into_iter().zip(ports.iter().copied());
        make_rings(&programs, &dir, stores())?;
        let common = Common { user: user()?, dir: &dir };
        fs::write(dir.join("swift.conf"), CLUSTER)?;
        for (name, port) in stores() {
            fs::write(dir.join(name).with_extension("conf"), common.store(name, port))?;
        }
        let port = free_port()?;
        let access = Access {
            endpoint: format!("http://127.0.0.1:{port}"),
            access_key: "test:tester".to_owned(),
            secret_key: "test/secret+key=for/loopback".to_owned(),
        };
        fs::write(dir.join("proxy.conf"), common.proxy(port, &access.secret_key))?;
        // All at once, since most of the time goes into starting Python.
        let mut daemons = ["account", "container", "object", "proxy"]
            .into_iter()
            .map(|name| {
                let mut command = Command::new(programs.join(format!("swift-{name}-server")));
                command.arg(dir.join(name).with_extension("conf")).arg("--verbose").env("PYTHONWARNINGS", "ignore");
                kennel.spawn(name, &mut command)
            })
            .collect::<Result<Vec<_>>>()?;
        for ((name, port), daemon) in stores().chain([("proxy", port)]).zip(&mut daemons) {
            wait_until(&format!("Swift's {name} server"), LIMIT, || answers_http(port), || daemon.check_alive())?;
        }
        let proxy = daemons.pop().context("the proxy was started last")?;
        Ok(Self { access, _proxy: proxy, _stores: daemons, _kennel: kennel })
    }

    /// The server of this process, started by whoever asks first.
    ///
    /// # Errors
    /// As [`SwiftServer::start`]; every caller gets the same.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<SwiftServer, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().map_err(|e| format!("{e:#}"))).as_ref().map_err(|e| anyhow!(e.clone()))
    }

    /// How it is reached.
    pub fn access(&self) -> &Access {
        &self.access
    }
}

/// What every file of settings repeats.
struct Common<'a> {
    user: String,
    dir: &'a Path,
}

impl Common<'_> {
    /// No worker processes, so that a server is the one process that was started; and time enough for a busy
    /// machine, since a store that is waited for no longer makes listings late.
    fn defaults(&self, port: u16) -> String {
        let (user, dir) = (&self.user, self.dir.display());
        format!(
            "[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {dir}
log_level = WARNING
conn_timeout = 20
node_timeout = 60
"
        )
    }

    fn store(&self, name: &str, port: u16) -> String {
        let (defaults, dir) = (self.defaults(port), self.dir.display());
        format!(
            "{defaults}devices = {dir}/devices
mount_check = false
disable_fallocate = true
container_update_timeout = 60
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"
        )
    }

    fn proxy(&self, port: u16, secret: &str) -> String {
        let mut text = self.defaults(port);
        text.push_str(&format!("[pipeline:main]\npipeline = {} proxy-server\n", FILTERS.join(" ")));
        text.push_str("[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n");
        text.push_str("recoverable_node_timeout = 60\n");
        for filter in FILTERS {
            text.push_str(&format!("[filter:{filter}]\nuse = egg:swift#{filter}\n"));
            if filter == "tempauth" {
                text.push_str(&format!("user_test_tester = {secret} .admin\n"));
            }
        }
        text
    }
}

/// What the servers agree on.
const CLUSTER: &str = "[swift-hash]
swift_hash_path_prefix = test
swift_hash_path_suffix = test
[storage-policy:0]
name = one
default = yes
";

fn make_rings<'a>(programs: &Path, dir: &Path, stores: impl Iterator<Item = (&'a str, u16)>) -> Result<()> {
    let mut command = Command::new(programs.join("python3"));
    command.args(["-W", "ignore", "-c", RINGS]).arg(dir).args(stores.map(|(name, port)| format!("{name}={port}")));
    let done = command.stdin(Stdio::null()).output().context("Swift's Python did not start")?;
    ensure!(done.status.success(), "the rings were not made: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// Who runs this: Swift wants to become the user that its settings name.
fn user() -> Result<String> {
    let done = Command::new("id").arg("-un").stdin(Stdio::null()).output().context("id did not start")?;
    let name = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if name.is_empty() {
        bail!("this user has no name, which Swift needs");
    }
    Ok(name)
}

/// The directory of its programs and its Python: where scripts/install-tools puts them, or of the `PATH`.
fn installed() -> Option<PathBuf> {
    let beside = tools().map(|tools| tools.join("swift/bin")).filter(|dir| dir.join(PROXY).is_file());
    beside.or_else(|| Some(program(PROXY)?.parent()?.to_owned()))
}
