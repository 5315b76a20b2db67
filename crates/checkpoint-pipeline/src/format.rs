//! The file formats that a pipeline reads and writes.

use std::fmt;

use crate::error::{Error, Result};

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// One JSON object a line.
    JsonLines,
    /// Comma-separated values with a header line.
    Csv,
    /// Arrow IPC: the file format is written; files and streams are read.
    ArrowIpc,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [Format::Parquet, Format::JsonLines, Format::Csv, Format::ArrowIpc];

    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Format::Parquet => "parquet",
            Format::JsonLines => "jsonl",
            Format::Csv => "csv",
            Format::ArrowIpc => "arrow",
        }
    }

    /// The extension of files that are written.
    pub fn extension(self) -> &'static str {
        self.name()
    }

    /// Reads a name: `parquet`, `jsonl` (`ndjson`, `json`), `csv`, `arrow` (`ipc`, `feather`).
    ///
    /// # Errors
    /// `InvalidConfig` that lists the names.
    pub fn parse(name: &str) -> Result<Self> {
        Self::from_extension(name).ok_or_else(|| {
            Error::invalid_config(format!("unknown format: format={name}"))
                .with_hint("known formats: parquet, jsonl, csv, arrow")
        })
    }

    /// The format that a file name tells, compression suffixes (`.gz`, `.zst`) aside.
    pub fn from_file_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let plain = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower);
        Self::from_extension(plain.rsplit_once('.')?.1)
    }

    fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "parquet" | "pq" => Some(Format::Parquet),
            "jsonl" | "ndjson" | "json" => Some(Format::JsonLines),
            "csv" => Some(Format::Csv),
            "arrow" | "ipc" | "feather" | "arrows" => Some(Format::ArrowIpc),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
