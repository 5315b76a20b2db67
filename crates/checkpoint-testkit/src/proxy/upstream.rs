//! The side of the proxy where the server is: one connection for each request.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::mock::request::Arrived;

/// An answer, whole, taken out of the form that it came in.
#[derive(Debug)]
pub(super) struct Passed {
    first: String,
    /// Without those that say how long it is, and how it comes.
    headers: Vec<(String, String)>,
    /// Of an answer without a body: the line of the length that it says all the same, or nothing.
    said: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Passed {
    /// An answer that no server gave.
    pub(super) fn new(status: u16, headers: Vec<(String, String)>, body: String, is_head: bool) -> Self {
        let said = is_head.then(|| "Content-Length: 0\r\n".to_owned());
        let body = if is_head { Vec::new() } else { body.into_bytes() };
        Self { first: format!("HTTP/1.1 {status} Answered"), headers, said, body }
    }

    /// The head, with a length of the body or without.
    pub(super) fn head(&self, length: Option<usize>) -> Vec<u8> {
        let mut head = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            // Writing to a text never fails.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        match (&self.said, length) {
            (Some(said), _) => head.push_str(said),
            (None, Some(length)) => {
                let _ = write!(head, "Content-Length: {length}\r\n");
            }
            (None, None) => head.push_str("Connection: close\r\n"),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// The head of an object with this length, or with one that nobody knows: then, as for a part, it comes in chunks.
    pub(super) fn endless_head(&self, length: Option<u64>, is_part: bool) -> Vec<u8> {
        let status = if is_part { "206 Partial Content" } else { "200 OK" };
        let mut head = format!("HTTP/1.1 {status}\r\n");
        for (name, value) in self.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-range")) {
            // Writing to a text never fails.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if let (Some(length), true) = (length, is_part) {
            let _ = write!(head, "Content-Range: bytes 0-{}/{length}\r\n", length.saturating_sub(1));
        }
        head.push_str(&match length {
            Some(length) if !is_part => format!("Content-Length: {length}\r\n\r\n"),
            _ => "Transfer-Encoding: chunked\r\n\r\n".to_owned(),
        });
        head.into_bytes()
    }

    /// The answer as it should be.
    pub(super) fn whole(&self) -> Vec<u8> {
        [self.head(Some(self.body.len())), self.body.clone()].concat()
    }
}

/// Hands a request over and reads the answer.
///
/// # Errors
/// When the server cannot be reached, or breaks off.
pub(super) async fn ask(server: SocketAddr, request: &Arrived) -> Result<Passed> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
    let mut head = format!("{} {}{query} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        // The body is here already.
        if name != "expect" {
            write!(head, "{name}: {value}\r\n")?;
        }
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&request.body).await?;
    let mut buffer = Vec::new();
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            // What comes before the answer itself is not passed on.
            if !buffer.starts_with(b"HTTP/1.1 1") {
                break end;
            }
            buffer.drain(..end + 4);
            continue;
        }
        ensure!(stream.read_buf(&mut buffer).await? > 0, "the answer's head is cut short");
    };
    let head = std::str::from_utf8(&buffer[..end]).context("the head is no text")?.to_owned();
    let mut body = buffer.split_off(end + 4);
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let status = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let header = |wanted: &str| {
        headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
    };
    let length = header("content-length");
    let mut said = None;
    if request.method == "HEAD" || status == "204" || status == "304" {
        said = Some(length.map_or_else(String::new, |length| format!("Content-Length: {length}\r\n")));
        body.clear();
    } else if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        body = chunks(&mut stream, body).await?;
    } else if let Some(length) = length {
        let length: usize = length.parse()?;
        while body.len() < length {
            ensure!(stream.read_buf(&mut body).await? > 0, "the answer's body is cut short");
        }
        body.truncate(length);
    } else {
        stream.read_to_end(&mut body).await?;
    }
    let of_framing = ["content-length", "transfer-encoding", "connection", "keep-alive"];
    let headers = headers.iter().filter(|(name, _)| !of_framing.contains(&name.to_lowercase().as_str())).cloned();
    Ok(Passed { first, headers: headers.collect(), said, body })
}

/// Reads a body that comes in chunks; `buffer` has what came with the head.
async fn chunks(stream: &mut TcpStream, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = loop {
            if let Some(end) = buffer.windows(2).position(|w| w == b"\r\n") {
                break buffer.drain(..end + 2).collect::<Vec<u8>>();
            }
            ensure!(stream.read_buf(&mut buffer).await? > 0, "the answer's chunks are cut short");
        };
        let size = std::str::from_utf8(&line)?.trim().split(';').next().unwrap_or_default().to_owned();
        let size = usize::from_str_radix(&size, 16).context("a chunk without a size")?;
        while buffer.len() < size + 2 {
            ensure!(stream.read_buf(&mut buffer).await? > 0, "the answer's chunks are cut short");
        }
        body.extend(buffer.drain(..size + 2).take(size));
        if size == 0 {
            return Ok(body);
        }
    }
}
