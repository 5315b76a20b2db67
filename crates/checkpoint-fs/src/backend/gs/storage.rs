//! The storage: the trait's methods over one bucket and prefix.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, Method, StatusCode};

use super::bearer::Bearer;
use super::config::GsConfig;
use super::dialect::GsDialect;
use super::{copy, delete, read, upload, writer};
use crate::backend::encode::encode_query;
use crate::backend::ranges::Asked;
use crate::backend::{flat, listing, multi_delete, ranges};
use crate::capability::Capabilities;
use crate::credentials::CredentialCache;
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::location::Location;
use crate::path::ObjectPath;
use crate::storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};
use crate::transport::{AnswerForm, Call, Request, SystemClock, Transport, TransportParts};

/// The longest name of an object, in bytes.
const MAX_KEY: usize = 1024;

/// A prefix of a bucket of Google Cloud Storage.
///
/// One client with its connections and credentials, reused by every call. A `write` is a single request
/// that carries its condition, its checksum and its token, or parts where it may replace and is longer than
/// 64 MiB. A [`writer`](Storage::writer) that may replace goes up in parts of 8 MiB, one after the other; one
/// that must not replace collects its bytes in memory for a single request, up to 5 GiB. Entity tags are the
/// service's generation numbers.
#[derive(Clone)]
pub struct GsStorage {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: GsConfig,
    pub(super) transport: Transport,
    url: String,
    root: ObjectPath,
    capabilities: Capabilities,
}

impl GsStorage {
    /// A storage rooted at the location, whose bucket is the configuration's. Sends nothing.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when the HTTP client cannot be set up.
    pub fn new(config: GsConfig, location: &Location) -> Result<Self> {
        let clock = Arc::new(SystemClock);
        let credentials: Arc<crate::credentials::google::GoogleCredentials> = Arc::clone(config.credentials());
        let transport = Transport::new(TransportParts {
            client: config.client().build()?,
            credentials: CredentialCache::new(credentials, clock.clone()),
            signer: Arc::new(Bearer),
            dialect: Arc::new(GsDialect),
            clock,
            retry: config.retry(),
            attempt_timeout: config.timeout(),
            concurrency: config.concurrency(),
        });
        let root = location.path().clone();
        let taken = if root.is_root() { 0 } else { root.as_str().len() + 1 };
        let longest = MAX_KEY.saturating_sub(taken);
        let capabilities = Capabilities {
            write_if_absent: true,
            copy_if_absent: config.is_google(),
            consistent_list: true,
            max_delete_batch: if config.is_google() { multi_delete::LIMIT } else { delete::PARTS },
            max_path: longest,
            max_segment: longest,
            ..Capabilities::none()
        };
        Ok(Self { inner: Arc::new(Inner { config, transport, url: location.to_string(), root, capabilities }) })
    }

    /// How this storage reaches its bucket.
    pub fn config(&self) -> &GsConfig {
        &self.inner.config
    }
}

impl Inner {
    /// A call of a method on a path.
    pub(super) fn call(&self, operation: &'static str, path: &ObjectPath, guard: Option<&Guard>) -> Call {
        let url = if path.is_root() { self.url.clone() } else { format!("{}/{path}", self.url) };
        Call::new(operation, url, guard.cloned())
    }

    /// The root of this storage in its bucket.
    pub(super) fn root(&self) -> &ObjectPath {
        &self.root
    }

    pub(super) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The key of an object.
    pub(super) fn key(&self, path: &ObjectPath, call: &Call) -> Result<String> {
        if path.is_root() {
            return Err(call.named(Error::invalid_config("the root is not an object")));
        }
        let key = self.root.join_path(path);
        if key.as_str().len() > MAX_KEY {
            let message = format!("the key is too long: bytes={} most={MAX_KEY}", key.as_str().len());
            return Err(call.named(Error::unsupported(message)));
        }
        Ok(key.as_str().to_owned())
    }

    /// The URL of an object.
    pub(super) fn object_url(&self, key: &str, query: &[(&str, &str)]) -> String {
        self.config.in_bucket(&format!("/o/{}", encode_query(key)), query)
    }

    /// A request without headers of its own.
    pub(super) fn request(&self, method: Method, url: String, body: Bytes, answer: AnswerForm) -> Request {
        Request { method, url, headers: HeaderMap::new(), body, answer }
    }

    /// The answer to a range that holds no bytes.
    async fn get_nothing(&self, call: &Call, key: &str) -> Result<ReadResult> {
        let (meta, _) = Box::pin(read::stat(self, call, key)).await.map_err(|f| f.error)?;
        Ok(ReadResult { bytes: Bytes::new(), meta })
    }
}

impl fmt::Debug for GsStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GsStorage").field("url", &self.inner.url).field("config", &self.inner.config).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for GsStorage {
    fn url(&self) -> &str {
        &self.inner.url
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let call = self.inner.call("read", path, options.guard.as_ref());
        if path.is_root() {
            return Err(call.named(Error::new(ErrorKind::NotFound, "the root is not an object")));
        }
        let key = self.inner.key(path, &call)?;
        let Some(asked) = Asked::new(&options) else { return self.inner.get_nothing(&call, &key).await };
        match Box::pin(read::get(&self.inner, &call, &key, &asked)).await {
            Ok(read) => Ok(read),
            Err(f) if f.status == Some(StatusCode::RANGE_NOT_SATISFIABLE) && asked.range.is_some() => {
                let read = self.inner.get_nothing(&call, &key).await?;
                ranges::behind_the_end(read, asked.start()).map_err(|e| call.named(e))
            }
            Err(failure) => Err(failure.error),
        }
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        let call = self.inner.call("write", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        if options.mode == WriteMode::Overwrite && bytes.len() > writer::LONG_BODY {
            return Box::pin(writer::write_long(&self.inner, call, key, bytes)).await;
        }
        Box::pin(upload::put(&self.inner, &call, &key, &bytes, options.mode)).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let call = self.inner.call("write", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        writer::open(&self.inner, call, key, options.mode)
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        let call = self.inner.call("stat", path, options.guard.as_ref());
        if path.is_root() {
            return Err(call.named(Error::new(ErrorKind::NotFound, "the root is not an object")));
        }
        let key = self.inner.key(path, &call)?;
        Ok(Box::pin(read::stat(&self.inner, &call, &key)).await.map_err(|f| f.error)?.0)
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        let call = self.inner.call("list", prefix, options.guard.as_ref());
        listing::list(Arc::clone(&self.inner), call, self.inner.root().clone(), prefix, options)
    }

    async fn copy(&self, from: &ObjectPath, to: &ObjectPath, options: CopyOptions) -> Result<WriteOutcome> {
        let call = self.inner.call("copy", from, options.guard.as_ref());
        let (source, target) = (self.inner.key(from, &call)?, self.inner.key(to, &call)?);
        Box::pin(copy::copy(&self.inner, &call, &source, &target, options.mode)).await
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        let call = self.inner.call("delete", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        Box::pin(delete::one(&self.inner, &call, &key)).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        Box::pin(delete::many(&self.inner, paths, options.guard.as_ref())).await
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
