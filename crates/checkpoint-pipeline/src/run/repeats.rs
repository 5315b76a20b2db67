//! IDs that occur more than once in the input.

use std::collections::HashMap;
use std::sync::Arc;

use checkpoint_store::{IdColumn, IdSet, show_id};

use super::feed::Rows;
use super::item::{Places, place};
use crate::error::{Error, Result};
use crate::input::SourceFile;

/// How many examples an error names.
const EXAMPLES: usize = 3;

/// Every ID seen so far, and where.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    seen: HashMap<Vec<u8>, (u32, u64)>,
    files: Vec<Arc<SourceFile>>,
}

impl Repeats {
    /// Takes IDs in.
    ///
    /// # Errors
    /// `BadData` naming both places of the first that was there already.
    pub(super) fn insert(&mut self, ids: &IdColumn, places: &Places) -> Result<()> {
        match self.add(ids, places).into_iter().next() {
            None => Ok(()),
            Some(example) => Err(Error::bad_data(format!("an ID occurs twice in the input: {example}"))
                .with_hint("IDs must be unique in a job; remove the repeated rows, or use --row-hash")),
        }
    }

    /// Takes IDs in; answers those that were there already, in words.
    fn add(&mut self, ids: &IdColumn, places: &Places) -> Vec<String> {
        if self.files.last().is_none_or(|last| !Arc::ptr_eq(last, &places.file)) {
            self.files.push(places.file.clone());
        }
        let file = (self.files.len() - 1) as u32;
        let mut found = Vec::new();
        for (row, key) in ids.canonical_keys().enumerate() {
            let here = places.rows.get(row).copied().unwrap_or_default();
            if let Some((first_file, first_row)) = self.seen.insert(key, (file, here)) {
                let first = place(&self.files[first_file as usize], first_row);
                let text = format!("id={} at={first} and at={}", show_id(ids.array(), row), places.show(row));
                if found.len() < EXAMPLES {
                    found.push(text);
                }
            }
        }
        found
    }
}

/// The error for an input in which more rows are done than there are IDs: reads it once more for examples.
pub(super) fn find_repeats(rows: &Arc<Rows>, done: &dyn IdSet, skipped: u64) -> Result<Error> {
    let narrow = rows.narrowed();
    let mut repeats = Repeats::default();
    let mut examples = Vec::new();
    'files: for file in &narrow.files {
        let mut open = narrow.open(file)?;
        while let Some(piece) = open.next()? {
            examples.extend(repeats.add(&piece.ids, &piece.places));
            if examples.len() >= EXAMPLES {
                break 'files;
            }
        }
    }
    examples.truncate(EXAMPLES);
    Ok(Error::bad_data(format!(
        "the input repeats IDs: at least {skipped} of its rows have one of the {} IDs that are done: {}",
        done.len(),
        examples.join("; ")
    ))
    .with_hint(
        "IDs must be unique in a job, or rows are taken for done that are not; --check-unique finds repeats at once",
    ))
}
