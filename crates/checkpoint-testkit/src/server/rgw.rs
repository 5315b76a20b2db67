//! Ceph's RADOS Gateway on one node: a monitor, one object store daemon, and the gateway itself.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Access;
use super::daemon::{Daemon, Kennel, answers_http, free_port, program, wait_until};

const PROGRAMS: [&str; 6] = ["ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin"];
const INSTALL: &str = "apt-get install -y --no-install-recommends radosgw ceph-mon ceph-osd";
const LIMIT: Duration = Duration::from_secs(120);
/// Under load the store can ask before it knows the cluster, and exits; it is then started again.
const STORE_STARTS: usize = 5;

/// Where the gateway keeps objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectStore {
    /// In memory, 2 GiB at most: fast, and gone when the daemons end.
    #[default]
    Memory,
    /// On disk, where acknowledged objects survive [`RgwServer::kill`].
    Disk,
}

impl ObjectStore {
    fn as_str(self) -> &'static str {
        match self {
            ObjectStore::Memory => "memstore",
            ObjectStore::Disk => "bluestore",
        }
    }
}

/// A gateway on a free port of the loopback interface, with one user. Its daemons are in process groups of
/// their own, so that killing a test's group does not reach them, and end with the test process.
#[derive(Debug)]
pub struct RgwServer {
    access: Access,
    port: u16,
    // Ended in this order, before the kennel removes their state.
    gateway: Option<Daemon>,
    store: Option<Daemon>,
    monitor: Option<Daemon>,
    kennel: Kennel,
}

impl RgwServer {
    /// Starts one that keeps its objects in memory. Takes 10 to 30 seconds.
    ///
    /// # Errors
    /// When it is not installed (the message names the packages), or does not come up (with its last words).
    pub fn start() -> Result<Self> {
        Self::start_with(ObjectStore::default())
    }

    /// Starts one with the given store.
    ///
    /// # Errors
    /// As [`RgwServer::start`].
    pub fn start_with(store: ObjectStore) -> Result<Self> {
        let missing: Vec<&str> = PROGRAMS.into_iter().filter(|name| program(name).is_none()).collect();
        if !missing.is_empty() {
            bail!("no S3 server for tests: {} not found; install it: {INSTALL}", missing.join(", "));
        }
        let kennel = Kennel::new("rgw-")?;
        let port = free_port()?;
        let access = Access {
            endpoint: format!("http://127.0.0.1:{port}"),
            access_key: "TESTACCESSKEY".to_owned(),
            secret_key: "test/secret+key=for/loopback".to_owned(),
        };
        let mut server = Self { access, port, gateway: None, store: None, monitor: None, kennel };
        server.create_cluster(store)?;
        server.start_gateway()?;
        server.create_user()?;
        Ok(server)
    }

    /// How it is reached.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Ends every daemon without warning, as a power cut would.
    pub fn kill(&mut self) {
        for daemon in [&mut self.gateway, &mut self.store, &mut self.monitor].into_iter().flatten() {
            daemon.kill();
        }
    }

    /// Starts the daemons again after [`RgwServer::kill`], on the same port.
    ///
    /// # Errors
    /// As [`RgwServer::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.start_monitor()?;
        self.start_store()?;
        self.start_gateway()
    }

    fn create_cluster(&mut self, store: ObjectStore) -> Result<()> {
        for dir in ["mon/a", "osd/0", "run", "log", "rgw"] {
            fs::create_dir_all(self.path(dir))?;
        }
        let monitor_port = free_port()?;
        let cluster = uuid()?;
        fs::write(self.path("ceph.conf"), self.configuration(&cluster, monitor_port, store))?;
        let map = self.path("monmap");
        let address = format!("[v1:127.0.0.1:{monitor_port}/0]");
        self.run(
            Command::new("monmaptool").args(["--create", "--fsid", &cluster, "--addv", "a", &address]).arg(&map),
            LIMIT,
        )?;
        self.run(self.ceph("ceph-mon").args(["--mkfs", "-i", "a", "--monmap"]).arg(&map), LIMIT)?;
        self.start_monitor()?;
        let disk = uuid()?;
        let register = |server: &Self| {
            server
                .run(server.ceph("ceph").args(["--connect-timeout", "5", "osd", "new", &disk]), Duration::from_secs(20))
        };
        let mut monitor = self.monitor.take();
        wait_until("the monitor", LIMIT, || register(self).is_ok(), || check(&mut monitor))?;
        self.monitor = monitor;
        self.run(self.ceph("ceph-osd").args(["-i", "0", "--mkfs", "--osd-uuid", &disk]), LIMIT)?;
        self.start_store()
    }

    fn start_monitor(&mut self) -> Result<()> {
        let mut command = self.ceph("ceph-mon");
        self.monitor = Some(self.kennel.spawn("mon", command.args(["-i", "a", "-f"]))?);
        Ok(())
    }

    fn start_store(&mut self) -> Result<()> {
        let mut failure = None;
        for _ in 0..STORE_STARTS {
            let mut command = self.ceph("ceph-osd");
            let mut daemon = self.kennel.spawn("osd", command.args(["-i", "0", "-f"]))?;
            let is_up = || {
                let mut ask = self.ceph("ceph");
                ask.args(["--connect-timeout", "5", "osd", "stat"]);
                self.run(&mut ask, Duration::from_secs(10)).is_ok_and(|said| said.contains(" 1 up"))
            };
            match wait_until("the object store", LIMIT, is_up, || daemon.check_alive()) {
                Ok(()) => {
                    self.store = Some(daemon);
                    return Ok(());
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.context("no start was tried")?)
    }

    fn start_gateway(&mut self) -> Result<()> {
        let mut command = self.ceph("radosgw");
        let mut daemon = self.kennel.spawn("radosgw", command.args(["-n", "client.rgw.a", "-f"]))?;
        wait_until("the gateway", LIMIT, || answers_http(self.port), || daemon.check_alive())?;
        self.gateway = Some(daemon);
        Ok(())
    }

    fn create_user(&self) -> Result<()> {
        let mut command = self.ceph("radosgw-admin");
        command.args(["-n", "client.rgw.a", "user", "create", "--uid", "test", "--display-name", "test"]);
        command.args(["--access-key", &self.access.access_key, "--secret-key", &self.access.secret_key]);
        self.run(&mut command, LIMIT).map(|_| ())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.kennel.dir().join(name)
    }

    fn ceph(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.path("ceph.conf"));
        command
    }

    /// Runs a command to its end, within a time limit, and gives what it wrote.
    fn run(&self, command: &mut Command, limit: Duration) -> Result<String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let log = self.path("commands.log");
        let out = fs::File::create(&log)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("{name} did not start"))?;
        let mut status = None;
        let waited = wait_until(
            &name,
            limit,
            || {
                status = child.try_wait().ok().flatten();
                status.is_some()
            },
            || Ok(()),
        );
        if let Err(error) = waited {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        match status {
            Some(status) if status.success() => Ok(said),
            _ => bail!("{name} failed: {said}"),
        }
    }

    fn configuration(&self, cluster: &str, monitor_port: u16, store: ObjectStore) -> String {
        let dir = self.kennel.dir().display();
        let (port, store) = (self.port, store.as_str());
        format!(
            "[global]
fsid = {cluster}
mon initial members = a
mon host = [v1:127.0.0.1:{monitor_port}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr2 = false
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000
mon data avail warn = 2
mon data avail crit = 1
run dir = {dir}/run
admin socket = {dir}/run/$name.$pid.asok
log file = {dir}/log/$name.log
crash dir = {dir}/log
[mon.a]
mon data = {dir}/mon/a
[osd.0]
osd data = {dir}/osd/0
osd objectstore = {store}
osd memory target = 939524096
# What is overwritten or deleted stays for two hours. Where it is full, writes are not answered.
memstore device bytes = 12884901888
bluestore block size = 4294967296
[client.rgw.a]
rgw data = {dir}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name = localhost
rgw thread pool size = 64
rgw enable ops log = false
rgw enable usage log = false
"
        )
    }
}

fn check(daemon: &mut Option<Daemon>) -> Result<()> {
    daemon.as_mut().map_or(Ok(()), Daemon::check_alive)
}

fn uuid() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid").context("no source of UUIDs")?.trim().to_owned())
}
