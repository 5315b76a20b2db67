//! The same IDs under another type.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::DataType;

use crate::error::{Error, Result};

/// The same values in another type; `None` when one of them does not come back the same.
pub fn same_ids(ids: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    if ids.data_type() == to {
        return Some(ids.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let there = cast_with_options(ids, to, &options).ok()?;
    let back = cast_with_options(&there, ids.data_type(), &options).ok()?;
    (back.as_ref() == ids.as_ref()).then_some(there)
}

/// Columns of IDs as one, in the first of their types that holds them all.
///
/// # Errors
/// `BadData` when none does.
pub(super) fn joined(columns: &[&ArrayRef]) -> Result<ArrayRef> {
    let fits = |to: &DataType| columns.iter().map(|ids| same_ids(ids, to)).collect::<Option<Vec<_>>>();
    let Some(columns) = columns.iter().find_map(|ids| fits(ids.data_type())) else {
        let types: BTreeSet<String> = columns.iter().map(|ids| ids.data_type().to_string()).collect();
        let types = types.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Error::bad_data(format!("no type holds all IDs of a task: types={types}"))
            .with_hint("make the input files agree on the type of the ID column"));
    };
    let arrays: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    concat(&arrays).map_err(|e| Error::bad_data(format!("the IDs of a task do not fit together: {e}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, UInt64Array};

    use super::*;

    #[test]
    fn ids_come_together_in_a_type_that_holds_them() {
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![3]));
        let huge: ArrayRef = Arc::new(Int64Array::from(vec![1_i64 << 40]));
        let top: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let together = |columns: &[&ArrayRef]| joined(columns).map(|ids| (ids.len(), ids.data_type().clone()));
        assert_eq!(together(&[&narrow, &wide]).unwrap(), (3, DataType::Int32));
        assert_eq!(together(&[&narrow, &huge]).unwrap(), (3, DataType::Int64));
        assert_eq!(together(&[&narrow, &top]).unwrap(), (3, DataType::UInt64));
        let below: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
        assert!(together(&[&below, &top]).is_err());
    }
}
