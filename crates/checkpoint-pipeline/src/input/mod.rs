//! The input side.

mod config;
mod fetch;
mod parquet;
mod reader;
mod sizes;
mod source;
mod text;
mod windows;

pub use self::config::{ReadConfig, ReadContext};
pub use self::reader::{BatchReader, open};
pub use self::sizes::decoded_size;
pub use self::source::SourceFile;
pub use self::text::TextSchemas;
