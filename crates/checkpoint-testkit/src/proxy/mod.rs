//! A proxy that breaks what passes through it, in front of any server of the tests, mock or real.
//!
//! It is reached as `http_proxy`, so that clients name and sign the service's own host, and hands requests
//! to one server. Each request is shown to a plan, which says what befalls it.

mod upstream;

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpStream;

use self::upstream::Passed;
use crate::mock::http1::Connection;
use crate::mock::request::Arrived;
use crate::mock::server::Server;

/// What befalls a request or its answer. Where an answer has no body, what is done to bodies is done to its
/// head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hardship {
    /// The answer comes whole, and so much later.
    Late(Duration),
    /// The connection is reset; the server never sees the request.
    ResetRequest,
    /// The server does its work, and the connection is reset in the middle of the answer's head.
    ResetAnswer,
    /// The connection is reset half way through the body.
    ResetBody,
    /// The server does its work, and nothing of its answer ever comes.
    Silence,
    /// Half of the body comes, and then nothing more.
    StalledBody,
    /// The connection ends half way through the body, in good order.
    CutBody,
    /// The answer says that it is a few bytes longer than it is; then the connection ends.
    ShorterThanSaid,
    /// The answer says half of its length and comes whole.
    LongerThanSaid,
    /// The answer does not say how long it is, and ends half way with the connection.
    UnsaidLength,
    /// The answer is half of what it was, and says so: only what is in it can tell.
    HalfDocument,
    /// The answer goes on for ever, as long as anybody reads it.
    Endless {
        /// The length that it says.
        length: Option<u64>,
        /// Whether it says so as a part of an object, in chunks; else it is a whole object.
        is_part: bool,
    },
    /// The server never sees the request; this is answered.
    Answered {
        /// The status.
        status: u16,
        /// Headers, without the length.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
}

/// A request as the plan sees it.
#[derive(Debug, Clone)]
pub struct Passing {
    /// How many came before it since the plan was made.
    pub number: usize,
    /// The method.
    pub method: String,
    /// The path, still encoded.
    pub path: String,
    /// The query, still encoded.
    pub query: String,
    /// The `Host` header.
    pub host: String,
    /// All headers, names in lower case.
    pub headers: Vec<(String, String)>,
}

type Plan = Box<dyn Fn(&Passing) -> Option<Hardship> + Send + Sync>;

struct Shared {
    upstream: SocketAddr,
    plan: Mutex<Arc<Plan>>,
    passed: AtomicUsize,
    struck: AtomicUsize,
    answered: AtomicU64,
}

/// A running proxy. Stops on drop.
pub struct FaultProxy {
    server: Server,
    shared: Arc<Shared>,
}

impl FaultProxy {
    /// Starts in front of the server at a URL such as `http://127.0.0.1:8000/any/path`. Nothing befalls
    /// requests at first.
    ///
    /// # Errors
    /// When the URL has no address of a socket, or no port or thread is to be had.
    pub fn start(upstream: &str) -> Result<Self> {
        let address = upstream.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let upstream = address.parse().with_context(|| format!("not the address of a server: {upstream}"))?;
        let nothing: Plan = Box::new(|_| None);
        let shared = Arc::new(Shared {
            upstream,
            plan: Mutex::new(Arc::new(nothing)),
            passed: AtomicUsize::new(0),
            struck: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
        });
        let server = Server::attending("fault-proxy", {
            let shared = Arc::clone(&shared);
            move |stream| Arc::clone(&shared).attend(stream)
        })?;
        Ok(Self { server, shared })
    }

    /// Where it listens, as a URL.
    pub fn address(&self) -> String {
        self.server.url()
    }

    /// Makes a new plan, and counts from nought again.
    pub fn plan(&self, plan: impl Fn(&Passing) -> Option<Hardship> + Send + Sync + 'static) {
        let mut current = self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(Box::new(plan));
        self.shared.passed.store(0, Ordering::SeqCst);
        self.shared.struck.store(0, Ordering::SeqCst);
        self.shared.answered.store(0, Ordering::SeqCst);
    }

    /// Lets everything pass.
    pub fn calm(&self) {
        self.plan(|_| None);
    }

    /// Requests since the plan was made.
    pub fn passed(&self) -> usize {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// Requests that something befell since the plan was made.
    pub fn struck(&self) -> usize {
        self.shared.struck.load(Ordering::SeqCst)
    }

    /// Bytes of the bodies that the server answered since the plan was made.
    pub fn answered_bytes(&self) -> u64 {
        self.shared.answered.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy").field("server", &self.server).field("upstream", &self.shared.upstream).finish()
    }
}

impl Shared {
    async fn attend(self: Arc<Self>, stream: TcpStream) {
        // Clients wait for each answer.
        let _ = stream.set_nodelay(true);
        let mut connection = Connection::new(stream);
        while let Ok(Some(request)) = connection.next().await {
            let hardship = self.judge(&request);
            match self.exchange(&mut connection, &request, hardship).await {
                Ok(After::Goes) => {}
                Ok(After::Ends) => return connection.end().await,
                Ok(After::Hangs) => return std::future::pending().await,
                // A server that broke off is passed on as what it is.
                Ok(After::Breaks) | Err(_) => {
                    // A client that is gone needs no reset.
                    let _ = connection.into_stream().set_zero_linger();
                    return;
                }
            }
        }
    }

    fn judge(&self, request: &Arrived) -> Option<Hardship> {
        let plan = Arc::clone(&self.plan.lock().unwrap_or_else(PoisonError::into_inner));
        let hardship = plan(&Passing {
            number: self.passed.fetch_add(1, Ordering::SeqCst),
            method: request.method.clone(),
            path: request.path.clone(),
            query: request.query.clone(),
            host: request.host.clone(),
            headers: request.headers.clone(),
        });
        if hardship.is_some() {
            self.struck.fetch_add(1, Ordering::SeqCst);
        }
        hardship
    }

    async fn exchange(
        &self,
        connection: &mut Connection<TcpStream>,
        request: &Arrived,
        hardship: Option<Hardship>,
    ) -> Result<After> {
        match hardship {
            Some(Hardship::ResetRequest) => return Ok(After::Breaks),
            Some(Hardship::Answered { status, headers, body }) => {
                let answer = Passed::new(status, headers, body, request.method == "HEAD");
                connection.send_raw(&answer.whole()).await?;
                return Ok(After::Goes);
            }
            Some(Hardship::Late(pause)) => tokio::time::sleep(pause).await,
            _ => {}
        }
        let answer = upstream::ask(self.upstream, request).await?;
        self.answered.fetch_add(answer.body.len() as u64, Ordering::SeqCst);
        let hardship = match hardship {
            None | Some(Hardship::Late(_)) => {
                connection.send_raw(&answer.whole()).await?;
                return Ok(After::Goes);
            }
            Some(Hardship::Endless { length, is_part }) => {
                connection.send_raw(&answer.endless_head(length, is_part)).await?;
                // Chunks; where the answer says a length these are bytes like others.
                let piece = format!("1000\r\n{}\r\n", "x".repeat(0x1000)).repeat(16);
                loop {
                    connection.send_raw(piece.as_bytes()).await?;
                }
            }
            Some(hardship) => hardship,
        };
        let (bytes, after) = suffer(&hardship, &answer);
        connection.send_raw(&bytes).await?;
        Ok(after)
    }
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Goes,
    Ends,
    Hangs,
    Breaks,
}

/// What the client gets, and what becomes of its connection.
fn suffer(hardship: &Hardship, answer: &Passed) -> (Vec<u8>, After) {
    let half = answer.body.len() / 2;
    let part = |head: Vec<u8>| if half == 0 { head[..head.len() / 2].to_vec() } else { head };
    let said = || part([answer.head(Some(answer.body.len())), answer.body[..half].to_vec()].concat());
    match hardship {
        Hardship::Silence => (Vec::new(), After::Hangs),
        Hardship::ResetBody => (said(), After::Breaks),
        Hardship::StalledBody => (said(), After::Hangs),
        Hardship::CutBody => (said(), After::Ends),
        Hardship::ShorterThanSaid => {
            (part([answer.head(Some(answer.body.len() + 9)), answer.body.clone()].concat()), After::Ends)
        }
        Hardship::LongerThanSaid if half > 0 => ([answer.head(Some(half)), answer.body.clone()].concat(), After::Ends),
        Hardship::UnsaidLength if half > 0 => ([answer.head(None), answer.body[..half].to_vec()].concat(), After::Ends),
        Hardship::HalfDocument if half > 0 => {
            ([answer.head(Some(half)), answer.body[..half].to_vec()].concat(), After::Goes)
        }
        // The others never come here with a body.
        _ => {
            let head = answer.head(Some(answer.body.len()));
            (head[..head.len() / 2].to_vec(), After::Breaks)
        }
    }
}
