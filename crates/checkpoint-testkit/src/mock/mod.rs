//! Strict mocks of the vendors' services, for tests without an account.
//!
//! Each runs in the test's process, on a thread and a port of its own, so that child processes reach it too.
//! It is reached as a proxy: with `http_proxy` set to its address, requests arrive with the services' real
//! host names, and are checked byte for byte as the service would (addressing, signature, digests, headers).
//! What a service refuses is refused, with the service's own errors. The vendors' own clients are accepted,
//! which the tests of this workspace try; no signing code is shared with the product.
//!
//! - [`CosMock`]: Tencent COS, by its S3 interface and its own.
//! - [`OssMock`]: Alibaba OSS.
//! - [`TcLakeMock`]: TCLake's catalog with the COS that its volumes lie on.
//! - [`GcsMock`]: Google Cloud Storage, by its own address.
//! - [`Controls`]: what tests change and see in each of them.

mod answer;
mod clock;
mod controls;
mod cos;
mod digest;
mod face;
mod gcs;
pub(crate) mod http1;
mod keys;
mod listing;
mod objects;
mod oss;
mod refusal;
pub(crate) mod request;
pub(crate) mod server;
mod signature;
mod store;
mod tclake;
mod trouble;
mod volumes;
mod xml;

pub use self::controls::{Controls, Received};
pub use self::cos::{CosMock, CosSettings};
pub use self::gcs::{GcsMock, GcsSettings};
pub use self::oss::{OssMock, OssSettings};
pub use self::store::Versioning;
pub use self::tclake::{TcLakeMock, TcLakeSettings};
pub use self::trouble::Trouble;
