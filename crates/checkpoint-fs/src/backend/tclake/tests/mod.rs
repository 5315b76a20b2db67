//! The catalog client and what stands on it, against a small scripted server.

mod answers;
mod days;
mod opened;
mod server;
