//! Acceptance tests: the `ckpt` program as a user drives it, by its arguments, exit codes, `--json` and files.

mod support;

mod ends;
mod ids;
mod row_hash;
mod states;
