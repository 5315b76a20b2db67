//! Every backend on hostile networks and servers: the right kind of error within a bounded time, or success
//! after retries; never a part of an object for the whole, and no credentials for strangers.
//!
//! Each property is tried on every backend: on the mocks and Azurite in one test, at the same time, and on a real
//! S3 server in another, `on_s3_server`.

mod network;
mod objects;
mod redirects;
mod refusals;
mod strangers;
mod uploads;
