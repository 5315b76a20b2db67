//! What a transform owes: the ID column, unchanged, on every row that it gives back.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use checkpoint_store::{IdColumn, show_id};

use crate::error::{Error, Result};

/// Checks the output of one batch: rows may be dropped and multiplied, but each carries the ID of an input
/// row of the same batch, in a column of the same name and type.
///
/// # Errors
/// `BadData` that says what became of the ID column.
pub(super) fn check(id_column: &str, input: &IdColumn, outputs: &[RecordBatch]) -> Result<()> {
    let mut known: Option<HashSet<Vec<u8>>> = None;
    for output in outputs.iter().filter(|o| o.num_rows() > 0) {
        let broken = |what: String| {
            Err(Error::bad_data(format!("the transform {what}: column={id_column}")).with_hint(
                "a transform must give back the ID column as it got it; drop, rename or change other columns",
            ))
        };
        let Some(array) = output.column_by_name(id_column) else {
            let columns: Vec<&str> = output.schema_ref().fields().iter().take(20).map(|f| f.name().as_str()).collect();
            return broken(format!("dropped or renamed the ID column; it gave [{}]", columns.join(", ")));
        };
        if is_same(array, input.array()) {
            continue;
        }
        let ids = match IdColumn::try_new(array) {
            Ok(Ok(ids)) if ids.class() == input.class() => ids,
            Ok(Ok(ids)) => {
                return broken(format!("changed the type of the IDs from {} to {}", input.class(), ids.class()));
            }
            Ok(Err(problem)) => return broken(format!("damaged an ID ({problem} of its output)")),
            Err(error) => return broken(format!("changed the type of the IDs ({error})")),
        };
        if ids.array().as_ref() == input.array().as_ref() {
            continue;
        }
        let known = known.get_or_insert_with(|| input.canonical_keys().collect());
        if let Some(row) = ids.canonical_keys().position(|key| !known.contains(&key)) {
            return broken(format!(
                "changed an ID: {} is not among the {} of its batch",
                show_id(ids.array(), row),
                input.len()
            ));
        }
    }
    Ok(())
}

/// Whether two arrays share their memory, and so their values: as when a transform passes a column on.
fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    Arc::ptr_eq(a, b) || (a.data_type() == b.data_type() && a.to_data().ptr_eq(&b.to_data()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, StringArray};

    use super::*;

    fn ids(values: &[i64]) -> IdColumn {
        let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        IdColumn::try_new(&array).unwrap().unwrap()
    }

    fn output(name: &str, array: impl Array + 'static) -> Vec<RecordBatch> {
        vec![RecordBatch::try_from_iter([(name, Arc::new(array) as ArrayRef)]).unwrap()]
    }

    #[test]
    fn rows_may_be_dropped_and_multiplied() {
        let input = ids(&[1, 2, 3]);
        assert!(check("id", &input, &[]).is_ok());
        assert!(check("id", &input, &output("id", Int64Array::from(vec![3, 3, 1]))).is_ok());
        assert!(check("id", &input, &output("id", Int32Array::from(vec![2]))).is_ok());
        assert!(check("id", &input, &output("x", Int64Array::from(Vec::<i64>::new()))).is_ok(), "no row, no column");
    }

    #[test]
    fn the_id_column_must_come_back() {
        let input = ids(&[1, 2, 3]);
        for (bad, says) in [
            (output("uid", Int64Array::from(vec![1])), "dropped or renamed"),
            (output("id", StringArray::from(vec!["1"])), "changed the type"),
            (output("id", Int64Array::from(vec![4])), "changed an ID: 4"),
            (output("id", Int64Array::from(vec![Some(1), None])), "damaged an ID"),
        ] {
            let error = check("id", &input, &bad).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
