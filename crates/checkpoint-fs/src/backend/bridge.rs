//! The seam between OpenDAL and the transport.
//!
//! OpenDAL builds a request, unsigned and against a placeholder; the backend's translation makes it the
//! request that the service gets; the transport signs, sends and judges it. What OpenDAL cannot carry
//! back (our own errors, the headers of the answer) is kept in a record beside the call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream;
use http::HeaderMap;
use opendal::{Buffer, Executor, HttpBody, HttpTransport, HttpTransporter, OperationContext, Operator};
use tokio::sync::Notify;

use super::background::Background;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{AnswerForm, Call, Failure, Request, Transport};

/// Turns a request as OpenDAL builds it into the one that the service gets.
pub(crate) trait Translate: fmt::Debug + Send + Sync + 'static {
    /// # Errors
    /// When the request is none that this backend makes.
    fn translate(&self, request: http::Request<Bytes>) -> Result<Request>;
}

/// An operator over our transport; makes a [`LiveCall`] for each call of a storage method.
#[derive(Clone)]
pub(crate) struct Bridge {
    operator: Operator,
    transport: Arc<Transport>,
    translate: Arc<dyn Translate>,
}

impl Bridge {
    pub(crate) fn new(operator: Operator, transport: Arc<Transport>, translate: Arc<dyn Translate>) -> Self {
        Self { operator, transport, translate }
    }

    /// Readies the operator for one call.
    pub(crate) fn call(&self, call: Call) -> LiveCall {
        let record = Arc::new(Mutex::new(Record::default()));
        let failed = Arc::new(Notify::new());
        let channel = Channel {
            transport: Arc::clone(&self.transport),
            translate: Arc::clone(&self.translate),
            call: call.clone(),
            record: Arc::clone(&record),
            failed: Arc::clone(&failed),
        };
        let background = Background::default();
        let executor = Executor::with(background.clone());
        let context = OperationContext::from_parts(HttpTransporter::new(channel), executor);
        LiveCall { operator: self.operator.clone().with_context(context), call, record, failed, background }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// One call under way.
pub(crate) struct LiveCall {
    pub(crate) operator: Operator,
    call: Call,
    record: Arc<Mutex<Record>>,
    /// Told when a request has failed.
    failed: Arc<Notify>,
    /// What goes on beside the call.
    pub(crate) background: Background,
}

impl LiveCall {
    /// Waits for OpenDAL, no longer than until a request fails: it asks for those beside the call in their order.
    pub(crate) async fn unless_failed<T>(&self, work: impl Future<Output = opendal::Result<T>>) -> Result<T, Failure> {
        let failed = async {
            loop {
                self.failed.notified().await;
                if let Some(failure) = self.failure() {
                    return failure;
                }
            }
        };
        tokio::select! {
            biased;
            failure = failed => Err(failure),
            done = work => self.settle(done),
        }
    }

    /// The first failure that nobody was told of.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).failure.take()
    }

    /// Puts our own failure in the place of OpenDAL's.
    pub(crate) fn settle<T>(&self, result: opendal::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| {
            let recorded = self.failure();
            // Without a failure of the transport, OpenDAL did not understand an answer that had arrived.
            recorded.unwrap_or_else(|| {
                let message = format!("the answer was not understood: {}", error.kind());
                let error = self.call.named(Error::new(ErrorKind::Corrupt, message).with_source(error));
                Failure { error, status: None, maybe_applied: true }
            })
        })
    }

    /// The headers of the last answer.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).last.clone()
    }

    /// The document that the last answer was, empty where it was none.
    pub(crate) fn document(&self) -> Bytes {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).document.clone()
    }

    /// The headers of the first answer.
    pub(crate) fn first_headers(&self) -> HeaderMap {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).first.clone().unwrap_or_default()
    }
}

impl fmt::Debug for LiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveCall")
    }
}

#[derive(Default)]
struct Record {
    failure: Option<Failure>,
    first: Option<HeaderMap>,
    last: HeaderMap,
    document: Bytes,
}

/// What OpenDAL sees as its HTTP transport.
struct Channel {
    transport: Arc<Transport>,
    translate: Arc<dyn Translate>,
    call: Call,
    record: Arc<Mutex<Record>>,
    failed: Arc<Notify>,
}

impl HttpTransport for Channel {
    async fn fetch(&self, request: http::Request<Buffer>) -> opendal::Result<http::Response<HttpBody>> {
        let request = request.map(|body| body.to_bytes());
        let is_part = request.uri().query().is_some_and(|query| query.split('&').any(|p| p.starts_with("partNumber=")));
        let (form, sent) = match self.translate.translate(request) {
            Ok(request) => (request.answer, self.transport.send(&self.call, &request).await),
            Err(error) => (AnswerForm::Bytes, Err(Failure::unsent(self.call.named(error)))),
        };
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        match sent {
            Ok(answer) => {
                record.first.get_or_insert_with(|| answer.headers.clone());
                record.last.clone_from(&answer.headers);
                record.document = if form == AnswerForm::Document { answer.body.clone() } else { Bytes::new() };
                let size = answer.body.len() as u64;
                let body = HttpBody::new(stream::iter([Ok(Buffer::from(answer.body))]), Some(size));
                let mut response = http::Response::new(body);
                *response.status_mut() = answer.status;
                *response.headers_mut() = answer.headers;
                Ok(response)
            }
            Err(mut failure) => {
                // A part is not seen by anybody before the upload is completed.
                failure.maybe_applied &= !is_part;
                // The first is the cause: what follows it only cleans up.
                record.failure.get_or_insert(failure);
                self.failed.notify_one();
                Err(opendal::Error::new(opendal::ErrorKind::Unexpected, "the transport failed"))
            }
        }
    }
}
