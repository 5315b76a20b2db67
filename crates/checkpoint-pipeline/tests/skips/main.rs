//! Reads that skip: what a resumed run reads of an input that is mostly done, counted in bytes and requests.

#![expect(clippy::unwrap_used, reason = "a test")]

mod ahead;
mod bench;
mod by_bounds;
mod by_ids;
mod by_rows;
