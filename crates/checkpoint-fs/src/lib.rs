//! Storage for checkpoints: one small object-safe trait, a backend per scheme.
//!
//! ```
//! # async fn example() -> checkpoint_fs::Result<()> {
//! use checkpoint_fs::{ObjectPath, StorageOptions, WriteMode, WriteOptions, WriteOutcome};
//!
//! let storage = checkpoint_fs::open_dir("memory://demo/jobs", &StorageOptions::new()).await?;
//! let path = ObjectPath::parse("run-1/lease.json")?;
//! let create = WriteOptions::new().mode(WriteMode::IfAbsent);
//! match storage.write(&path, "mine".into(), create).await? {
//!     WriteOutcome::Done(_) => println!("created"),
//!     WriteOutcome::AlreadyExists => println!("somebody was first"),
//!     WriteOutcome::Unknown(error) => println!("nobody can say: {error}"),
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! # What it promises
//! - A write is whole, durable and atomic when it says so; a conditional write is *done*, *already there*
//!   or *unknown*, and a lost reply is settled by a token that only that write carried.
//! - Listings are asked afresh, unless an option keeps them for a while. There is no rename that is secretly
//!   a copy and a delete.
//! - What a store cannot do, its [`Capabilities`] say, and the call refuses.
//!
//! # Features
//! | feature | on by default | what it adds |
//! |---|---|---|
//! | `s3` | yes | `s3://` and `s3a://`: S3 and the stores that speak its protocol |
//! | `cos` | yes | `cos://` and `cosn://`: Tencent Cloud Object Storage |
//! | `oss` | yes | `oss://`: Alibaba Cloud Object Storage Service |
//! | `gs` | yes | `gs://` and `gcs://`: Google Cloud Storage |
//! | `tclake` | yes | `tclake://volume/...`: volumes of Tencent's TCLake catalog |
//! | `az` | yes | `az://` and `abfs://`: Azure Blob Storage |
//! | `object_store` | no | any storage of this crate as an `object_store::ObjectStore` |
//!
//! Without a feature its schemes are refused with an error that names it. `file://`, plain paths and
//! `memory://` are always there. What each store can do, and every option and variable, is in the repository's
//! `docs/backends.md` and `docs/configuration.md`.
//!
//! # What it is not
//! A general file system: no seeking writers, no permissions, no directories on object stores.

#[cfg(feature = "object_store")]
mod adapter;
mod backend;
mod capability;
#[cfg(feature = "_http")]
mod credentials;
mod error;
mod guard;
#[cfg(feature = "_http")]
mod ini;
mod listing_cache;
mod location;
#[cfg(all(test, any(feature = "s3", feature = "tclake")))]
mod logged;
mod options;
mod path;
mod registry;
mod resolution;
mod storage;
#[cfg(feature = "_http")]
mod transport;

#[cfg(feature = "object_store")]
pub use adapter::ObjectStoreAdapter;
#[cfg(feature = "az")]
pub use backend::az::{AzConfig, AzStorage};
#[cfg(feature = "_bucket")]
pub use backend::bucket::{Addressing, BucketConfig, BucketStorage};
#[cfg(feature = "cos")]
pub use backend::cos::CosConfig;
#[cfg(feature = "gs")]
pub use backend::gs::{GsConfig, GsStorage};
pub use backend::memory::MemoryStorage;
#[cfg(feature = "oss")]
pub use backend::oss::OssConfig;
pub use backend::posix::{PosixOptions, PosixStorage};
#[cfg(feature = "s3")]
pub use backend::s3::S3Config;
pub use capability::{Capabilities, Versioning};
#[cfg(feature = "_http")]
pub use credentials::{
    AnonymousCredentials, AwsEnvironment, CredentialProvider, Credentials, ProviderChain, Secret, StaticCredentials,
};
pub use error::{Error, ErrorKind, Result, Retry};
pub use guard::Guard;
pub use listing_cache::{ListingCache, ListingCacheSettings};
pub use location::Location;
pub use options::{Environment, KnownOption, KwArgs, OptionUse, StorageOptions};
pub use path::ObjectPath;
pub use registry::{OpenContext, Registry, Scheme, open, open_dir};
pub use resolution::{Resolution, Setting};
pub use storage::{
    CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, ListOptions, ObjectMeta, ReadOptions,
    ReadResult, RenameOptions, StatOptions, Storage, StorageExt, StorageRef, StorageWriter, WriteMode, WriteOptions,
    WriteOutcome,
};
#[cfg(feature = "_http")]
pub use transport::RetryPolicy;
