//! Looking through the input's IDs without processing: does it match what is done, and how much is left.

use std::sync::Arc;

use checkpoint_store::IdSet;

use super::feed::Rows;
use super::id_reader::IdReader;
use super::prepare::Prepared;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::Pipeline;

/// Stops a resume whose input has nothing in common with what is done: its IDs are made anew in each run,
/// or its paths are spelled another way.
pub(super) async fn overlap(pipeline: &Pipeline, prepared: &Prepared, done: Arc<dyn IdSet>) -> Result<()> {
    if done.is_empty() || pipeline.allow_changed_read {
        return Ok(());
    }
    let rows = Rows::ids_only(pipeline, prepared);
    let done_len = done.len();
    // The first rows of an input are mostly the first that were done: this reads little, save where
    // nothing matches at all.
    let (found, example) = blocking(move || first_match(&rows, done.as_ref())).await?;
    if found {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "none of the input's IDs is among the {done_len} that are done; the first is {example}: checkpoint={}",
            prepared.checkpoint.url()
        ),
    )
    .with_hint(
        "IDs must be the same in every run, not random, and row hashes need the same input paths; to begin again use a \
         fresh --checkpoint and --output, or pass --allow-changed-read if the input is really another",
    ))
}

fn first_match(rows: &Arc<Rows>, done: &dyn IdSet) -> Result<(bool, String)> {
    let mut example = String::from("none, as the input has no rows");
    let mut first = true;
    for (file, total) in rows.files.iter().zip(&rows.totals) {
        let mut reader = IdReader::open(rows, file, *total)?;
        while let Some((ids, _)) = reader.next()? {
            if first {
                example = checkpoint_store::show_id(ids.array(), 0);
                first = false;
            }
            if done.contains(ids.array())?.true_count() > 0 {
                return Ok((true, example));
            }
        }
    }
    Ok((false, example))
}

/// Rows, and done rows, of each file.
pub(super) async fn count(pipeline: &Pipeline, prepared: &Prepared, done: Arc<dyn IdSet>) -> Result<Vec<(u64, u64)>> {
    let rows = Rows::ids_only(pipeline, prepared);
    let counting = move || {
        let mut counts = Vec::with_capacity(rows.files.len());
        for (file, total) in rows.files.iter().zip(&rows.totals) {
            let (mut all, mut finished) = (0, 0);
            let mut reader = IdReader::open(&rows, file, *total)?;
            while let Some((ids, _)) = reader.next()? {
                all += ids.len() as u64;
                finished += done.contains(ids.array())?.true_count() as u64;
            }
            counts.push((all, finished));
        }
        Ok(counts)
    };
    blocking(counting).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|e| Error::new(ErrorKind::BadData, format!("looking through the input failed: {e}")))?
}
