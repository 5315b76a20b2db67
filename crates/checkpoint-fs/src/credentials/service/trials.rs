//! For tests: a small HTTP server, and what every service that gives credentials may do to us.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::credentials::Credentials;
use crate::error::{ErrorKind, Result, Retry};
use crate::transport::RetryPolicy;

/// Three attempts that hardly wait.
pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy::new(3, Duration::from_millis(1), Duration::from_millis(1))
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// A header by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// How a request is answered.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// With a status and a body.
    Whole(u16, String),
    /// With another place to go to.
    Elsewhere(String),
    /// With a body that never ends.
    Endless,
    /// With a part of a body, and the end of the connection.
    Cut(String),
}

type Answers = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The server, until it is dropped.
pub(crate) struct Fake {
    address: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::with(move |seen| {
            let (status, body) = answer(seen);
            Reply::Whole(status, body)
        })
        .await
    }

    pub(crate) async fn with(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let answer: Arc<Answers> = Arc::new(answer);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move { serve(stream, &*answer).await });
            }
        });
        Self { address, serving }
    }

    /// A URL where nobody listens.
    pub(crate) async fn unreachable() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        format!("http://{}", listener.local_addr().expect("bound"))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut stream: TcpStream, answer: &Answers) {
    let mut received = Vec::new();
    let head_end = loop {
        if let Some(at) = received.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
    let mut lines = head.lines();
    let mut start = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut seen = Seen {
        method: start.next().unwrap_or_default(),
        path: start.next().unwrap_or_default(),
        headers,
        body: received.split_off(head_end),
    };
    let length = seen.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    while seen.body.len() < length {
        if stream.read_buf(&mut seen.body).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let (mut head, body, is_endless) = match answer(&seen) {
        Reply::Whole(status, body) => (format!("HTTP/1.1 {status} X\r\ncontent-length: {}", body.len()), body, false),
        Reply::Elsewhere(place) => {
            (format!("HTTP/1.1 307 X\r\nlocation: {place}\r\ncontent-length: 0"), String::new(), false)
        }
        Reply::Endless => ("HTTP/1.1 200 X".to_owned(), " ".repeat(64 << 10), true),
        Reply::Cut(body) => {
            let half = body[..body.len() / 2].to_owned();
            (format!("HTTP/1.1 200 X\r\ncontent-length: {}", body.len()), half, false)
        }
    };
    let _ = write!(head, "\r\nconnection: close\r\n\r\n{body}");
    let mut sent = stream.write_all(head.as_bytes()).await;
    while is_endless && sent.is_ok() {
        sent = stream.write_all(body.as_bytes()).await;
    }
}

/// What a provider has to stand.
pub(crate) struct Trial<'t> {
    /// How its service answers well.
    pub(crate) good: fn(&Seen) -> (u16, String),
    /// What its service says with a 401, some words of that, and what it may not repeat.
    pub(crate) refusal: &'t str,
    pub(crate) words: &'static str,
    pub(crate) secret: &'static str,
}

impl Trial<'_> {
    /// Every trial, against a server of its own whose URL `load` gets.
    pub(crate) async fn run<L: Future<Output = Result<Option<Credentials>>>>(&self, load: impl Fn(String) -> L) {
        for passing in ["status 500", "status 429", "half a body", "half a document"] {
            // Once for each thing that is asked.
            let met = Arc::new(Mutex::new(Vec::new()));
            let found = self.meet(&load, move |seen, well| {
                let mut met = met.lock().expect("not poisoned");
                let what = (seen.method.clone(), seen.path.clone());
                if met.contains(&what) {
                    return Reply::Whole(200, well);
                }
                met.push(what);
                match passing {
                    "status 500" => Reply::Whole(500, "busy".to_owned()),
                    "status 429" => Reply::Whole(429, "{}".to_owned()),
                    "half a document" if well.starts_with(['{', '<']) => {
                        Reply::Whole(200, well[..well.len() / 2].to_owned())
                    }
                    "half a document" => Reply::Whole(200, well),
                    _ => Reply::Cut(well),
                }
            });
            assert!(found.await.unwrap_or_else(|e| panic!("{passing}: {e:?}")).is_some(), "{passing}");
        }
        for (lasting, reply, kind, retry) in [
            ("429 for ever", Reply::Whole(429, "{}".to_owned()), ErrorKind::RateLimited, Retry::Exhausted),
            ("500 for ever", Reply::Whole(500, String::new()), ErrorKind::Io, Retry::Exhausted),
            ("a body without an end", Reply::Endless, ErrorKind::Corrupt, Retry::Never),
            ("half a body each time", Reply::Cut("{\"a\": \"b\"}".to_owned()), ErrorKind::Corrupt, Retry::Exhausted),
            ("a refusal", Reply::Whole(401, self.refusal.to_owned()), ErrorKind::Unauthenticated, Retry::Never),
        ] {
            let is_refusal = lasting == "a refusal";
            let error = self.meet(&load, move |_, _| reply.clone()).await.expect_err(lasting);
            // Some agents are asked again whatever they answer.
            let is_again = is_refusal && error.retry() == Retry::Exhausted;
            assert_eq!((error.kind(), is_again || error.retry() == retry), (kind, true), "{lasting}: {error:?}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(self.secret), "{lasting}: {shown}");
            assert!(!error.operation().is_empty() && error.url().starts_with("http://127.0.0.1:"), "{error:?}");
            assert!(!is_refusal || (shown.contains(self.words) && error.hint().is_some()), "{lasting}: {shown}");
        }
        let strangers = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&strangers);
        let stranger = Fake::with(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Reply::Whole(200, String::new())
        })
        .await;
        let place = stranger.url();
        let error = self.meet(&load, move |_, _| Reply::Elsewhere(place.clone())).await.expect_err("a redirect");
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
        assert_eq!(strangers.load(Ordering::SeqCst), 0, "nothing goes to another host");
    }

    /// Loads from a server that answers as `change` makes of the body that would be good.
    async fn meet<L: Future<Output = Result<Option<Credentials>>>>(
        &self,
        load: impl Fn(String) -> L,
        change: impl Fn(&Seen, String) -> Reply + Send + Sync + 'static,
    ) -> Result<Option<Credentials>> {
        let good = self.good;
        let fake = Fake::with(move |seen| change(seen, good(seen).1)).await;
        load(fake.url()).await
    }
}
