//! The storage: the trait's methods over one container and prefix.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{Method, StatusCode};

use super::config::AzConfig;
use super::dialect::AzDialect;
use super::found::{Found, is_directory};
use super::names::{self, MAX_KEY};
use super::signer::AzSigner;
use super::wire::{AzWire, RANGE};
use super::{batch, copy, delete, write, writer};
use crate::backend::headers::{content_range, object_meta};
use crate::backend::ranges::Asked;
use crate::backend::{flat, listing, ranges};
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
use crate::transport::{AnswerForm, Call, Failure, SystemClock, Transport, TransportParts};

/// A prefix of a container of Azure Blob Storage.
///
/// One client with its connections and credentials, reused by every call. A `write` is a single request, up
/// to 5,000 MiB, or blocks where it may replace and is longer than 32 MiB. A [`writer`](Storage::writer)
/// sends blocks of 8 MiB, four at the same time and up to 390 GiB, and publishes them with one request that
/// carries the condition; it holds 40 MiB at most. Blocks of a writer that is given up are billed by Azure
/// until it forgets them, a week later. A `copy` is made by the service, at once as a rule; where it takes its
/// time, a reader can meet an empty target until it is done. A delete takes the blob's snapshots along. The
/// directories of a hierarchical namespace are not listed as objects.
#[derive(Clone)]
pub struct AzStorage {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) transport: Transport,
    pub(super) wire: AzWire,
    config: AzConfig,
    url: String,
    capabilities: Capabilities,
}

impl AzStorage {
    /// A storage rooted at the location that the configuration was resolved for. Sends nothing.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when the HTTP client cannot be set up, and
    /// [`Unsupported`](ErrorKind::Unsupported) for a root that Azure cannot hold.
    pub fn new(config: AzConfig, location: &Location) -> Result<Self> {
        let clock = Arc::new(SystemClock);
        let transport = Transport::new(TransportParts {
            client: config.client().build()?,
            credentials: CredentialCache::new(Arc::clone(config.credentials()), clock.clone()),
            signer: Arc::new(AzSigner),
            dialect: Arc::new(AzDialect),
            clock,
            retry: config.retry(),
            attempt_timeout: config.read_timeout(),
            concurrency: config.concurrency(),
        });
        let root = config.root();
        names::check(root.as_str())?;
        let taken = if root.is_root() { 0 } else { root.as_str().len() + 1 };
        let longest = MAX_KEY.saturating_sub(taken);
        Ok(Self {
            inner: Arc::new(Inner {
                transport,
                wire: config.wire(),
                url: location.to_string(),
                config,
                capabilities: Capabilities {
                    write_if_absent: true,
                    copy_if_absent: true,
                    consistent_list: true,
                    max_delete_batch: batch::LIMIT,
                    max_path: longest,
                    max_segment: longest,
                    ..Capabilities::none()
                },
            }),
        })
    }

    /// How this storage reaches its container.
    pub fn config(&self) -> &AzConfig {
        &self.inner.config
    }
}

impl Inner {
    /// A call of a method on a path.
    pub(super) fn call(&self, operation: &'static str, path: &ObjectPath, guard: Option<&Guard>) -> Call {
        let url = if path.is_root() { self.url.clone() } else { format!("{}/{path}", self.url) };
        Call::new(operation, url, guard.cloned())
    }

    /// The root of this storage in its container.
    pub(super) fn root(&self) -> &ObjectPath {
        self.config.root()
    }

    /// The key of an object.
    pub(super) fn key(&self, path: &ObjectPath, call: &Call) -> Result<String> {
        if path.is_root() {
            return Err(call.named(Error::invalid_config("the root is not an object")));
        }
        let key = self.root().join_path(path);
        names::check(key.as_str()).map_err(|e| call.named(e))?;
        Ok(key.as_str().to_owned())
    }

    /// The key of an object that is looked for.
    fn key_to_read(&self, path: &ObjectPath, call: &Call) -> Result<String> {
        if path.is_root() {
            return Err(call.named(Error::new(ErrorKind::NotFound, "the root is not an object")));
        }
        self.key(path, call)
    }

    /// Asks for a blob's properties.
    pub(super) async fn head(&self, call: &Call, key: &str) -> Result<Found, Failure> {
        let request = self.wire.blob(Method::HEAD, key, &[], Bytes::new());
        let answer = self.transport.send(call, &request).await?;
        Found::read(&answer.headers)
            .ok_or_else(|| Failure::unsent(call.named(Error::new(ErrorKind::Corrupt, "the answer has no length"))))
    }

    /// Asks for an object's metadata.
    async fn stat(&self, call: &Call, key: &str) -> Result<ObjectMeta> {
        let found = Box::pin(self.head(call, key)).await.map_err(|f| f.error)?;
        if found.is_directory { Err(a_directory(call)) } else { Ok(found.meta) }
    }

    /// Reads an object, or a range of it.
    async fn get(&self, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
        ranges::until_sound(&self.transport, call, || Box::pin(self.get_once(call, key, asked))).await
    }

    async fn get_once(&self, call: &Call, key: &str, asked: &Asked) -> Result<ReadResult, Failure> {
        let mut request = self.wire.blob(Method::GET, key, &[], Bytes::new());
        request.answer = AnswerForm::Object(asked.wanted());
        let value = ranges::header(asked.range.as_ref()).map_err(|e| Failure::unsent(call.named(e)))?;
        request.headers.insert(RANGE, value);
        let answer = self.transport.send(call, &request).await?;
        if is_directory(&answer.headers) {
            return Err(Failure::unsent(a_directory(call)));
        }
        // Azurite answers so, and not with status 416, where the object is empty.
        if answer.status == StatusCode::PARTIAL_CONTENT
            && answer.body.is_empty()
            && content_range(&answer.headers).is_none()
        {
            let read = self.get_nothing(call, key).await.map_err(Failure::unsent)?;
            return ranges::behind_the_end(read, asked.start()).map_err(|e| Failure::unsent(call.named(e)));
        }
        ranges::taken(answer, asked.range.clone(), object_meta).map_err(|e| Failure::unsent(call.named(e)))
    }

    /// The answer to a range that holds no bytes.
    async fn get_nothing(&self, call: &Call, key: &str) -> Result<ReadResult> {
        Ok(ReadResult { bytes: Bytes::new(), meta: self.stat(call, key).await? })
    }
}

fn a_directory(call: &Call) -> Error {
    call.named(Error::new(ErrorKind::NotFound, "a directory is not an object"))
}

impl fmt::Debug for AzStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzStorage").field("url", &self.inner.url).field("config", &self.inner.config).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for AzStorage {
    fn url(&self) -> &str {
        &self.inner.url
    }

    fn capabilities(&self) -> &Capabilities {
        &self.inner.capabilities
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        let call = self.inner.call("read", path, options.guard.as_ref());
        let key = self.inner.key_to_read(path, &call)?;
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
        // A signature that may only create sends no blocks.
        if options.mode == WriteMode::Overwrite && bytes.len() > writer::LONG_BODY {
            return Box::pin(writer::write_long(&self.inner, call, key, bytes)).await;
        }
        Box::pin(write::put(&self.inner, &call, &key, bytes, options.mode)).await
    }

    async fn writer(&self, path: &ObjectPath, options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        let call = self.inner.call("write", path, options.guard.as_ref());
        let key = self.inner.key(path, &call)?;
        writer::open(&self.inner, call, key, options.mode)
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        let call = self.inner.call("stat", path, options.guard.as_ref());
        let key = self.inner.key_to_read(path, &call)?;
        self.inner.stat(&call, &key).await
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
        delete::one(&self.inner, &call, &key).await
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
