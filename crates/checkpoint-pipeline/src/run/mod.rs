//! Running a pipeline: one reader, several workers, one owner of the checkpoint.

mod apart;
mod commits;
mod contract;
mod failing;
mod feed;
mod item;
mod lanes;
mod open_file;
mod own_thread;
mod prepare;
mod probe;
mod repeats;
mod rows;
mod same_ids;
mod scout;
mod settings;
mod stretches;
mod task;
mod task_size;
mod worker;
mod wrong_statistics;

use std::sync::Arc;

use checkpoint_store::{Attempt, AttemptState, Begin, BeginOptions};
use futures::future::join_all;
use tokio::sync::mpsc;

use crate::data_files::DataFiles;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::Pipeline;
use crate::report::{Counters, Phase, PlanReport, RunReport, Stage, get};

use self::feed::Feed;
use self::prepare::Prepared;
use self::settings::Shared;
use self::worker::Worker;

/// Batches that wait for each worker, within the memory that there is: reading and encoding take turns at being the
/// slower one.
const BATCHES_AHEAD: usize = 4;

/// Runs a pipeline to its end.
pub(crate) async fn run(pipeline: Pipeline) -> Result<RunReport> {
    let runtime = pipeline.runtime.clone();
    let began = runtime.elapsed();
    let counters = pipeline.counters();
    counters.set_phase(Phase::Discovering);
    let prepared = Prepared::new(&pipeline).await?;
    counters.set_phase(Phase::Resuming);
    let mut options = BeginOptions::default();
    options.lease = pipeline.lease.clone();
    options.compact_above = pipeline.compact_above;
    options.allow_changed_read = pipeline.allow_changed_read;
    options.append = pipeline.append;
    options.ids = pipeline.id_sets.clone();
    let reader = DataFiles::new();
    let begin = Attempt::begin(&prepared.checkpoint, &prepared.output, prepared.fingerprint.clone(), options, &reader);
    let attempt = match Box::pin(begin).await? {
        Begin::Attempt(attempt) => Arc::new(*attempt),
        Begin::AlreadyComplete { rows } => {
            let mut report = RunReport::default();
            (report.input_rows, report.skipped_rows, report.already_complete) = (rows, rows, true);
            report.bytes_read = get(&counters.bytes_read);
            report.seconds = (runtime.elapsed() - began).as_secs_f64();
            return Ok(report);
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Conflict,
                "the checkpoint is in a state that this version does not know",
            ));
        }
    };
    let worked = work(&pipeline, &prepared, &attempt).await;
    let closed = pipeline.transform.close().await;
    let attempt = Arc::into_inner(attempt)
        .ok_or_else(|| Error::new(ErrorKind::OutcomeUnknown, "a worker still holds the checkpoint after its end"))?;
    let mut report = RunReport {
        attempt: attempt.number(),
        rolled_forward_tasks: attempt.recovery().rolled_forward,
        voided_tasks: attempt.recovery().voided,
        failed_rows: attempt.failed_rows() + get(&counters.failed_rows),
        ..RunReport::default()
    };
    if let Err(error) = worked {
        let state = match error.kind() {
            ErrorKind::Interrupted => AttemptState::Interrupted,
            _ => AttemptState::Failed,
        };
        if let Err(end) = attempt.end(state).await {
            tracing::info!(error = %end, "the attempt could not be marked as ended");
        }
        return Err(error);
    }
    if let Err(error) = closed {
        tracing::warn!(%error, "the transform did not end well; every batch that it answered counts");
    }
    if let Err(error) = every_row_is_done(&counters) {
        let _ = attempt.end(AttemptState::Failed).await;
        return Err(error);
    }
    counters.set_phase(Phase::Finishing);
    attempt.finish(pipeline.keep_checkpoint || report.failed_rows > 0).await?;
    report.input_rows = get(&counters.read_rows);
    report.skipped_rows = get(&counters.skipped_rows);
    report.processed_rows = get(&counters.processed_rows);
    report.written_rows = get(&counters.written_rows);
    report.written_files = get(&counters.written_files);
    report.bytes_read = get(&counters.bytes_read);
    report.already_complete = report.processed_rows == 0 && report.skipped_rows > 0;
    report.read_seconds = counters.seconds(Stage::Read);
    report.transform_seconds = counters.seconds(Stage::Transform);
    report.write_seconds = counters.seconds(Stage::Write);
    report.commit_seconds = counters.seconds(Stage::Commit);
    report.seconds = (runtime.elapsed() - began).as_secs_f64();
    Ok(report)
}

/// The last look before the end, from which there is no way back: each row that was read is either done
/// before or done now.
fn every_row_is_done(counters: &Counters) -> Result<()> {
    let (read, skipped, processed) =
        (get(&counters.read_rows), get(&counters.skipped_rows), get(&counters.processed_rows));
    if read == skipped + processed {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::OutcomeUnknown,
        format!("rows are unaccounted for: {read} were read, {skipped} were done before and {processed} are done now"),
    )
    .with_hint("nothing was deleted and the checkpoint is kept; run the same command again, and please report this"))
}

/// Reads, transforms and commits everything that is left.
async fn work(pipeline: &Pipeline, prepared: &Prepared, attempt: &Arc<Attempt>) -> Result<()> {
    let counters = pipeline.counters();
    let look = probe::overlap(pipeline, prepared, attempt.ids()).await?;
    let shared = Arc::new(Shared::new(pipeline, prepared, attempt)?);
    if let Some(schema) = shared.output_schema() {
        pipeline.transform.expect_output(&schema);
    }
    counters.set_phase(Phase::Running);
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD * pipeline.workers);
    let receiver = tokio::sync::Mutex::new(receiver);
    let workers = (0..pipeline.workers).map(|_| Worker::new(shared.clone(), &receiver)).collect::<Result<Vec<_>>>()?;
    let feed = Feed::new(pipeline, prepared, attempt.ids(), shared.halt.clone(), look)?;
    let reading = tokio::task::spawn_blocking(move || feed.run(&sender));
    // A stop asks every worker to end its task with the batches that it has.
    let stopping = pipeline.stop();
    let halt = shared.halt.clone();
    let watch = async {
        stopping.requested().await;
        halt.cancel();
        std::future::pending().await
    };
    let workers = join_all(workers.into_iter().map(Worker::run));
    let results: Vec<Result<()>> = tokio::select! {
        results = workers => results,
        never = watch => never,
    };
    drop(receiver);
    let read =
        reading.await.unwrap_or_else(|panic| Err(Error::new(ErrorKind::BadData, format!("the reader died: {panic}"))));
    let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
    errors.extend(read.err());
    if let Some(error) = most_telling(errors) {
        return Err(error);
    }
    if stopping.is_requested() {
        return Err(Error::new(ErrorKind::Interrupted, "the run was asked to stop; what was finished is committed")
            .with_hint("run the same command again to go on"));
    }
    Ok(())
}

/// Of several errors the one to report: what failed, before what only followed from it.
fn most_telling(errors: impl IntoIterator<Item = Error>) -> Option<Error> {
    errors.into_iter().min_by_key(|error| match error.kind() {
        ErrorKind::OutcomeUnknown => 0,
        ErrorKind::Conflict => 1,
        ErrorKind::BadData => 2,
        ErrorKind::Transform => 3,
        ErrorKind::InvalidConfig => 4,
        ErrorKind::Storage => 5,
        ErrorKind::Interrupted => 6,
    })
}

/// Says what a run would do.
pub(crate) async fn plan(pipeline: Pipeline) -> Result<PlanReport> {
    let prepared = Prepared::new(&pipeline).await?;
    let mut options = BeginOptions::default();
    options.allow_changed_read = pipeline.allow_changed_read;
    options.append = pipeline.append;
    options.ids = pipeline.id_sets.clone();
    let preview = checkpoint_store::preview(
        &prepared.checkpoint,
        &prepared.output,
        &prepared.fingerprint,
        &options,
        &DataFiles::new(),
    )
    .await?;
    let mut report = PlanReport {
        input_files: prepared.files.len() as u64,
        would_roll_forward: preview.recovery.rolled_forward,
        would_void: preview.recovery.voided,
        ..PlanReport::default()
    };
    if let Some(rows) = preview.already_complete {
        (report.input_rows, report.done_rows, report.already_complete) = (rows, rows, true);
        report.bytes_read = get(&pipeline.counters.bytes_read);
        return Ok(report);
    }
    if pipeline.check_unique {
        probe::check_unique(&pipeline, &prepared).await?;
    }
    let counts = probe::count(&pipeline, &prepared, preview.ids).await?;
    report.bytes_read = get(&pipeline.counters.bytes_read);
    for (rows, done) in counts {
        report.input_rows = report.input_rows.saturating_add(rows);
        report.done_rows += done;
        report.remaining_files += u64::from(done < rows);
    }
    report.remaining_rows = report.input_rows - report.done_rows;
    report.already_complete = report.remaining_rows == 0 && report.done_rows > 0;
    Ok(report)
}
