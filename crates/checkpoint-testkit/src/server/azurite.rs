//! Azurite, Microsoft's own emulator of Azure Blob Storage, started on the loopback interface.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use checkpoint_fs::Environment;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::daemon::{Daemon, Kennel, answers_http, free_port, program, tools, wait_until};

const PROGRAM: &str = "azurite-blob";
/// The account that the server knows, and its key, which Microsoft publishes.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The protocol that the requests made here are written in.
const VERSION: &str = "2023-11-03";

/// A running Azurite.
#[derive(Debug)]
pub struct Azurite {
    endpoint: String,
    _daemon: Daemon,
    _kennel: Kennel,
}

impl Azurite {
    /// Starts it with an empty directory.
    ///
    /// # Errors
    /// When it is not installed, with what to do; when it does not come up.
    pub fn start() -> Result<Self> {
        let binary = installed().ok_or_else(|| anyhow!("Azurite is not installed: run scripts/install-tools"))?;
        let mut kennel = Kennel::new("azurite-")?;
        let port = free_port()?;
        let mut command = Command::new(binary);
        command
            .args(["--silent", "--disableTelemetry", "--blobHost", "127.0.0.1"])
            // Longer than clients keep idle connections, so that none is closed under a request.
            .args(["--blobPort", &port.to_string(), "--blobKeepAliveTimeout", "600"])
            .arg("--location")
            .arg(kennel.dir().join("data"));
        let mut daemon = kennel.spawn("azurite", &mut command)?;
        wait_until("azurite", Duration::from_secs(60), || answers_http(port), || daemon.check_alive())?;
        Ok(Self { endpoint: format!("http://127.0.0.1:{port}/{ACCOUNT}"), _daemon: daemon, _kennel: kennel })
    }

    /// The server of this process, started by whoever asks first. It ends with the process, however that ends.
    ///
    /// # Errors
    /// As [`Azurite::start`]; every caller gets the same.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Azurite, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().map_err(|e| format!("{e:#}"))).as_ref().map_err(|e| anyhow!(e.clone()))
    }

    /// The URL of the account.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The text that holds account, key and address.
    pub fn connection_string(&self) -> String {
        format!("AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={}", self.endpoint)
    }

    /// The variables that a client needs, for a child process.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("AZURE_STORAGE_CONNECTION_STRING", self.connection_string())]
    }

    /// The same as an environment, for a registry.
    pub fn environment(&self) -> Environment {
        self.variables().into_iter().collect()
    }

    /// A shared access signature for everything in the account, for the time between these, as Azure writes
    /// times.
    ///
    /// # Errors
    /// Never; the key is one.
    pub fn account_sas(&self, from: &str, to: &str) -> Result<String> {
        let (permissions, services, kinds, protocol) = ("rwdlac", "b", "sco", "https,http");
        let text = format!("{ACCOUNT}\n{permissions}\n{services}\n{kinds}\n{from}\n{to}\n\n{protocol}\n{VERSION}\n\n");
        let encoded = |text: &str| text.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D").replace(':', "%3A");
        Ok(format!(
            "sv={VERSION}&ss={services}&srt={kinds}&sp={permissions}&st={}&se={}&spr={protocol}&sig={}",
            encoded(from),
            encoded(to),
            encoded(&signature(&text)?)
        ))
    }

    /// Makes a container with a name that no other test has.
    ///
    /// # Errors
    /// What the server answered, or that it did not.
    pub fn new_container(&self) -> Result<String> {
        use rand::RngExt;
        let name = format!("test-{:012x}", rand::rng().random::<u64>() >> 16);
        self.create_container(&name)?;
        Ok(name)
    }

    /// Makes a container, which the product never does. Blocks; safe to call inside of a runtime.
    fn create_container(&self, name: &str) -> Result<()> {
        let url = format!("{}/{name}?restype=container&{}", self.endpoint, self.account_sas(PAST, FUTURE)?);
        let work = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let client = reqwest::Client::builder().no_proxy().build()?;
                let request = client.put(url).header("x-ms-version", VERSION).header("content-length", "0");
                let answer = request.send().await.context("the server did not answer")?;
                let status = answer.status();
                let said = answer.text().await.unwrap_or_default();
                if !status.is_success() {
                    bail!("the container was not made: status={status} answer={said}");
                }
                Ok(())
            })
        };
        // A thread of its own, since the caller may be inside of a runtime.
        std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow!("making the container panicked"))?
    }
}

/// A time that has passed on any machine.
const PAST: &str = "2020-01-01T00:00:00Z";
/// A time that has not.
const FUTURE: &str = "2099-01-01T00:00:00Z";

fn signature(text: &str) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&BASE64_STANDARD.decode(KEY)?).map_err(|_| anyhow!("no key"))?;
    mac.update(text.as_bytes());
    Ok(BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

/// On the `PATH`, or where scripts/install-tools puts it.
fn installed() -> Option<PathBuf> {
    let beside = || Some(tools()?.join("azurite/node_modules/.bin").join(PROGRAM)).filter(|path| path.is_file());
    program(PROGRAM).or_else(beside)
}
