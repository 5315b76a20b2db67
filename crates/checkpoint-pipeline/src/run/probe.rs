//! Looking through the input's IDs without processing: does it match what is done, and how much is left.

use std::sync::Arc;

use checkpoint_store::{IdSet, show_id};
use futures::{StreamExt, TryStreamExt, stream};

use super::open_file::OpenFile;
use super::prepare::Prepared;
use super::repeats;
use super::rows::Rows;
use super::scout::{Closeness, Scout};
use crate::error::{Error, ErrorKind, Result};
use crate::input::{FileAccess, SourceFile};
use crate::pipeline::Pipeline;

/// Every row, and no IDs.
const CLOSE: Closeness = Closeness { exact: true, with_ids: false };
/// Files that are counted at once.
const CONCURRENT_FILES: usize = 8;

/// What a look at the first files of a job found, which nobody needs to look for again.
#[derive(Debug, Default)]
pub(super) struct FirstLook {
    /// So many files at the start have no row that is done.
    pub(super) untouched: usize,
    /// The first file, where some of it is at hand.
    pub(super) first: Option<Arc<FileAccess>>,
}

/// Stops a resume whose input has nothing in common with what is done: its IDs are made anew in each run,
/// or its paths are spelled another way.
pub(super) async fn overlap(pipeline: &Pipeline, prepared: &Prepared, done: Arc<dyn IdSet>) -> Result<FirstLook> {
    if done.is_empty() || pipeline.allow_changed_read {
        return Ok(FirstLook::default());
    }
    let rows = Arc::new(Rows::new(pipeline, prepared, prepared.config.clone()));
    let done_len = done.len();
    // The first rows of an input are mostly the first that were done: this reads little, save where
    // nothing matches at all.
    let example = match blocking(move || first_match(&rows, &done)).await? {
        Match::Found(look) => return Ok(look),
        Match::None(example) => example,
    };
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

/// The first row that is done.
enum Match {
    Found(FirstLook),
    /// There is none; with the first ID of the input.
    None(String),
}

fn first_match(rows: &Arc<Rows>, done: &Arc<dyn IdSet>) -> Result<Match> {
    let mut example = None;
    for (index, (file, total)) in rows.files.iter().zip(&rows.totals).enumerate() {
        rows.read_ahead().set_turn(index);
        let access = rows.access(index, file);
        let mut scout = Scout::new(rows, file, &access, *total, done, CLOSE)?;
        let mut found = false;
        if scout.can_tell() {
            for part in scout.parts(*total) {
                scout.runs(&part, &mut |run| {
                    found = run.done;
                    Ok(!found)
                })?;
                if found {
                    // What a later file keeps would be missing to the first one, whose turn it is.
                    let first = (index == 0).then_some(access);
                    return Ok(Match::Found(FirstLook { untouched: index, first }));
                }
                access.forget_kept();
            }
        } else {
            let mut ids = rows.narrowed().open_alone(file)?;
            while let Some(piece) = ids.next()? {
                example.get_or_insert_with(|| show_id(piece.ids.array(), 0));
                if done.contains(piece.ids.array())?.true_count() > 0 {
                    return Ok(Match::Found(FirstLook { untouched: index, first: None }));
                }
            }
        }
    }
    let example = match example {
        Some(example) => Some(example),
        None => first_id(rows)?,
    };
    Ok(Match::None(example.unwrap_or_else(|| String::from("none, as the input has no rows"))))
}

fn first_id(rows: &Arc<Rows>) -> Result<Option<String>> {
    let narrow = rows.narrowed();
    for file in &narrow.files {
        if let Some(piece) = narrow.open_alone(file)?.next()? {
            return Ok(Some(show_id(piece.ids.array(), 0)));
        }
    }
    Ok(None)
}

/// Ends where an ID of the input is there twice, as a run that looks for that would.
pub(super) async fn check_unique(pipeline: &Pipeline, prepared: &Prepared) -> Result<()> {
    let rows = Rows::new(pipeline, prepared, prepared.config.clone());
    blocking(move || repeats::check_unique(&rows)).await
}

/// Rows, and done rows, of each file.
pub(super) async fn count(pipeline: &Pipeline, prepared: &Prepared, done: Arc<dyn IdSet>) -> Result<Vec<(u64, u64)>> {
    let rows = Arc::new(Rows::new(pipeline, prepared, prepared.config.clone()));
    let files: Vec<_> = rows.files.iter().cloned().zip(rows.totals.clone()).enumerate().collect();
    let counts = files.into_iter().map(|(index, (file, total))| {
        let (rows, done) = (rows.clone(), done.clone());
        blocking(move || count_file(&rows, index, &file, total, &done))
    });
    stream::iter(counts).buffered(CONCURRENT_FILES).try_collect().await
}

fn count_file(
    rows: &Arc<Rows>,
    index: usize,
    file: &Arc<SourceFile>,
    total: Option<u64>,
    done: &Arc<dyn IdSet>,
) -> Result<(u64, u64)> {
    let (mut all, mut finished) = (0, 0);
    let access = rows.access(index, file);
    let mut count = |rows: u64, done: u64| (all, finished) = (all + rows, finished + done);
    if let Some(total) = total.filter(|_| done.is_empty() && !rows.is_filtered()) {
        return Ok((total, 0));
    }
    let mut scout = Scout::new(rows, file, &access, total, done, CLOSE)?;
    if scout.can_tell() {
        for part in scout.parts(total) {
            scout.runs(&part, &mut |run| {
                let length = run.rows.end - run.rows.start;
                count(length, if run.done { length } else { 0 });
                Ok(true)
            })?;
            access.forget_kept();
        }
    } else {
        let mut ids: OpenFile = rows.narrowed().open_alone(file)?;
        while let Some(piece) = ids.next()? {
            count(piece.ids.len() as u64, done.contains(piece.ids.array())?.true_count() as u64);
        }
    }
    Ok((all, finished))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.map_err(|e| Error::new(ErrorKind::BadData, format!("looking through the input failed: {e}")))?
}
