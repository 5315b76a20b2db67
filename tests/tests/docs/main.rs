//! The reference pages, compared with the code that they describe.

mod commands;
mod guarantees;
mod options;
mod page;
mod variables;
