//! Statistics of Parquet files that say of rows that they are done which are not.
//!
//! Nobody sees that while rows are passed over for what their file says of them. It comes out when more rows are done
//! than there are IDs; then the rows are read after all.

use std::sync::Arc;

use checkpoint_store::{IdSet, show_id};

use super::open_file::OpenFile;
use super::rows::Rows;
use super::scout::{Closeness, Scout};
use crate::error::{Error, Result};
use crate::input::SourceFile;

/// What statistics say, told as when rows are passed over.
const BY_STATISTICS: Closeness = Closeness { exact: true, with_ids: false };

/// The error for an input of whose rows more are done than there are IDs, though none of them is there twice: names the
/// first row group whose statistics are wrong.
pub(super) fn find_wrong_statistics(rows: &Arc<Rows>, done: &Arc<dyn IdSet>, skipped: u64) -> Result<Error> {
    let mut wrong = None;
    for (index, file) in rows.files.iter().enumerate() {
        wrong = wrong_in_file(rows, index, file, done)?;
        if wrong.is_some() {
            break;
        }
    }
    let known = done.len();
    let found = match wrong {
        Some(wrong) => wrong,
        // They were right a moment ago, when rows were counted by other ones.
        None => {
            return Ok(Error::bad_data(format!(
                "at least {skipped} rows of the input were taken for done where {known} IDs are, and none is there twice"
            ))
            .with_hint("let nothing write to the input while a job runs, then start the job again"));
        }
    };
    Ok(Error::bad_data(format!(
        "the statistics of an input file are wrong, rows are done by them that are not: {found}"
    ))
    .with_hint("write this file again with a program that gets them right, or without statistics of the ID column"))
}

/// The first row of a file that is done by what the file says, and not by its ID.
fn wrong_in_file(
    rows: &Arc<Rows>,
    index: usize,
    file: &Arc<SourceFile>,
    done: &Arc<dyn IdSet>,
) -> Result<Option<String>> {
    let total = rows.totals.get(index).copied().flatten();
    let access = rows.access(index, file);
    let mut scout = Scout::new(rows, file, &access, total, done, BY_STATISTICS)?;
    if !scout.can_tell() {
        return Ok(None);
    }
    let mut ids = rows.narrowed().open_alone(file)?;
    let mut wrong = None;
    for part in scout.parts(total) {
        scout.runs(&part, &mut |run| {
            if run.done {
                ids.skip_to(run.rows.start)?;
                ids.limit(run.rows.end, true)?;
                wrong = first_left(&mut ids, done.as_ref())?;
            }
            Ok(wrong.is_none())
        })?;
        access.forget_kept();
        if let Some((row, id)) = wrong {
            let group = part.group.map(|group| format!(" row_group={group}")).unwrap_or_default();
            return Ok(Some(format!("file={}{group} row={row} id={id}", file.location)));
        }
    }
    Ok(None)
}

/// The first row that is not done, up to the limit, and its ID.
fn first_left(ids: &mut OpenFile, done: &dyn IdSet) -> Result<Option<(u64, String)>> {
    while let Some(piece) = ids.next()? {
        let known = done.contains(piece.ids.array())?;
        if let Some(row) = known.values().iter().position(|done| !done) {
            let at = piece.places.rows.get(row).copied().unwrap_or_default();
            return Ok(Some((at, show_id(piece.ids.array(), row))));
        }
    }
    Ok(None)
}
