//! Google Cloud Storage as its backend meets it when things go wrong, on the strict mock.

mod access;
mod bucket;
mod copying;
mod deleting;
mod writing;
