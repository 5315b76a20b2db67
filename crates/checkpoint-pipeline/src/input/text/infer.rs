//! The schemas of a job's text files, from the start of each of them.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use futures::{StreamExt, TryStreamExt, stream};

use super::super::config::ReadContext;
use super::super::fetch::FileFetch;
use super::super::source::SourceFile;
use super::csv::CsvRows;
use super::json::JsonRows;
use super::kind::Kind;
use super::reader::{RowError, Rows};
use super::stream::TextStream;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;

/// Decompressed bytes of each file that are looked at.
const SAMPLE: u64 = 1 << 20;
/// Files that are looked at at once.
const CONCURRENT_FILES: usize = 16;

/// One schema for each text format of a job.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TextSchemas {
    /// Of all JSON lines files; `None` where there are none.
    pub json_lines: Option<SchemaRef>,
    /// Of all CSV files; `None` where there are none.
    pub csv: Option<SchemaRef>,
}

impl TextSchemas {
    /// The schema of a format.
    pub fn get(&self, format: Format) -> Option<&SchemaRef> {
        match format {
            Format::JsonLines => self.json_lines.as_ref(),
            Format::Csv => self.csv.as_ref(),
            _ => None,
        }
    }
}

/// Infers the schemas of the text files among these, from the rows that begin within the first MiB of each
/// (decompressed). All of a format share one schema: columns in the order in which the files, as listed,
/// show them; one that a file lacks is null there. The same files give the same schemas. Every column may
/// be null. The types:
/// - integers are `Int64`, or `UInt64` where a value needs it; `007` and `+1` are text;
/// - integers and floats together are `Float64`, if every integer among them is exactly a float;
/// - JSON objects and arrays are structs and lists, `true` and `false` are booleans;
/// - everything else, and every mixture, is text.
///
/// Cost: about 1 MiB of each text file, 16 files at once; counted in the context.
///
/// # Errors
/// `BadData` for damaged files, bad headers and rows that are no JSON objects; what reading meets.
pub async fn infer_schemas(files: &[SourceFile], context: &ReadContext) -> Result<TextSchemas> {
    let text: Vec<SourceFile> =
        files.iter().filter(|f| matches!(f.format, Format::JsonLines | Format::Csv)).cloned().collect();
    let mut json_lines: Option<Kind> = None;
    let mut csv: Option<Kind> = None;
    let mut samples = stream::iter(text)
        .map(|file| async {
            let (format, context) = (file.format, context.clone());
            let sampled = tokio::task::spawn_blocking(move || sample(&file, &context)).await;
            let kind =
                sampled.map_err(|e| Error::new(ErrorKind::Interrupted, "a sample was given up").with_source(e))?;
            kind.map(|kind| (format, kind))
        })
        .buffered(CONCURRENT_FILES);
    while let Some((format, kind)) = samples.try_next().await? {
        let all = if format == Format::Csv { &mut csv } else { &mut json_lines };
        all.get_or_insert_with(Kind::row).merge(kind);
    }
    let schema = |kind: Kind| Arc::new(Schema::new(kind.fields()));
    Ok(TextSchemas { json_lines: json_lines.map(schema), csv: csv.map(schema) })
}

/// Looks at the start of one file.
fn sample(file: &SourceFile, context: &ReadContext) -> Result<Kind> {
    let fetch = FileFetch::new(file.clone(), context.clone());
    let mut kind = Kind::row();
    let stream = TextStream::sample(&fetch).map_err(|e| RowError::from(e).at(&fetch, 1))?;
    if file.format == Format::Csv {
        let mut rows = CsvRows::new(stream).map_err(|e| e.at(&fetch, 1))?;
        rows.sample(SAMPLE, &mut kind).map_err(|e| e.at(&fetch, rows.line()))?;
    } else {
        let mut rows = JsonRows::new(stream, &Schema::empty());
        rows.sample(SAMPLE, &mut kind).map_err(|e| e.at(&fetch, rows.line()))?;
    }
    Ok(kind)
}
