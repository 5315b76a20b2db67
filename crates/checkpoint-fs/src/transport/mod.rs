//! The one transport under the backends that speak HTTP: guard, sign, send, check, classify, retry.
//!
//! A backend builds a [`Request`] and hands it over with the [`Call`] that it belongs to. Each attempt
//! gets credentials, waits for a free connection slot, is signed, asks the guard, and is sent with its own time
//! limit; the answer is read whole and checked before it counts. What a service's signature and errors
//! look like is its [`Signer`] and [`Dialect`]; nothing in here knows a vendor.

mod body;
mod client;
mod clock;
mod dialect;
#[cfg(feature = "oss")]
mod oss4;
mod request;
mod retry;
mod send;
#[cfg(any(feature = "oss", feature = "tclake", feature = "az"))]
pub(crate) mod signing;
#[cfg(any(feature = "s3", feature = "cos"))]
mod sigv4;

pub(crate) use self::body::content_length;
pub(crate) use self::client::{ClientSettings, TlsRoots};
pub(crate) use self::clock::{SystemClock, WallClock};
pub(crate) use self::dialect::{Again, Dialect, DocumentFault, ServiceError, Signer, Verdict};
#[cfg(feature = "oss")]
pub(crate) use self::oss4::Oss4;
pub(crate) use self::request::{Answer, AnswerForm, Call, Failure, Request, Wanted};
pub use self::retry::RetryPolicy;
pub(crate) use self::send::{Transport, TransportParts};
#[cfg(any(feature = "s3", feature = "cos"))]
pub(crate) use self::sigv4::SigV4;
