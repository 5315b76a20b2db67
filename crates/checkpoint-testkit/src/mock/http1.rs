//! HTTP/1.1 as far as the mocks need it, by hand: a library would tidy up what arrives before it could be
//! checked, and would write `ETag` as `etag`, which the vendors' clients do not find.

use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::answer::Answer;
use super::request::Arrived;

/// The longest head of a request.
const MOST_HEAD: usize = 64 << 10;
/// The longest body.
const MOST_BODY: usize = 1 << 30;

/// One side of a connection that requests arrive on.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request, `None` at the end of the connection.
    ///
    /// # Errors
    /// What is no request that a service would look at.
    pub(crate) async fn next(&mut self) -> Result<Option<Arrived>> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break end;
            }
            ensure!(self.buffer.len() < MOST_HEAD, "the head is too long");
            if !self.more().await? {
                ensure!(self.buffer.is_empty(), "the head is cut short");
                return Ok(None);
            }
        };
        let mut request = parse_head(std::str::from_utf8(&self.buffer[..end])?)?;
        self.buffer.drain(..end + 4);
        // The body of a request without a length is not read: it is refused, and the connection ends.
        let length = match request.header("content-length") {
            Some(text) => text.parse()?,
            None => 0,
        };
        ensure!(length <= MOST_BODY, "the body is too long");
        if request.header("expect").is_some_and(|e| e.eq_ignore_ascii_case("100-continue")) && self.buffer.is_empty() {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        while self.buffer.len() < length {
            ensure!(self.more().await?, "the body is cut short");
        }
        request.body = self.buffer.drain(..length).collect::<Vec<u8>>().into();
        Ok(Some(request))
    }

    /// The connection itself, for what is not HTTP any more.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the client is gone.
    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Sends an answer; says whether the connection goes on.
    ///
    /// # Errors
    /// When the client is gone.
    pub(crate) async fn send(&mut self, request: &Arrived, answer: &Answer) -> Result<bool> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
        for (name, value) in &answer.headers {
            write!(head, "{name}: {value}\r\n")?;
        }
        let is_head = request.method == "HEAD";
        // A refused HEAD says nothing of the document that it does not get.
        let length = if is_head && answer.status >= 300 { 0 } else { answer.body.len() };
        if !matches!(answer.status, 204 | 304) {
            write!(head, "Content-Length: {length}\r\n")?;
        }
        let is_last = answer.is_lost
            || request.header("transfer-encoding").is_some()
            || request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if is_last {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        if answer.is_lost {
            // Not even the head is whole.
            self.stream.write_all(&head.as_bytes()[..head.len() / 2]).await?;
        } else {
            self.stream.write_all(head.as_bytes()).await?;
            if !is_head {
                self.stream.write_all(&answer.body).await?;
            }
        }
        self.stream.flush().await?;
        Ok(!is_last)
    }

    /// Ends the connection so that its last answer arrives: what the client still sends is read first.
    pub(crate) async fn end(mut self) {
        // A client that is gone needs no end.
        let _ = self.stream.shutdown().await;
        while self.more().await.unwrap_or(false) {
            self.buffer.clear();
        }
    }

    async fn more(&mut self) -> Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

fn parse_head(head: &str) -> Result<Arrived> {
    let mut lines = head.split("\r\n");
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1"] = first[..] else { bail!("the first line is no request") };
    let mut headers = Vec::new();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { bail!("a line is no header") };
        ensure!(!name.is_empty() && !name.contains([' ', '\t']), "a header's name has blanks");
        headers.push((name.to_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let mut hosts = headers.iter().filter(|(name, _)| name == "host");
    let (Some((_, host)), None) = (hosts.next(), hosts.next()) else { bail!("not one host") };
    let host = host.clone();
    // A request to a proxy names the host twice.
    let target = match target.strip_prefix("http://") {
        None => target,
        Some(rest) => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            ensure!(authority == host, "two hosts");
            if target.is_empty() { "/" } else { target }
        }
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    ensure!(path.starts_with('/'), "the target is no path");
    Ok(Arrived {
        method: method.to_owned(),
        host,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: Bytes::new(),
    })
}

fn reason(status: u16) -> &'static str {
    http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_taken_as_they_are() {
        let plain = parse_head("GET /a%2Fb//c?x=%20&y HTTP/1.1\r\nHost: h:1\r\nX-A:  b c ").expect("valid");
        assert_eq!((plain.path.as_str(), plain.query.as_str(), plain.host.as_str()), ("/a%2Fb//c", "x=%20&y", "h:1"));
        assert_eq!(plain.header("x-a"), Some("b c"));
        let proxied = parse_head("PUT http://b.h//k HTTP/1.1\r\nhost: b.h").expect("valid");
        assert_eq!((proxied.path.as_str(), proxied.host.as_str()), ("//k", "b.h"));
        assert_eq!(parse_head("GET http://h?x HTTP/1.1\r\nHost: h").expect("valid").path, "/");
        for bad in [
            "GET / HTTP/1.0\r\nHost: h",
            "GET /a b HTTP/1.1\r\nHost: h",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\r\nHost: h\r\nHost: h",
            "GET http://h/ HTTP/1.1\r\nHost: other",
            "GET / HTTP/1.1\r\nHost: h\r\n folded",
            "CONNECT h:443 HTTP/1.1\r\nHost: h:443",
        ] {
            assert!(parse_head(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn requests_follow_each_other_on_a_connection() -> Result<()> {
        let (mut client, server) = tokio::io::duplex(1024);
        let mut connection = Connection::new(server);
        client.write_all(b"PUT /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc").await?;
        client.write_all(b"HEAD /2 HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let first = connection.next().await?.expect("a request");
        assert_eq!((first.path.as_str(), first.body.as_ref()), ("/1", &b"abc"[..]));
        assert!(connection.send(&first, &Answer::new(200).with("ETag", "\"x\"")).await?);
        let second = connection.next().await?.expect("a request");
        let whole = Answer { body: Bytes::from_static(b"12345"), ..Answer::new(200) };
        assert!(connection.send(&second, &whole).await?);
        assert!(!connection.send(&first, &Answer { is_lost: true, ..whole }).await?);
        drop(connection);
        let mut said = String::new();
        client.read_to_string(&mut said).await?;
        let expected = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n\
                        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\n";
        assert!(said.starts_with(expected), "{said}");
        assert!(!said.ends_with("\r\n\r\n"), "{said}");
        Ok(())
    }
}
