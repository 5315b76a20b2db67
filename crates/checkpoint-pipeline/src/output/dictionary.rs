//! One growing dictionary for each dictionary column of an Arrow IPC file.
//!
//! The file format allows a dictionary to grow from batch to batch, never to change. Batches that come
//! with dictionaries of their own are rewritten onto one that only grows. It is held in memory until the
//! file ends, as every reader of the file must hold it too.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    RecordBatch, StructArray, UInt64Array, new_empty_array,
};
use arrow::compute::{CastOptions, cast_with_options, concat, take};
use arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type, Schema, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

/// Rewrites batches onto growing dictionaries.
#[derive(Debug)]
pub(super) struct DictionaryMerger {
    /// In the order in which the walk over the schema meets them.
    dictionaries: Vec<Growing>,
}

#[derive(Debug)]
struct Growing {
    rows: RowConverter,
    places: HashMap<Box<[u8]>, u64>,
    values: ArrayRef,
    /// The last dictionary met, and the place of each of its values: batches often share one.
    last: Option<(ArrayRef, Vec<u64>)>,
}

impl DictionaryMerger {
    /// A merger for the dictionary columns of a schema, or `None` where there are none.
    pub(super) fn new(schema: &Schema) -> Result<Option<Self>, ArrowError> {
        let mut dictionaries = Vec::new();
        for field in schema.fields() {
            collect(field.data_type(), &mut dictionaries)?;
        }
        Ok((!dictionaries.is_empty()).then_some(Self { dictionaries }))
    }

    /// The same rows on the growing dictionaries.
    ///
    /// # Errors
    /// When a dictionary outgrows its key type.
    pub(super) fn merge(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let mut growing = self.dictionaries.iter_mut();
        let columns = batch.columns().iter().map(|column| rewrite(column, &mut growing));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(batch.schema(), columns)
    }
}

fn collect(data_type: &DataType, found: &mut Vec<Growing>) -> Result<(), ArrowError> {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => {
            let rows = RowConverter::new(vec![SortField::new(values.as_ref().clone())])?;
            found.push(Growing { rows, places: HashMap::new(), values: new_empty_array(values), last: None });
        }
        T::List(f) | T::LargeList(f) | T::FixedSizeList(f, _) | T::Map(f, _) => collect(f.data_type(), found)?,
        T::Struct(fields) => fields.iter().try_for_each(|f| collect(f.data_type(), found))?,
        _ => {}
    }
    Ok(())
}

fn rewrite<'g>(array: &ArrayRef, growing: &mut impl Iterator<Item = &'g mut Growing>) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    match array.data_type() {
        T::Dictionary(keys, _) => match growing.next() {
            Some(dictionary) => dictionary.adopt(array, keys),
            None => Ok(Arc::clone(array)),
        },
        T::List(field) => list::<i32>(array, field, growing),
        T::LargeList(field) => list::<i64>(array, field, growing),
        T::FixedSizeList(field, size) => {
            let from = array.as_fixed_size_list();
            let values = rewrite(from.values(), growing)?;
            Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, from.nulls().cloned())?))
        }
        T::Map(field, ordered) => {
            let from = array.as_map();
            let entries = structure(from.entries(), growing)?;
            let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *ordered)?))
        }
        T::Struct(_) => Ok(Arc::new(structure(array.as_struct(), growing)?)),
        _ => Ok(Arc::clone(array)),
    }
}

fn list<'g, O: OffsetSizeTrait>(
    array: &ArrayRef,
    field: &FieldRef,
    growing: &mut impl Iterator<Item = &'g mut Growing>,
) -> Result<ArrayRef, ArrowError> {
    let from = array.as_list::<O>();
    let values = rewrite(from.values(), growing)?;
    let (offsets, nulls) = (from.offsets().clone(), from.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}

fn structure<'g>(
    from: &StructArray,
    growing: &mut impl Iterator<Item = &'g mut Growing>,
) -> Result<StructArray, ArrowError> {
    let columns = from.columns().iter().map(|column| rewrite(column, growing)).collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(from.fields().clone(), columns, from.nulls().cloned(), from.len())
}

impl Growing {
    /// The array's rows as keys into this dictionary, which grows by the values that are new to it.
    fn adopt(&mut self, array: &ArrayRef, key_type: &DataType) -> Result<ArrayRef, ArrowError> {
        let from = array.as_any_dictionary();
        if !self.last.as_ref().is_some_and(|(values, _)| Arc::ptr_eq(values, from.values())) {
            let places = self.places_of(from.values())?;
            self.last = Some((Arc::clone(from.values()), places));
        }
        let places = self.last.as_ref().map_or(&[][..], |(_, places)| places);
        let keys: Vec<u64> = match places {
            [] => vec![0; from.len()],
            places => from.normalized_keys().into_iter().map(|key| places[key]).collect(),
        };
        let keys = UInt64Array::try_new(keys.into(), from.keys().nulls().cloned())?;
        let checked = CastOptions { safe: false, ..CastOptions::default() };
        let keys = cast_with_options(&keys, key_type, &checked).map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
        macro_rules! build {
            ($($key:ident => $type:ty),*) => {
                match key_type {
                    $(DataType::$key => self.build::<$type>(&keys),)*
                    other => Err(ArrowError::SchemaError(format!("{other} is no key type"))),
                }
            };
        }
        build!(Int8 => Int8Type, Int16 => Int16Type, Int32 => Int32Type, Int64 => Int64Type,
               UInt8 => UInt8Type, UInt16 => UInt16Type, UInt32 => UInt32Type, UInt64 => UInt64Type)
    }

    fn build<K: ArrowDictionaryKeyType>(&self, keys: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let keys = keys.as_primitive::<K>().clone();
        Ok(Arc::new(DictionaryArray::<K>::try_new(keys, Arc::clone(&self.values))?))
    }

    fn places_of(&mut self, values: &ArrayRef) -> Result<Vec<u64>, ArrowError> {
        let rows = self.rows.convert_columns(&[Arc::clone(values)])?;
        let mut places = Vec::with_capacity(values.len());
        let mut fresh = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            let place = match self.places.get(row.as_ref()) {
                Some(place) => *place,
                None => {
                    let place = (self.values.len() + fresh.len()) as u64;
                    self.places.insert(row.as_ref().into(), place);
                    fresh.push(i as u64);
                    place
                }
            };
            places.push(place);
        }
        if !fresh.is_empty() {
            let added = take(values, &UInt64Array::from(fresh), None)?;
            self.values = concat(&[self.values.as_ref(), added.as_ref()])?;
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int8Array, StringArray};
    use arrow::compute::cast;

    use super::*;

    fn dictionary(words: &[Option<&str>]) -> ArrayRef {
        let plain = StringArray::from(words.to_vec());
        cast(&plain, &DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))).expect("casts")
    }

    fn batch(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("c", array, true)]).expect("valid")
    }

    #[test]
    fn dictionaries_grow_and_rows_keep_their_values() {
        let first = batch(dictionary(&[Some("a"), Some("b"), None]));
        let mut merger = DictionaryMerger::new(first.schema_ref()).expect("valid").expect("has one");
        let mut known: Vec<String> = Vec::new();
        for words in [
            vec![Some("a"), Some("b"), None],
            vec![None, None],
            vec![Some("c"), Some("b"), Some("c")],
            vec![Some("b"), Some("a")],
        ] {
            let out = merger.merge(&batch(dictionary(&words))).expect("merges");
            let plain = cast(out.column(0), &DataType::Utf8).expect("casts");
            assert_eq!(plain.as_string::<i32>().iter().collect::<Vec<_>>(), words);
            let values = out.column(0).as_any_dictionary().values().as_string::<i32>().clone();
            let values: Vec<String> = values.iter().flatten().map(str::to_owned).collect();
            assert!(values.starts_with(&known), "{values:?} {known:?}");
            known = values;
        }
        assert_eq!(known, ["a", "b", "c"]);
    }

    #[test]
    fn a_key_type_that_is_too_small_is_an_error() {
        let words: Vec<String> = (0..200).map(|i| format!("w{i}")).collect();
        let parts: Vec<RecordBatch> = words
            .chunks(100)
            .map(|part| batch(dictionary(&part.iter().map(|w| Some(w.as_str())).collect::<Vec<_>>())))
            .collect();
        let mut merger = DictionaryMerger::new(parts[0].schema_ref()).expect("valid").expect("has one");
        merger.merge(&parts[0]).expect("fits");
        merger.merge(&parts[1]).expect_err("has 200 values");
    }

    #[test]
    fn schemas_without_dictionaries_need_no_merger() {
        let plain = RecordBatch::try_from_iter([("c", Arc::new(Int8Array::from(vec![1])) as ArrayRef)]).expect("valid");
        assert!(DictionaryMerger::new(plain.schema_ref()).expect("valid").is_none());
    }
}
