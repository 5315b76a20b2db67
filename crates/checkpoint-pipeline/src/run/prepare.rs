//! What must be known before the checkpoint is touched: the input files, their schemas, and who the job is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::{DataType, SchemaRef};
use checkpoint_fs::{Location, StorageRef};
use checkpoint_store::{Checkpoint, Fingerprint, IdClass, InputFile};

use super::apart::{Places, keep_apart};
use super::task_size::USUAL_ROWS;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::input::{self, ReadConfig, ReadContext, SourceFile};
use crate::pipeline::{Ids, Pipeline, ROW_HASH_COLUMN};

/// A job that is ready to begin.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) files: Vec<Arc<SourceFile>>,
    /// The rows of each file, where they are cheap to know.
    pub(super) totals: Vec<Option<u64>>,
    pub(super) context: ReadContext,
    pub(super) config: ReadConfig,
    pub(super) checkpoint: Checkpoint,
    pub(super) output: StorageRef,
    pub(super) output_format: Format,
    pub(super) fingerprint: Fingerprint,
}

impl Prepared {
    /// Looks at everything and changes nothing.
    pub(super) async fn new(pipeline: &Pipeline) -> Result<Self> {
        if pipeline.inputs.is_empty() {
            return Err(Error::invalid_config("no input is given").with_hint("give one or more with --input"));
        }
        let output_at = Location::parse(&pipeline.output)?;
        let checkpoint_at = Location::parse(&pipeline.checkpoint)?;
        keep_apart(&Places {
            checkpoint: &checkpoint_at,
            output: &output_at,
            inputs: &pipeline.inputs,
            output_format: pipeline.output_format,
        })?;
        let options = &pipeline.storage_options;
        pipeline.registry.check_options(options)?;
        let output = pipeline.registry.open_location(&output_at, options).await?;
        let storage = pipeline.registry.open_location(&checkpoint_at, options).await?;
        let mut checkpoint = Checkpoint::new(storage, pipeline.runtime.clone());
        if let Some(url) = &pipeline.lease_url {
            checkpoint = checkpoint.with_control(pipeline.registry.open_dir(url, options).await?);
        }
        let counters = pipeline.counters();
        let mut context = ReadContext::new(tokio::runtime::Handle::current()).with_counter(counters.bytes_read.clone());
        if let Ids::Column(name) = &pipeline.ids {
            context = context.with_statistics_of(name);
        }
        let files = input::discover(&pipeline.registry, &pipeline.inputs, options, pipeline.input_format).await?;
        let schemas = input::infer_schemas(&files, &context).await?;
        let context = context.with_schemas(schemas);
        let files: Vec<Arc<SourceFile>> = files.into_iter().map(Arc::new).collect();
        let recorded = checkpoint.recorded_fingerprint(&output).await;
        let id_type = id_type(pipeline, &files, &context, recorded.as_ref()).await?;
        let mut fingerprint = fingerprint(pipeline, &files, &id_type, output.url())?;
        if let Some(recorded) = &recorded {
            fingerprint.fill_rows(recorded);
        }
        let totals = count_rows(&files, &mut fingerprint, &context).await?;
        let total = totals.iter().try_fold(0u64, |sum, rows| Some(sum.saturating_add((*rows)?)));
        counters.total_rows.store(total.unwrap_or(0), Ordering::Relaxed);
        let rows = pipeline.batch_rows.unwrap_or_else(|| pipeline.transform.batch_rows()).max(1);
        let rows = (rows as u64).min(pipeline.rows_per_task.unwrap_or(USUAL_ROWS)) as usize;
        // Every worker can have a batch in hand and a large one waiting; of small ones more wait.
        let share = pipeline.memory / (2 * pipeline.workers.max(1) * pipeline.transform.memory_factor().max(1));
        let batch_bytes = share.clamp(1 << 20, 32 << 20);
        let filled = pipeline.transform.fills_batches() || pipeline.batch_rows.is_some();
        let config = ReadConfig::new().with_batch_rows(rows).with_batch_bytes(batch_bytes).with_filled(filled);
        let output_format = pipeline.output_format.unwrap_or_else(|| format_of_all(&files));
        Ok(Self { files, totals, context, config, checkpoint, output, output_format, fingerprint })
    }
}

/// The rows of each file, where they are cheap to know. Those that an earlier attempt recorded are not looked
/// up again, and those that are looked up are put into the fingerprint.
async fn count_rows(
    files: &[Arc<SourceFile>],
    fingerprint: &mut Fingerprint,
    context: &ReadContext,
) -> Result<Vec<Option<u64>>> {
    let unknown = |known: &InputFile| known.rows.is_none();
    let unknown: Vec<usize> = (0..files.len()).filter(|i| fingerprint.inputs.get(*i).is_none_or(unknown)).collect();
    let look: Vec<SourceFile> = unknown.iter().map(|i| files[*i].as_ref().clone()).collect();
    for (index, rows) in unknown.into_iter().zip(input::count_rows(&look, context).await?) {
        if let Some(input) = fingerprint.inputs.get_mut(index) {
            input.rows = rows;
        }
    }
    Ok(fingerprint.inputs.iter().map(|input| input.rows).collect())
}

/// The type of the ID column, from the first file; later files are held to it as they are read. Row hashes need
/// a look only where no attempt before has had one at the same file.
async fn id_type(
    pipeline: &Pipeline,
    files: &[Arc<SourceFile>],
    context: &ReadContext,
    recorded: Option<&Fingerprint>,
) -> Result<DataType> {
    let Some(first) = files.first().cloned() else {
        return Err(Error::invalid_config("there is no input file"));
    };
    let seen = recorded.filter(|r| r.row_hash).and_then(|r| r.inputs.first());
    let seen = seen.is_some_and(|seen| seen.version.is_some() && *seen == as_input(&first));
    if pipeline.ids == Ids::RowHash && seen {
        return Ok(DataType::UInt64);
    }
    let context = context.clone();
    let url = first.location.to_string();
    let schema: SchemaRef = tokio::task::spawn_blocking(move || {
        input::open(&first, &ReadConfig::new(), &context).map(|reader| reader.schema())
    })
    .await
    .map_err(|e| Error::bad_data(format!("reading the first file failed: {e}")))??;
    match &pipeline.ids {
        Ids::RowHash if schema.field_with_name(ROW_HASH_COLUMN).is_ok() => {
            Err(Error::bad_data(format!("the input has a column named {ROW_HASH_COLUMN} already: file={url}"))
                .with_hint(format!("use it with --id-column {ROW_HASH_COLUMN}, or rename it")))
        }
        Ids::RowHash => Ok(DataType::UInt64),
        Ids::Column(name) => match schema.field_with_name(name) {
            Ok(field) => Ok(field.data_type().clone()),
            Err(_) => Err(missing_id_column(name, &schema, &url)),
        },
    }
}

/// The error for a file that lacks the ID column.
pub(super) fn missing_id_column(name: &str, schema: &SchemaRef, url: &str) -> Error {
    let columns: Vec<&str> = schema.fields().iter().take(20).map(|f| f.name().as_str()).collect();
    Error::bad_data(format!("the input has no ID column of that name: column={name} file={url}"))
        .with_hint(format!("its columns are: {}; without a key of your own, use --row-hash", columns.join(", ")))
}

fn fingerprint(
    pipeline: &Pipeline,
    files: &[Arc<SourceFile>],
    id_type: &DataType,
    output: &str,
) -> Result<Fingerprint> {
    let inputs = files.iter().map(|file| as_input(file));
    Ok(Fingerprint {
        id_column: pipeline.ids.column().to_owned(),
        id_class: IdClass::of(id_type)?.to_string(),
        id_type: id_type.to_string(),
        row_hash: pipeline.ids == Ids::RowHash,
        filter: pipeline.filter.as_ref().map(|(text, _)| text.clone()),
        output: output.to_owned(),
        version: pipeline.version.clone(),
        inputs: inputs.collect(),
        inputs_unknown: false,
    })
}

/// A file as the fingerprint has it, its rows not known.
fn as_input(file: &SourceFile) -> InputFile {
    let version = file.meta.etag.clone().or_else(|| {
        let modified = file.meta.last_modified?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos()))
    });
    InputFile { path: file.hash_key(), size: file.meta.size, version, rows: None }
}

/// The one format of all files, or Parquet.
fn format_of_all(files: &[Arc<SourceFile>]) -> Format {
    let first = files.first().map_or(Format::Parquet, |f| f.format);
    if files.iter().all(|f| f.format == first) { first } else { Format::Parquet }
}
