//! IDs that occur more than once in the input.

use std::sync::Arc;

use checkpoint_store::{ExactIdSet, GrowingIdSet, IdColumn, IdProblem, IdSet, show_id};

use super::item::Places;
use super::rows::Rows;
use super::scout::{chunks, hashes};
use super::wrong_statistics::find_wrong_statistics;
use crate::error::{Error, Result};
use crate::row_hash;

/// How many examples an error names.
const EXAMPLES: usize = 3;
/// Row hashes that are made at once.
const HASHES: u64 = 64 << 10;

/// Every ID seen so far. Where it stood is found by reading the input once more, should it come again.
#[derive(Debug)]
pub(super) struct Repeats(GrowingIdSet);

/// An ID that was there before.
#[derive(Debug)]
struct Repeat {
    id: ExactIdSet,
    text: String,
    first: Option<String>,
    second: String,
}

impl Repeats {
    /// None yet, of these rows.
    pub(super) fn new(rows: &Rows) -> Self {
        Self(GrowingIdSet::new(rows.id_sets()))
    }

    /// Takes IDs in.
    ///
    /// # Errors
    /// `BadData` naming both places of the first that was there already.
    pub(super) fn insert(&mut self, rows: &Arc<Rows>, ids: &IdColumn, places: &Places) -> Result<()> {
        let Some(repeat) = self.add(ids, places)? else { return Ok(()) };
        let examples = with_places(rows, vec![repeat])?;
        Err(Error::bad_data(format!("an ID occurs twice in the input: {examples}"))
            .with_hint("IDs must be unique in a job; remove the repeated rows, or use --row-hash"))
    }

    /// Takes IDs in; answers the first that was there already.
    fn add(&mut self, ids: &IdColumn, places: &Places) -> Result<Option<Repeat>> {
        let repeat = |row: usize, first: Option<usize>| -> Result<Repeat> {
            let mut id = ExactIdSet::new();
            if let Ok(one) = IdColumn::try_new(&ids.array().slice(row, 1))? {
                id.insert(&one)?;
            }
            let first = first.map(|row| places.show(row));
            Ok(Repeat { id, text: show_id(ids.array(), row), first, second: places.show(row) })
        };
        let before = self.0.first_common(ids)?;
        let found = match ids.duplicate() {
            Some(IdProblem::Duplicate { first, second, .. }) if before.is_none_or(|row| second < row) => {
                Some(repeat(second, Some(first))?)
            }
            _ => before.map(|row| repeat(row, None)).transpose()?,
        };
        self.0.insert(ids)?;
        Ok(found)
    }
}

/// Reads the input until it is known where each ID stands first, and puts it all in words.
fn with_places(rows: &Arc<Rows>, mut repeats: Vec<Repeat>) -> Result<String> {
    let narrow = rows.narrowed();
    'files: for file in &narrow.files {
        let mut open = narrow.open_alone(file)?;
        while repeats.iter().any(|repeat| repeat.first.is_none()) {
            let Some(piece) = open.next()? else { continue 'files };
            for repeat in repeats.iter_mut().filter(|repeat| repeat.first.is_none()) {
                repeat.first = repeat.id.first_common(&piece.ids)?.map(|row| piece.places.show(row));
            }
        }
        break;
    }
    let example = |repeat: Repeat| {
        let first = repeat.first.unwrap_or_else(|| String::from("an earlier row"));
        format!("id={} at={first} and at={}", repeat.text, repeat.second)
    };
    Ok(repeats.into_iter().map(example).collect::<Vec<_>>().join("; "))
}

/// Looks through the IDs of the whole input, and of nothing else where that can be.
///
/// # Errors
/// As [`Repeats::insert`], and as reading and the ID column give.
pub(super) fn check_unique(rows: &Rows) -> Result<()> {
    let narrow = rows.narrowed();
    let mut seen = Repeats::new(&narrow);
    for (file, total) in narrow.files.iter().zip(&narrow.totals) {
        match (narrow.id_column(), total) {
            (None, Some(total)) if !narrow.is_filtered() => {
                // Row hashes are known without the rows.
                let seed = row_hash::seed(&file.hash_key());
                for rows in chunks(0..*total, HASHES) {
                    let ids = IdColumn::checked(&hashes(seed, &rows))?;
                    seen.insert(&narrow, &ids, &Places { file: file.clone(), rows: rows.collect() })?;
                }
            }
            _ => {
                let mut open = narrow.open_alone(file)?;
                while let Some(piece) = open.next()? {
                    seen.insert(&narrow, &piece.ids, &piece.places)?;
                }
            }
        }
    }
    Ok(())
}

/// The error for an input in which more rows are done than there are IDs: reads it once more for examples. Where no ID
/// is there twice, statistics had rows for done that are not.
pub(super) fn find_repeats(rows: &Arc<Rows>, done: &Arc<dyn IdSet>, skipped: u64) -> Result<Error> {
    let narrow = rows.narrowed();
    let mut seen = Repeats::new(&narrow);
    let mut repeats = Vec::new();
    'files: for file in &narrow.files {
        let mut open = narrow.open_alone(file)?;
        while let Some(piece) = open.next()? {
            repeats.extend(seen.add(&piece.ids, &piece.places)?);
            if repeats.len() >= EXAMPLES {
                break 'files;
            }
        }
    }
    if repeats.is_empty() {
        drop(seen);
        return find_wrong_statistics(rows, done, skipped);
    }
    Ok(Error::bad_data(format!(
        "the input repeats IDs: at least {skipped} of its rows have one of the {} IDs that are done: {}",
        done.len(),
        with_places(&narrow, repeats)?
    ))
    .with_hint(
        "IDs must be unique in a job, or rows are taken for done that are not; --check-unique finds repeats at once",
    ))
}
