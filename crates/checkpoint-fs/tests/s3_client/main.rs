//! The S3 backend against a server of our own that records what it gets and breaks every rule on request.
#![cfg(feature = "s3")]

mod fake;
mod faults;
mod requests;
