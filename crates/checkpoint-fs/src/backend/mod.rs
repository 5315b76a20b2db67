//! The backends: one module per kind of store, with what is particular to it.

use std::sync::Arc;

use crate::registry::Scheme;

#[cfg(not(all(feature = "s3", feature = "cos", feature = "oss", feature = "gs", feature = "tclake", feature = "az")))]
pub(crate) mod absent;
#[cfg(feature = "az")]
pub(crate) mod az;
#[cfg(feature = "_bucket")]
pub(crate) mod background;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod batches;
#[cfg(feature = "_bucket")]
pub(crate) mod bridge;
#[cfg(feature = "_bucket")]
pub(crate) mod bucket;
#[cfg(feature = "cos")]
pub(crate) mod cos;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod doomed;
#[cfg(feature = "_http")]
#[cfg_attr(
    not(any(feature = "_bucket", feature = "az")),
    allow(dead_code, reason = "not every store has slashes in paths")
)]
pub(crate) mod encode;
#[cfg(feature = "_http")]
pub(crate) mod endpoint;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod flat;
#[cfg(feature = "gs")]
pub(crate) mod gs;
#[cfg(feature = "_http")]
#[cfg_attr(not(feature = "_bucket"), allow(dead_code, reason = "not every store needs all of them"))]
pub(crate) mod headers;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
mod listed;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod listing;
pub(crate) mod memory;
#[cfg(any(feature = "gs", feature = "az"))]
pub(crate) mod mixed;
#[cfg(any(feature = "_bucket", feature = "gs"))]
pub(crate) mod multi_delete;
#[cfg(feature = "oss")]
pub(crate) mod oss;
pub(crate) mod posix;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod ranges;
#[cfg(feature = "s3")]
pub(crate) mod s3;
#[cfg(feature = "_http")]
pub(crate) mod settle;
#[cfg(feature = "tclake")]
pub(crate) mod tclake;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod unbroken;
#[cfg(any(feature = "_bucket", feature = "gs", feature = "az"))]
pub(crate) mod xml;
#[cfg(any(feature = "_bucket", feature = "gs"))]
pub(crate) mod xml_dialect;

/// Every scheme that this build holds.
pub(crate) fn all() -> Vec<Arc<dyn Scheme>> {
    vec![
        Arc::new(posix::PosixScheme),
        Arc::new(memory::MemoryScheme),
        #[cfg(feature = "s3")]
        Arc::new(s3::S3Scheme),
        #[cfg(not(feature = "s3"))]
        Arc::new(absent::AbsentScheme { names: &["s3", "s3a"], feature: "s3" }),
        #[cfg(feature = "cos")]
        Arc::new(cos::CosScheme),
        #[cfg(not(feature = "cos"))]
        Arc::new(absent::AbsentScheme { names: &["cos", "cosn"], feature: "cos" }),
        #[cfg(feature = "gs")]
        Arc::new(gs::GsScheme),
        #[cfg(not(feature = "gs"))]
        Arc::new(absent::AbsentScheme { names: &["gs", "gcs"], feature: "gs" }),
        #[cfg(feature = "oss")]
        Arc::new(oss::OssScheme),
        #[cfg(not(feature = "oss"))]
        Arc::new(absent::AbsentScheme { names: &["oss"], feature: "oss" }),
        #[cfg(feature = "tclake")]
        Arc::new(tclake::TclakeScheme),
        #[cfg(not(feature = "tclake"))]
        Arc::new(absent::AbsentScheme { names: &["tclake"], feature: "tclake" }),
        #[cfg(feature = "az")]
        Arc::new(az::AzScheme),
        #[cfg(not(feature = "az"))]
        Arc::new(absent::AbsentScheme { names: &["az", "abfs", "abfss"], feature: "az" }),
    ]
}
