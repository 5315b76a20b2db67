//! The storage: the trait's methods over one bucket and prefix.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::header::RANGE;
use http::{HeaderMap, Method, StatusCode};
use opendal::Operator;
use opendal::options::CopyOptions as InParts;

use super::address::encode_key;
use super::config::BucketConfig;
use super::meta::{content_length, document_etag, object_meta, write_token};
use super::promise::{Signs, Watching};
use super::vendor::IfAbsent;
use super::wire::{PLACEHOLDER, Wire};
use super::{delete, promise, versioning, write, writer};
use crate::backend::bridge::{Bridge, LiveCall};
use crate::backend::ranges::Asked;
use crate::backend::{flat, listing, multi_delete, ranges};
use crate::capability::{Capabilities, Versioning};
use crate::credentials::CredentialCache;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::guard::Guard;
use crate::location::Location;
use crate::path::ObjectPath;
use crate::storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};
use crate::transport::{AnswerForm, Call, Failure, SystemClock, Transport, TransportParts};

/// Larger objects are copied in parts of this size: within what each store copies in one request, and in
/// the time that one may take.
const COPY_PART: usize = 1 << 30;

/// A prefix of a bucket of S3, of a store that speaks its protocol, or of a close relative (COS, OSS).
///
/// One client with its connections and credentials, reused by every call. A `write` is a single PUT, or an
/// upload in parts where it may replace and is longer than 32 MiB. A [`writer`](Storage::writer) that may
/// replace goes up in parts of 8 MiB, so up to 78 GiB, four of them at the same time: it holds 48 MiB at
/// most. One that must not replace collects its bytes in memory for a single PUT, up to 5 GiB, since not
/// every store honours the condition on a multipart upload. Copies of 1 GiB and more are made in parts.
#[derive(Clone)]
pub struct BucketStorage {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: BucketConfig,
    pub(super) transport: Arc<Transport>,
    pub(super) wire: Arc<Wire>,
    bridge: Bridge,
    url: String,
    root: ObjectPath,
    capabilities: Capabilities,
    /// What answers have shown since then, and what is left of the promise.
    pub(super) signs: Arc<Signs>,
    left: OnceLock<Capabilities>,
}

impl BucketStorage {
    /// A storage rooted at the location, whose bucket is the configuration's. Sends nothing, and takes
    /// for granted that conditional writes hold: [`open`](Self::open) asks.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when the HTTP client cannot be set up, for example for
    /// a certificate bundle that cannot be read.
    pub fn new(config: impl Into<BucketConfig>, location: &Location) -> Result<Self> {
        let inner = Inner::new(config.into(), location.to_string(), location.path().clone())?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A storage rooted at the location, with what the bucket's setup says about conditional writes. One
    /// request at stores where they depend on it (COS, OSS), and none elsewhere.
    ///
    /// A later answer can take the promise back: a version ID where there were to be no versions, or the
    /// headers of OpenStack Swift. [`capabilities`](Storage::capabilities) says so from then on, and writes that
    /// must not replace are refused.
    ///
    /// # Errors
    /// As [`BucketStorage::new`]; where a request is made, what fails every request: no connection, wrong
    /// credentials, no such bucket. A refusal of this one question is no error.
    pub async fn open(config: impl Into<BucketConfig>, location: &Location) -> Result<Self> {
        Self::open_rooted(config.into(), location.to_string(), location.path().clone()).await
    }

    /// As [`open`](Self::open), for a path of the bucket that messages call by a URL of its own.
    pub(crate) async fn open_rooted(config: BucketConfig, url: String, root: ObjectPath) -> Result<Self> {
        let mut inner = Inner::new(config, url, root)?;
        if let IfAbsent::ForbidOverwrite(_) = inner.config.vendor.if_absent {
            let versioning = versioning::ask(&inner).await?;
            inner.capabilities.write_if_absent =
                !matches!(versioning, Some(Versioning::Enabled | Versioning::Suspended));
            inner.capabilities.versioning = versioning;
        }
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Inner {
    fn new(config: BucketConfig, url: String, root: ObjectPath) -> Result<Self> {
        let clock = Arc::new(SystemClock);
        let signs = Arc::new(Signs::default());
        let transport = Arc::new(Transport::new(TransportParts {
            client: config.client.build()?,
            credentials: CredentialCache::new(Arc::clone(&config.credentials), clock.clone()),
            signer: Arc::clone(&config.vendor.signer),
            dialect: Arc::new(Watching {
                inner: Arc::clone(&config.vendor.dialect),
                condition: config.vendor.if_absent.clone(),
                signs: Arc::clone(&signs),
            }),
            clock,
            retry: config.retry,
            attempt_timeout: config.read_timeout,
            concurrency: config.concurrency,
        }));
        let wire = Arc::new(Wire::new(&config));
        // Region and endpoint are placeholders: the wire puts the real address in, the transport signs.
        let builder = opendal::services::S3::default()
            .bucket(&config.bucket)
            .endpoint(PLACEHOLDER)
            .region("us-east-1")
            .skip_signature()
            .disable_config_load()
            .disable_ec2_metadata();
        let operator = Operator::new(builder)
            .map_err(|e| Error::invalid_config("the request builder could not be set up").with_source(e))?;
        let taken = if root.is_root() { 0 } else { root.as_str().len() + 1 };
        let longest = config.vendor.max_key.saturating_sub(taken);
        let consistent_list = config.vendor.consistent_list;
        let write_if_absent = !matches!(config.vendor.if_absent, IfAbsent::Never(_));
        Ok(Self {
            bridge: Bridge::new(operator, Arc::clone(&transport), wire.clone()),
            config,
            transport,
            wire,
            url,
            root,
            capabilities: Capabilities {
                write_if_absent,
                consistent_list,
                max_delete_batch: multi_delete::LIMIT,
                max_path: longest,
                max_segment: longest,
                ..Capabilities::none()
            },
            signs,
            left: OnceLock::new(),
        })
    }

    /// What this storage promises.
    pub(super) fn capabilities(&self) -> &Capabilities {
        if !self.signs.are_bad() {
            return &self.capabilities;
        }
        self.left.get_or_init(|| {
            let promised = &self.capabilities;
            let found = self.signs.has_versions().then_some(Versioning::Enabled);
            let versioning = promised.versioning.filter(|v| *v != Versioning::Off).or(found);
            Capabilities { write_if_absent: false, versioning, ..promised.clone() }
        })
    }

    /// A call of a method on a path.
    pub(super) fn call(&self, operation: &'static str, path: &ObjectPath, guard: Option<&Guard>) -> Call {
        let url = if path.is_root() { self.url.clone() } else { format!("{}/{path}", self.url) };
        Call::new(operation, url, guard.cloned())
    }

    /// The root of this storage in its bucket.
    pub(super) fn root(&self) -> &ObjectPath {
        &self.root
    }

    /// The key of an object.
    pub(super) fn key(&self, path: &ObjectPath, call: &Call) -> Result<String> {
        if path.is_root() {
            return Err(call.named(Error::invalid_config("the root is not an object")));
        }
        let key = self.root.join_path(path);
        let most = self.config.vendor.max_key;
        if key.as_str().len() > most {
            let message = format!("the key is too long: bytes={} most={most}", key.as_str().len());
            return Err(call.named(Error::unsupported(message)));
        }
        Ok(key.as_str().to_owned())
    }

    /// Readies the request builder for one call.
    pub(super) fn live(&self, call: &Call) -> LiveCall {
        self.bridge.call(call.clone())
    }

    /// Asks for an object's metadata, and for the token of the write that made it.
    pub(super) async fn head(&self, call: &Call, key: &str) -> Result<(ObjectMeta, Option<String>), Failure> {
        self.head_with_headers(call, key).await.map(|(meta, token, _)| (meta, token))
    }

    /// The same, and all headers of the answer.
    pub(super) async fn head_with_headers(
        &self,
        call: &Call,
        key: &str,
    ) -> Result<(ObjectMeta, Option<String>, HeaderMap), Failure> {
        let live = self.live(call);
        let answered = live.operator.stat(&encode_key(key)).await;
        live.settle(answered)?;
        let headers = live.headers();
        let size = content_length(&headers)
            .ok_or_else(|| Failure::unsent(call.named(Error::new(ErrorKind::Corrupt, "the answer has no length"))))?;
        let token = write_token(&headers, self.config.vendor.metadata_prefixes).map(str::to_owned);
        Ok((object_meta(&headers, size), token, headers))
    }

    /// Reads an object, or a range of it. A request of our own: OpenDAL takes a range that is cut at the
    /// object's end for a damaged one, and does not give the metadata that came with the bytes.
    async fn get(&self, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
        ranges::until_sound(&self.transport, call, || Box::pin(self.get_once(call, key, asked))).await
    }

    async fn get_once(&self, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
        let url = self.config.address.object_url(key);
        let mut request = self.wire.request(Method::GET, url, Bytes::new(), AnswerForm::Object(asked.wanted()));
        let value = ranges::header(asked.range.as_ref()).map_err(|e| Failure::unsent(call.named(e)))?;
        request.headers.insert(RANGE, value);
        request.headers.extend(self.config.vendor.range_header.clone());
        let answer = self.transport.send(call, &request).await?;
        ranges::taken(answer, asked.range.clone(), object_meta).map_err(|e| Failure::unsent(call.named(e)))
    }

    /// The answer to a range that holds no bytes.
    async fn get_nothing(&self, call: &Call, key: &str) -> Result<ReadResult> {
        let (meta, _) = self.head(call, key).await.map_err(|f| f.error)?;
        Ok(ReadResult { bytes: Bytes::new(), meta })
    }
}

impl fmt::Debug for BucketStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStorage").field("url", &self.inner.url).field("config", &self.inner.config).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for BucketStorage {
    fn url(&self) -> &str {
        &self.inner.url
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let call = self.inner.call("read", path, options.guard.as_ref());
        if path.is_root() {
            return Err(call.named(Error::new(ErrorKind::NotFound, "the root is not an object")));
        }
        let key = self.inner.key(path, &call)?;
        let Some(asked) = Asked::new(&options) else { return self.inner.get_nothing(&call, &key).await };
        match Box::pin(self.inner.get(&call, &key, &asked)).await {
            Ok(read) => Ok(read),
            // Behind the end, or all of an object without bytes.
            Err(f) if f.status == Some(StatusCode::RANGE_NOT_SATISFIABLE) => {
                let read = self.inner.get_nothing(&call, &key).await?;
                ranges::behind_the_end(read, asked.start()).map_err(|e| call.named(e))
            }
            Err(failure) => Err(failure.error),
        }
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        let call = self.inner.call("write", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        promise::check(&self.inner, &call, options.mode)?;
        if options.mode == WriteMode::Overwrite && bytes.len() > writer::LONG_BODY {
            return Box::pin(writer::write_long(&self.inner, call, key, bytes)).await;
        }
        Box::pin(write::put(&self.inner, &call, &key, bytes, options.mode)).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let call = self.inner.call("write", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        promise::check(&self.inner, &call, options.mode)?;
        writer::open(&self.inner, call, key, options.mode).await
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        let call = self.inner.call("stat", path, options.guard.as_ref());
        if path.is_root() {
            return Err(call.named(Error::new(ErrorKind::NotFound, "the root is not an object")));
        }
        let key = self.inner.key(path, &call)?;
        Ok(self.inner.head(&call, &key).await.map_err(|f| f.error)?.0)
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let call = self.inner.call("list", prefix, options.guard.as_ref());
        listing::list(Arc::clone(&self.inner), call, self.inner.root().clone(), prefix, options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        let call = self.inner.call("copy", from, options.guard.as_ref());
        if options.mode == WriteMode::IfAbsent {
            return Err(call.named(Error::unsupported("this store has no copy that refuses to replace")));
        }
        let (source, target) = (self.inner.key(from, &call)?, self.inner.key(to, &call)?);
        let live = self.inner.live(&call);
        let parts = InParts { chunk: Some(COPY_PART), ..InParts::default() };
        let answered = Box::pin(live.operator.copy_options(&encode_key(&source), &encode_key(&target), parts)).await;
        match live.settle(answered) {
            Ok(_) => {
                // The first answer described the source, whose bytes these are.
                let size = content_length(&live.first_headers())
                    .ok_or_else(|| call.named(Error::new(ErrorKind::Corrupt, "the answer has no length")))?;
                Ok(WriteOutcome::Done(ObjectMeta::new(size).with_etag(document_etag(&live.document()))))
            }
            Err(failure) if failure.maybe_applied => Ok(WriteOutcome::Unknown(failure.error)),
            Err(failure) if failure.status == Some(StatusCode::PRECONDITION_FAILED) => {
                let error = Error::new(ErrorKind::Conflict, "the source changed while it was copied");
                Err(call.named(error.with_retry(Retry::Maybe)))
            }
            Err(failure) => Err(failure.error),
        }
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        let call = self.inner.call("delete", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        delete::one(&self.inner, &call, &key).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        delete::many(&self.inner, paths, options.guard.as_ref()).await
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        let call = self.inner.call("create_dir", path, None);
        flat::create_dir(&call, options.guard.as_ref())
    }

    async fn rename(&self, from: &ObjectPath, _to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        let call = self.inner.call("rename", from, None);
        flat::rename(&call, options.guard.as_ref())
    }
}
