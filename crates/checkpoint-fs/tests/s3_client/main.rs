//! S3 and COS against a server of our own that records what it gets and breaks every rule on request.
#![cfg(all(feature = "s3", feature = "cos"))]

mod cos;
mod fake;
mod faults;
mod parts;
mod requests;
