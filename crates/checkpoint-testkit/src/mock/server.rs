//! The HTTP side of the mocks: a server on the loopback interface that is a proxy's target, too.
//!
//! A client that is told `http_proxy=http://127.0.0.1:PORT` sends its requests here with the services' real
//! host names in them, so that addressing and signatures are checked as the services would.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::answer::Answer;
use super::controls::Controls;
use super::http1::Connection;
use super::request::Arrived;

/// A service behind the server.
pub(crate) trait Service: Send + Sync + 'static {
    /// Whether a request is for this service.
    fn serves(&self, request: &Arrived) -> bool;

    /// Answers it.
    fn answer(&self, request: &Arrived) -> Answer;
}

/// A running server; it stops on drop.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts on a free port, on a thread of its own. The first service that serves a request answers it.
    pub(crate) fn start(services: Vec<Arc<dyn Service>>, controls: Arc<Controls>) -> Result<Self> {
        let site = Arc::new(Site { services, controls });
        Self::attending("mock-service", move |stream| Arc::clone(&site).attend(stream))
    }

    /// Starts on a free port, on a thread of its own, and leaves each connection to `attend`.
    pub(crate) fn attending<F>(name: &str, attend: impl Fn(TcpStream) -> F + Send + 'static) -> Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = move || {
            runtime.block_on(async move {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let accept = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(attend(stream));
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that it has stopped already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Site {
    services: Vec<Arc<dyn Service>>,
    controls: Arc<Controls>,
}

impl Site {
    /// Answers the requests of a connection, one after the other.
    async fn attend(self: Arc<Self>, stream: TcpStream) {
        // Answers are small, and clients wait for each.
        let _ = stream.set_nodelay(true);
        let mut connection = Connection::new(stream);
        loop {
            match connection.next().await {
                Ok(Some(request)) => {
                    let service = self.services.iter().find(|service| service.serves(&request));
                    let answer = service.map_or_else(|| Answer::new(502), |service| service.answer(&request));
                    self.controls.remember(&request, &answer);
                    if !connection.send(&request, &answer).await.unwrap_or(false) {
                        return connection.end().await;
                    }
                }
                // What is no request gets no answer.
                Ok(None) | Err(_) => return,
            }
        }
    }
}
