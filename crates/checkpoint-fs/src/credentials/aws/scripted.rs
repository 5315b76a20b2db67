//! For tests: a server that answers by a script, and a home directory for its clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::setup::AwsContext;
use crate::options::Environment;
use crate::transport::{RetryPolicy, WallClock};

/// 2027-01-15, on and on.
#[derive(Debug)]
pub(super) struct FixedClock;

impl WallClock for FixedClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }
}

/// A context whose retries do not wait.
pub(super) fn context(environment: Environment) -> AwsContext {
    AwsContext {
        environment,
        profile: None,
        region: Some("eu-west-1".to_owned()),
        retry: RetryPolicy::new(3, Duration::from_millis(1), Duration::from_millis(1)),
        clock: Arc::new(FixedClock),
    }
}

/// A home directory with these files.
pub(super) fn home(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = home.path().join(name);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("writable");
        std::fs::write(path, text).expect("writable");
    }
    home
}

/// What to answer, where all words are in "METHOD target body".
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) words: Vec<String>,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
    /// How often this counts, before the next one does.
    pub(super) times: usize,
}

impl Route {
    pub(super) fn new(words: &str, status: u16, body: &str) -> Self {
        let words = words.split(' ').map(str::to_owned).collect();
        Self { words, status, headers: Vec::new(), body: body.to_owned(), times: usize::MAX }
    }

    pub(super) fn once(mut self) -> Self {
        self.times = 1;
        self
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

#[derive(Debug)]
struct Script {
    routes: Vec<Route>,
    seen: Vec<Seen>,
}

/// A server on this machine; it ends with the test's runtime.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) url: String,
    script: Arc<Mutex<Script>>,
}

impl Server {
    pub(super) async fn start(routes: Vec<Route>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let script = Arc::new(Mutex::new(Script { routes, seen: Vec::new() }));
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { url, script }
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.script.lock().expect("no panic").seen.clone()
    }
}

async fn serve(mut stream: TcpStream, script: Arc<Mutex<Script>>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let request = loop {
        let Ok(n @ 1..) = stream.read(&mut piece).await else { return };
        bytes.extend_from_slice(&piece[..n]);
        if let Some(request) = parse(&bytes) {
            break request;
        }
    };
    let answer = {
        let mut script = script.lock().expect("no panic");
        let line = format!("{} {} {}", request.method, request.target, request.body);
        script.seen.push(request);
        let found = script.routes.iter_mut().find(|r| r.times > 0 && r.words.iter().all(|w| line.contains(w)));
        let route = match found {
            Some(route) => {
                route.times -= 1;
                route.clone()
            }
            None => Route::new("", 404, ""),
        };
        let mut head =
            format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n", route.status, route.body.len());
        for (name, value) in &route.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{head}\r\n{}", route.body)
    };
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A request, once it is whole.
fn parse(bytes: &[u8]) -> Option<Seen> {
    let text = std::str::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next().expect("a line").split(' ');
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |n| n.parse().expect("a number"));
    (body.len() == length).then(|| Seen {
        method: first.next().expect("a method").to_owned(),
        target: first.next().expect("a target").to_owned(),
        headers,
        body: body.to_owned(),
    })
}

/// Checks a signature of version 4 from the request alone, with code that shares nothing with ours.
pub(super) fn is_signed_with(seen: &Seen, secret: &str) -> bool {
    let header = &seen.headers["authorization"];
    let part = |name: &str| {
        let (_, rest) = header.split_once(&format!("{name}=")).expect("is there");
        rest.split(',').next().expect("has a value").trim().to_owned()
    };
    let credential = part("Credential");
    let mut scope = credential.split('/').skip(1);
    let mut next = || scope.next().expect("five parts");
    let (date, region, service) = (next(), next(), next());
    let signed = part("SignedHeaders");
    for needed in ["host", "x-amz-date"] {
        assert!(signed.split(';').any(|name| name == needed), "{signed}");
    }
    let headers: String = signed.split(';').map(|name| format!("{name}:{}\n", seen.headers[name])).collect();
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let digest = hex(&Sha256::digest(seen.body.as_bytes()));
    if let Some(stated) = seen.headers.get("x-amz-content-sha256") {
        assert_eq!(*stated, digest);
    }
    let canonical = format!("{}\n{path}\n{query}\n{headers}\n{signed}\n{digest}", seen.method);
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{}\n{date}/{region}/{service}/aws4_request\n{}",
        seen.headers["x-amz-date"],
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let key = [date, region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part.as_bytes()));
    hex(&mac(&key, to_sign.as_bytes())) == part("Signature")
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
