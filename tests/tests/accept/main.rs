//! Acceptance tests: the `ckpt` program as a user drives it, by its arguments, exit codes, `--json` and files.

mod support;

mod bad_input;
mod compact;
mod doctor;
mod ends;
mod exec;
mod formats;
mod holes;
mod housekeeping;
mod ids;
mod numbers;
mod ray;
mod row_hash;
mod signals;
mod states;
mod stores;
mod versions;
