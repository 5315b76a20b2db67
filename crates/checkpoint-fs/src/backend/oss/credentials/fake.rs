//! A small HTTP server for tests: one request a connection, answered by a function.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it arrived.
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

/// The server, until it is dropped.
pub(crate) struct Fake {
    address: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn start(answer: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let answer = Arc::new(answer);
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

async fn serve(mut stream: TcpStream, answer: &(dyn Fn(&Seen) -> (u16, String) + Send + Sync)) {
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
    let (status, body) = answer(&seen);
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}
