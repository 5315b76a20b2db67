//! A catalog that says what a test wants, over plain HTTP on this machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::backend::tclake::catalog::Catalog;
use crate::backend::tclake::config::TclakeConfig;
use crate::backend::tclake::volume::VolumeName;
use crate::error::Result;
use crate::location::Location;
use crate::options::StorageOptions;
use crate::registry::OpenContext;
use crate::transport::{RetryPolicy, WallClock};

pub(super) const SECRET_KEY: &str = "hunter2-of-the-caller";
pub(super) const TOKEN: &str = "t0ken-of-the-caller";

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub(super) struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub(super) fn set(&self, since_epoch: Duration) {
        *self.0.lock().expect("not poisoned") = since_epoch;
    }
}

impl WallClock for ManualClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + *self.0.lock().expect("not poisoned")
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Received {
    /// Method and target.
    pub(super) line: String,
    /// By lower-case name.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn action(&self) -> &str {
        self.header("x-tc-action")
    }

    pub(super) fn parameters(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// An object under `Response`, with a request ID.
    Response(Value),
    /// This status and body.
    Raw(u16, String),
    /// Nothing, for ever.
    Silence,
}

impl Reply {
    pub(super) fn error(code: &str) -> Self {
        Self::Response(json!({"Error": {"Code": code, "Message": format!("the catalog says {code}")}}))
    }
}

type Handler = Arc<Mutex<dyn FnMut(&Received) -> Reply + Send>>;

/// A running server; it ends with the runtime of its test.
pub(super) struct Server {
    pub(super) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    pub(super) async fn start(handler: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let handler: Handler = Arc::new(Mutex::new(handler));
        let log = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&handler), Arc::clone(&log)));
            }
        });
        Self { url, received }
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("not poisoned").clone()
    }

    pub(super) fn actions(&self) -> Vec<String> {
        self.received().iter().map(|r| r.action().to_owned()).collect()
    }

    /// A client of this server, with short pauses.
    pub(super) fn catalog(&self, clock: Arc<dyn WallClock>) -> Catalog {
        let mut context = OpenContext::default();
        let options = json!({"tclake": {"sid": "AKIDCALLER", "sk": SECRET_KEY, "token": TOKEN, "endpoint": self.url}});
        context.options = StorageOptions::from_value(options).expect("the right shape");
        let config = TclakeConfig::resolve(&context).expect("valid");
        let retry = RetryPolicy::new(3, Duration::from_millis(1), Duration::from_millis(2));
        Catalog::new(&config, clock, retry).expect("a client")
    }
}

pub(super) fn volume() -> VolumeName {
    let parsed = Location::parse("tclake://volume/cat/ä ö/v%2F").and_then(|l| VolumeName::parse(&l));
    parsed.expect("valid").0
}

pub(super) fn catalog_of(kind: &str) -> Reply {
    Reply::Response(json!({"Catalog": {"Name": "cat", "Type": kind, "Provider": null, "Properties": []}}))
}

pub(super) fn volume_at(location: &str) -> Reply {
    Reply::Response(json!({"Volume": {"Name": "v%2F", "Type": "MANAGED", "StorageLocation": location}}))
}

/// The `n`-th set of keys, which ends at a time in milliseconds.
pub(super) fn keys(n: usize, expiry: Value) -> Reply {
    let info = json!([
        {"Key": "cos-access-key-id", "Value": format!("AKID-{n}")},
        {"Key": "cos-secret-access-key", "Value": format!("hunter2-of-the-volume-{n}")},
        {"Key": "cos-security-token", "Value": format!("t0ken-of-the-volume-{n}")},
    ]);
    let entry = json!({"CredentialType": "cos-token", "CredentialInfo": info, "ExpireTimeInMs": expiry});
    Reply::Response(json!({"Credentials": [entry]}))
}

/// Ends a request that may not take long.
pub(super) async fn soon<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("within a bounded time")
}

async fn serve(mut stream: TcpStream, handler: Handler, log: Arc<Mutex<Vec<Received>>>) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        let reply = (handler.lock().expect("not poisoned"))(&request);
        let number = {
            let mut log = log.lock().expect("not poisoned");
            log.push(request);
            log.len()
        };
        let (status, body) = match reply {
            Reply::Response(mut response) => {
                response["RequestId"] = json!(format!("req-{number}"));
                (200, json!({"Response": response}).to_string())
            }
            Reply::Raw(status, body) => (status, body),
            Reply::Silence => return std::future::pending().await,
        };
        let answer =
            format!("HTTP/1.1 {status} Said\r\nx-cos-request-id: fake\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    loop {
        if let Some((received, length)) = parse(buffer) {
            buffer.drain(..length);
            return Some(received);
        }
        let mut piece = vec![0; 16_384];
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => buffer.extend_from_slice(&piece[..n]),
            _ => return None,
        }
    }
}

/// A whole request at the start of the buffer, and its length.
fn parse(buffer: &[u8]) -> Option<(Received, usize)> {
    let end = buffer.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&buffer[..end]).expect("text");
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: BTreeMap<String, String> =
        lines.filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
    let length = end + 4 + headers.get("content-length").map_or(0, |l| l.parse::<usize>().expect("a length"));
    let body = String::from_utf8(buffer.get(end + 4..length)?.to_vec()).expect("text");
    Some((Received { line, headers, body }, length))
}
