//! One bucket of an object store: the engine that S3, COS and OSS share.
//!
//! A store of this family speaks S3's protocol or a close relative of it. What it is like (how it signs,
//! what it calls its headers, how it says that a write must not replace, what its errors mean) is its
//! [`Vendor`]; where the bucket is and how to reach it is a [`BucketConfig`], which each backend resolves
//! by its own rules. OpenDAL builds most requests, as for S3; the [wire](self::wire) makes them the vendor's.

mod address;
mod config;
mod delete;
mod list;
mod meta;
#[cfg(any(feature = "s3", feature = "cos"))]
mod options;
mod promise;
mod storage;
mod vendor;
mod versioning;
mod wire;
mod write;
mod writer;

pub use self::address::Addressing;
pub(crate) use self::address::{BucketAddress, Endpoint, check_bucket, is_host_name};
pub use self::config::BucketConfig;
#[cfg(feature = "cos")]
pub(crate) use self::options::OwnNames;
#[cfg(any(feature = "s3", feature = "cos"))]
pub(crate) use self::options::S3Options;
#[cfg(feature = "s3")]
pub(crate) use self::options::{CHECKSUM_MODES, Given, RETRY_MODES};
pub use self::storage::BucketStorage;
pub(crate) use self::vendor::{IfAbsent, Vendor};
