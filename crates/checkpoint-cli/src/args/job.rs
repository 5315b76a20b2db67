//! The options of a job, which `run` and `plan` share.

use checkpoint_fs::{Location, Registry, StorageOptions};
use checkpoint_pipeline::transform::{ExecFormat, ProcessPool};
use checkpoint_pipeline::{Format, Ids, Pipeline};
use checkpoint_store::LeaseOptions;
use clap::{Args, ValueEnum};

use super::{ExclusiveArg, IdSetArgs, JsonArg, LeaseUrlArg, values};
use crate::failure::Result;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ProgressMode {
    // A line that changes on a terminal, plain lines elsewhere.
    #[default]
    Auto,
    // One line every 10 seconds.
    Plain,
    None,
}

/// How an external program gets its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum ExecFormatName {
    // One Arrow IPC stream for each batch.
    #[default]
    Arrow,
    // One JSON object on a line for each row.
    Jsonl,
}

/// `ckpt run` and `ckpt plan`.
#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// How progress is shown on stderr: auto is a line that changes on a terminal, plain elsewhere
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Report")]
    pub(crate) progress: ProgressMode,
    #[command(flatten, next_help_heading = "Report")]
    pub(crate) json: JsonArg,
}

/// What the job is.
#[derive(Args)]
#[group(skip)]
pub(crate) struct JobArgs {
    /// Files, directories or globs to read
    #[arg(long, required = true, num_args = 1.., value_name = "URL", value_parser = values::text)]
    input: Vec<String>,
    /// Directory to write into
    #[arg(long, value_name = "URL", required_unless_present = "job_dir", conflicts_with = "job_dir")]
    output: Option<String>,
    /// Directory that remembers which rows are done
    #[arg(long, value_name = "URL", required_unless_present = "job_dir", conflicts_with = "job_dir")]
    checkpoint: Option<String>,
    /// Directory for both: <URL>/output and <URL>/checkpoint
    #[arg(long, value_name = "URL", value_parser = values::text)]
    job_dir: Option<String>,
    /// The column that names a row: unique and never null
    #[arg(long, value_name = "NAME", required_unless_present = "row_hash", value_parser = values::text)]
    id_column: Option<String>,
    /// Name rows by their file and position, where no column does
    #[arg(long, conflicts_with = "id_column")]
    row_hash: bool,

    /// A program that transforms the rows, run by sh; without it rows are copied
    #[arg(long, value_name = "CMD", value_parser = values::text, help_heading = "Transform")]
    exec: Option<String>,
    /// How the program gets its rows and answers: an Arrow IPC stream a batch, or a JSON line a row
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", requires = "exec", help_heading = "Transform")]
    exec_format: ExecFormatName,
    /// Batches that are transformed at once, and programs that run [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = values::workers, help_heading = "Transform")]
    workers: Option<usize>,
    /// The most rows of a batch [default: 1024, 64 with --exec-format jsonl, 8192 without --exec]
    #[arg(long, value_name = "N", value_parser = values::batch_rows, help_heading = "Transform")]
    batch_size: Option<usize>,
    /// Rows of a task, which is committed as one [default: 10000, and more where a second brings more]
    #[arg(long, value_name = "N", value_parser = values::task_rows, help_heading = "Transform")]
    rows_per_task: Option<u64>,
    /// Set aside up to N rows on which the transform fails, in <output>/_failed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Transform")]
    max_failed_rows: u64,

    /// Format of the input, where names do not tell: parquet, jsonl, csv, arrow
    #[arg(long, value_name = "FORMAT", value_parser = values::format, help_heading = "Files")]
    input_format: Option<Format>,
    /// Format of the output [default: that of the input]
    #[arg(long, value_name = "FORMAT", value_parser = values::format, help_heading = "Files")]
    output_format: Option<Format>,
    /// Add to an output whose earlier checkpoints are gone
    #[arg(long, help_heading = "Files")]
    append: bool,

    /// Keep the checkpoint when the job is done
    #[arg(long, help_heading = "Checkpoint")]
    keep_checkpoint: bool,
    /// A text to change when the meaning of the output changes, such as the model's name
    #[arg(long, value_name = "TEXT", value_parser = values::text, help_heading = "Checkpoint")]
    job_version: Option<String>,
    /// Go on although the input or the job's version changed
    #[arg(long, help_heading = "Checkpoint")]
    allow_changed_read: bool,
    /// Fail at once when an ID occurs twice; takes up to 20 bytes an ID
    #[arg(long, help_heading = "Checkpoint")]
    check_unique: bool,
    #[command(flatten, next_help_heading = "Checkpoint")]
    id_sets: IdSetArgs,
    #[command(flatten, next_help_heading = "Checkpoint")]
    lease_url: LeaseUrlArg,
    #[command(flatten, next_help_heading = "Checkpoint")]
    exclusive: ExclusiveArg,
}

impl JobArgs {
    /// The job, ready to run. Nothing is opened yet.
    ///
    /// # Errors
    /// A job directory that is no URL.
    pub(crate) fn pipeline(&self, registry: &Registry, options: &StorageOptions) -> Result<Pipeline> {
        let (output, checkpoint) = self.places()?;
        let ids = match &self.id_column {
            Some(column) => Ids::Column(column.clone()),
            None => Ids::RowHash,
        };
        let mut lease = LeaseOptions::default();
        lease.assume_exclusive = self.exclusive.assume_exclusive;
        let mut pipeline = Pipeline::new(self.input.iter().cloned(), output, checkpoint, ids)
            .registry(registry.clone())
            .storage_options(options.clone())
            .input_format(self.input_format)
            .output_format(self.output_format)
            .append(self.append)
            .keep_checkpoint(self.keep_checkpoint)
            .version(self.job_version.clone())
            .allow_changed_read(self.allow_changed_read)
            .check_unique(self.check_unique)
            .id_sets(self.id_sets.options())
            .max_failed_rows(self.max_failed_rows)
            .lease_url(self.lease_url.lease_url.clone())
            .lease(lease);
        let workers = self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        pipeline = pipeline.workers(workers);
        // A program that takes rows one by one is mostly slow: a smaller batch costs less when it is lost.
        let row_by_row = matches!(self.exec_format, ExecFormatName::Jsonl).then_some(64);
        if let Some(rows) = self.batch_size.or(row_by_row) {
            pipeline = pipeline.batch_rows(rows);
        }
        if let Some(rows) = self.rows_per_task {
            pipeline = pipeline.rows_per_task(rows);
        }
        if let Some(command) = &self.exec {
            let format = match self.exec_format {
                ExecFormatName::Arrow => ExecFormat::Arrow,
                ExecFormatName::Jsonl => ExecFormat::JsonLines,
            };
            pipeline = pipeline.transform(ProcessPool::new(command, format, workers)?);
        }
        Ok(pipeline)
    }

    /// Where the output and the checkpoint are.
    pub(crate) fn places(&self) -> Result<(String, String)> {
        if let Some(dir) = &self.job_dir {
            let dir = Location::parse(dir)?;
            return Ok((dir.join("output")?.to_string(), dir.join("checkpoint")?.to_string()));
        }
        Ok((self.output.clone().unwrap_or_default(), self.checkpoint.clone().unwrap_or_default()))
    }
}
