//! A tiny HTTP server on a raw socket, so that it can break every rule of HTTP on request.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkpoint_fs::{BucketStorage, CosConfig, Location, OpenContext, Result, RetryPolicy, S3Config, StorageOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    /// Path and query, still encoded.
    pub(crate) target: String,
    /// By lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The token of the write that this is.
    pub(crate) fn token(&self) -> &str {
        self.header("x-amz-meta-checkpoint-write-token")
    }
}

/// What to do with a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answer properly, as a store does.
    Answer { status: u16, headers: Vec<(&'static str, String)>, body: String },
    /// Send these bytes and close.
    Raw(String),
    /// Close without a word.
    Close,
    /// Send the bytes, then nothing more, and stay open.
    Stall(String),
    /// Answer after a while.
    Slow(Duration, Box<Reply>),
    /// Answer once as many requests are here as the barrier wants.
    Together(Arc<Barrier>, Box<Reply>),
}

impl Reply {
    pub(crate) fn ok(body: &str) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: &str) -> Self {
        Self::Answer { status, headers: Vec::new(), body: body.to_owned() }
    }

    /// An error as S3 writes it.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = format!(
            "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>the fake says {code}</Message><RequestId>REQ1</RequestId></Error>"
        );
        Self::status(status, &body)
    }

    /// What a login page, a gateway or any other program answers to everything.
    pub(crate) fn page(status: u16) -> Self {
        let page = "<html><body>Please log in</body></html>";
        let length = page.len();
        Self::Raw(format!(
            "HTTP/1.1 {status} Said\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{page}"
        ))
    }

    pub(crate) fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        match self {
            Self::Answer { status, mut headers, body } => {
                headers.push((name, value.into()));
                Self::Answer { status, headers, body }
            }
            other => other,
        }
    }
}

type Handler = Box<dyn FnMut(&Received, usize) -> Reply + Send>;

/// A running server; it ends with the runtime of its test.
pub(crate) struct Fake {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    most_at_once: Arc<AtomicUsize>,
}

impl Fake {
    /// Starts with a handler that gets each request and its number, from 0.
    pub(crate) async fn start(handler: impl FnMut(&Received, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let most_at_once = Arc::new(AtomicUsize::new(0));
        let handler: Arc<Mutex<Handler>> = Arc::new(Mutex::new(Box::new(handler)));
        let (log, most) = (received.clone(), most_at_once.clone());
        tokio::spawn(async move {
            let busy = Arc::new(AtomicUsize::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, log, busy, most) = (handler.clone(), log.clone(), busy.clone(), most.clone());
                tokio::spawn(async move { serve(stream, handler, log, busy, most).await });
            }
        });
        Self { url, received, most_at_once }
    }

    /// Answers with these in turn; the last one goes on for ever.
    pub(crate) async fn script(replies: Vec<Reply>) -> Self {
        Self::start(move |_, n| replies[n.min(replies.len() - 1)].clone()).await
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("not poisoned").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received.lock().expect("not poisoned").len()
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }

    /// A storage at `s3://bkt/root` on this server, with test keys and short pauses.
    pub(crate) fn storage(&self) -> BucketStorage {
        self.storage_with(serde_json::json!({}), &[], |config| config)
    }

    pub(crate) fn storage_with(
        &self,
        options: serde_json::Value,
        variables: &[(&str, &str)],
        change: impl FnOnce(S3Config) -> S3Config,
    ) -> BucketStorage {
        let mut context = OpenContext::default();
        context.options = StorageOptions::from_value(serde_json::json!({ "s3": options })).expect("the right shape");
        let keys = [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_ENDPOINT_URL", self.url.as_str()),
        ];
        context.environment = keys.iter().chain(variables).copied().collect();
        let config = S3Config::resolve("bkt", &context).expect("valid");
        let config = config.with_retry(impatient());
        BucketStorage::new(change(config), &Location::parse("s3://bkt/root").expect("valid")).expect("opens")
    }

    /// A storage at `cos://bkt-125/root` on this server, which takes for granted that nothing has versions.
    pub(crate) fn cos(&self) -> BucketStorage {
        BucketStorage::new(self.cos_config(), &cos_location()).expect("opens")
    }

    /// The same, opened as users do.
    pub(crate) async fn open_cos(&self) -> Result<BucketStorage> {
        BucketStorage::open(self.cos_config(), &cos_location()).await
    }

    fn cos_config(&self) -> CosConfig {
        let mut context = OpenContext::default();
        context.environment = [
            ("COS_SECRET_ID", ACCESS_KEY),
            ("COS_SECRET_KEY", SECRET_KEY),
            ("COS_ENDPOINT", self.url.as_str()),
            ("COS_REGION", "ap-test"),
        ]
        .into_iter()
        .collect();
        CosConfig::resolve("bkt-125", &context).expect("valid").with_retry(impatient())
    }
}

fn cos_location() -> Location {
    Location::parse("cos://bkt-125/root").expect("valid")
}

/// Five attempts with short pauses.
fn impatient() -> RetryPolicy {
    RetryPolicy::new(5, Duration::from_millis(5), Duration::from_millis(20))
}

pub(crate) const ACCESS_KEY: &str = "AKIDFORTHEFAKE";
pub(crate) const SECRET_KEY: &str = "hunter2hunter2hunter2";

async fn serve(
    mut stream: TcpStream,
    handler: Arc<Mutex<Handler>>,
    log: Arc<Mutex<Vec<Received>>>,
    busy: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let number = {
            let mut log = log.lock().expect("not poisoned");
            log.push(request.clone());
            log.len() - 1
        };
        let mut reply = (handler.lock().expect("not poisoned"))(&request, number);
        loop {
            reply = match reply {
                Reply::Slow(pause, then) => {
                    tokio::time::sleep(pause).await;
                    *then
                }
                Reply::Together(barrier, then) => {
                    barrier.wait().await;
                    *then
                }
                _ => break,
            };
        }
        let done = answer(&mut stream, &request, reply).await;
        busy.fetch_sub(1, Ordering::SeqCst);
        if !done {
            return;
        }
    }
}

/// Whether the connection goes on.
async fn answer(stream: &mut TcpStream, request: &Received, reply: Reply) -> bool {
    match reply {
        Reply::Answer { status, headers, body } => {
            let mut head = format!("HTTP/1.1 {status} Said\r\n");
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
                write!(head, "Content-Length: {}\r\n", body.len()).expect("a string");
            }
            // Marks of a store: of S3's kind, and Azure.
            head.push_str("x-amz-id-2: fake\r\nx-ms-version: 2023-11-03\r\n");
            for (name, value) in headers {
                write!(head, "{name}: {value}\r\n").expect("a string");
            }
            head.push_str("\r\n");
            if request.method != "HEAD" {
                head.push_str(&body);
            }
            stream.write_all(head.as_bytes()).await.is_ok()
        }
        Reply::Raw(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            false
        }
        Reply::Stall(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            false
        }
        Reply::Close | Reply::Slow(..) | Reply::Together(..) => false,
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Received> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> =
        lines.filter_map(|l| l.split_once(": ")).map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
    let length = headers.get("content-length").map_or(0, |l| l.parse().expect("a length"));
    while buffer.len() < end + 4 + length {
        more(stream, buffer).await?;
    }
    let body = buffer[end + 4..end + 4 + length].to_vec();
    buffer.drain(..end + 4 + length);
    Some(Received { method, target, headers, body })
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut piece = vec![0; 65_536];
    match stream.read(&mut piece).await {
        Ok(n) if n > 0 => {
            buffer.extend_from_slice(&piece[..n]);
            Some(())
        }
        _ => None,
    }
}
