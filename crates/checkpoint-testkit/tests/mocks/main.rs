//! What the mocks accept and refuse, beyond what the vendors' own clients ask of them.

mod addressing;
mod client;
mod deleting;
mod errors;
mod keys;
mod overwriting;
mod troubles;
mod uploading;
mod volumes;
