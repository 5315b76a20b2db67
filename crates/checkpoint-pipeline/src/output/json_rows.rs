//! Rows as JSON objects, exactly: what JSON cannot hold is an error and never another value.

use std::io;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Float16Type, Float32Type, Float64Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::zones::in_utc;
use crate::error::{Error, Result};

/// Writes the rows of a batch as JSON objects.
///
/// Every column is in every row, with `null` where it has no value. Integers and decimals are numbers with
/// all their digits, floats the shortest text that reads back the same, binary lower-case hex, dates and
/// times ISO 8601 (timestamps with a zone in UTC), lists arrays, structs and maps objects.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JsonRows {
    shows: bool,
}

/// Why rows could not be written.
#[derive(Debug)]
pub(crate) enum JsonRowsError {
    /// A value has no JSON form.
    Value(Error),
    /// The receiver of the rows failed.
    Receiver(io::Error),
}

impl JsonRows {
    /// Rows whose values without a JSON form, and unions, become texts that show them.
    pub(crate) fn showing(shows: bool) -> Self {
        Self { shows }
    }

    /// Whether they are [`showing`](Self::showing).
    pub(crate) fn shows(self) -> bool {
        self.shows
    }

    /// Checks that every column has a type that JSON can hold.
    ///
    /// # Errors
    /// `BadData` that names the first column that has not.
    pub(crate) fn check(self, schema: &SchemaRef) -> Result<()> {
        match self.encode(&RecordBatch::new_empty(Arc::clone(schema)), |_, _| Ok(())) {
            Err(JsonRowsError::Value(error)) => Err(error),
            Err(JsonRowsError::Receiver(_)) | Ok(()) => Ok(()),
        }
    }

    /// Gives each row's text, without a line end, to `each` in a buffer that `each` may extend and empty.
    ///
    /// # Errors
    /// What `each` returns; `BadData` that names column and row for a value without a JSON form: a float
    /// that is no number, a date out of range.
    pub(crate) fn encode(
        self,
        batch: &RecordBatch,
        mut each: impl FnMut(usize, &mut Vec<u8>) -> io::Result<()>,
    ) -> Result<(), JsonRowsError> {
        let batch = in_utc(batch).map_err(|e| JsonRowsError::Value(Error::bad_data(e.to_string())))?;
        let schema = batch.schema();
        let problem = Problem { shows: self.shows, first: Arc::default() };
        let options = problem.options();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let encoder = make_encoder(field, array.as_ref(), &options)
                .map_err(|e| JsonRowsError::Value(unsupported(field, &e)))?;
            let key = serde_json::to_string(field.name()).map_err(|e| JsonRowsError::Receiver(e.into()))?;
            columns.push((key, encoder, array.logical_nulls(), field.name()));
        }
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            let mut open = b'{';
            for (key, encoder, nulls, name) in &mut columns {
                text.push(open);
                open = b',';
                text.extend_from_slice(key.as_bytes());
                text.push(b':');
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    text.extend_from_slice(b"null");
                    continue;
                }
                encoder.encode(row, &mut text);
                if let Some(what) = problem.first.get() {
                    return Err(JsonRowsError::Value(
                        Error::bad_data(format!("a value has no JSON form: {what}, column={name} row={row}"))
                            .with_hint("write Parquet or Arrow instead, or replace such values by null"),
                    ));
                }
            }
            text.extend_from_slice(if columns.is_empty() { b"{}" } else { b"}" });
            each(row, &mut text).map_err(JsonRowsError::Receiver)?;
        }
        Ok(())
    }
}

fn unsupported(field: &FieldRef, error: &ArrowError) -> Error {
    Error::bad_data(format!(
        "a column's type has no JSON form: {error}, column={} type={}",
        field.name(),
        field.data_type()
    ))
    .with_hint("write Parquet or Arrow instead, or convert the column")
}

/// The first value that could not be written. Encoders cannot fail, so they leave a note here.
#[derive(Debug, Clone)]
struct Problem {
    first: Arc<OnceLock<String>>,
    shows: bool,
}

impl Problem {
    fn options(&self) -> EncoderOptions {
        EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(self.clone()))
    }

    fn note(&self, what: &str, out: &mut Vec<u8>) {
        if !self.shows {
            let _ = self.first.set(what.to_owned());
        } else if let Ok(text) = serde_json::to_string(what) {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl EncoderFactory for Problem {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                Box::new(Floats { array, problem: self.clone() })
            }
            data_type if data_type.is_temporal() => {
                let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
                Box::new(Times { formatter, problem: self.clone() })
            }
            DataType::Union(..) if self.shows => {
                let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
                Box::new(Shown { formatter, problem: self.clone() })
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Floats<'a> {
    array: &'a dyn Array,
    problem: Problem,
}

impl Floats<'_> {
    fn put(&self, value: f64, text: serde_json::Result<String>, out: &mut Vec<u8>) {
        match text {
            Ok(text) if value.is_finite() => out.extend_from_slice(text.as_bytes()),
            _ => self.problem.note(&value.to_string(), out),
        }
    }
}

impl Encoder for Floats<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        // The width matters: the shortest text of a 32-bit float is not that of the same 64-bit value.
        let narrow = match self.array.data_type() {
            DataType::Float16 => self.array.as_primitive::<Float16Type>().value(row).to_f32(),
            DataType::Float32 => self.array.as_primitive::<Float32Type>().value(row),
            _ => {
                let value = self.array.as_primitive::<Float64Type>().value(row);
                return self.put(value, serde_json::to_string(&value), out);
            }
        };
        self.put(narrow.into(), serde_json::to_string(&narrow), out);
    }
}

struct Times<'a> {
    formatter: ArrayFormatter<'a>,
    problem: Problem,
}

impl Encoder for Times<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        match self.formatter.value(row).try_to_string() {
            Ok(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            Err(error) => self.problem.note(&error.to_string(), out),
        }
    }
}

struct Shown<'a> {
    formatter: ArrayFormatter<'a>,
    problem: Problem,
}

impl Encoder for Shown<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.problem.note(&self.formatter.value(row).to_string(), out);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::*;
    use arrow::datatypes::{Field, Int32Type, IntervalUnit, Schema, TimeUnit, UnionFields, UnionMode};

    use super::*;

    fn lines(batch: &RecordBatch) -> Vec<String> {
        let mut lines = Vec::new();
        JsonRows::default()
            .encode(batch, |_, text| {
                lines.push(String::from_utf8(std::mem::take(text)).expect("is UTF-8"));
                Ok(())
            })
            .expect("encodes");
        lines
    }

    fn one(array: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", array)]).expect("valid")
    }

    #[test]
    fn numbers_keep_all_their_digits() {
        let batch = RecordBatch::try_from_iter([
            ("i", Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN])) as ArrayRef),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 9_007_199_254_740_993]))),
            ("f", Arc::new(Float64Array::from(vec![0.1, -0.0]))),
            ("g", Arc::new(Float32Array::from(vec![0.1, 3.4e38]))),
            (
                "d",
                Arc::new(
                    Decimal128Array::from(vec![123_456_789_012_345_678_901_234_567_890, -5])
                        .with_precision_and_scale(38, 2)
                        .expect("valid"),
                ),
            ),
        ])
        .expect("valid");
        assert_eq!(
            lines(&batch),
            [
                r#"{"i":9223372036854775807,"u":18446744073709551615,"f":0.1,"g":0.1,"d":1234567890123456789012345678.90}"#,
                r#"{"i":-9223372036854775808,"u":9007199254740993,"f":-0.0,"g":3.4e+38,"d":-0.05}"#,
            ]
        );
    }

    #[test]
    fn nulls_are_explicit_even_those_of_dictionaries_and_structs() {
        let values = StringArray::from(vec![Some("a\"\u{e9}\n"), None]);
        let keys = Int32Array::from(vec![Some(0), Some(1), None]);
        assert_eq!(
            lines(&one(Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values))))),
            ["{\"c\":\"a\\\"\u{e9}\\n\"}", r#"{"c":null}"#, r#"{"c":null}"#]
        );
        let inner = Arc::new(Int32Array::from(vec![Some(1), None]));
        let pair = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int32, true)), inner as ArrayRef)]);
        assert_eq!(lines(&one(Arc::new(pair))), [r#"{"c":{"x":1}}"#, r#"{"c":{"x":null}}"#]);
        assert_eq!(lines(&one(Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]])))), [r#"{"c":"00ff"}"#]);
    }

    #[test]
    fn zones_are_written_in_utc_at_any_depth() {
        let stamps = TimestampMillisecondArray::from(vec![1_700_000_000_123]).with_timezone("Europe/Paris");
        assert_eq!(lines(&one(Arc::new(stamps.clone()))), [r#"{"c":"2023-11-14T22:13:20.123Z"}"#]);
        let field = Arc::new(Field::new("item", stamps.data_type().clone(), true));
        let list = ListArray::new(field, arrow::buffer::OffsetBuffer::from_lengths([1]), Arc::new(stamps), None);
        assert_eq!(lines(&one(Arc::new(list))), [r#"{"c":["2023-11-14T22:13:20.123Z"]}"#]);
    }

    #[test]
    fn what_json_cannot_hold_is_an_error_that_names_column_and_row() {
        let bad: [ArrayRef; 4] = [
            Arc::new(Float64Array::from(vec![1.0, f64::NAN])),
            Arc::new(Float32Array::from(vec![1.0, f32::INFINITY])),
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
                Some(vec![Some(1.0)]),
                Some(vec![Some(f64::NEG_INFINITY)]),
            ])),
            Arc::new(TimestampSecondArray::from(vec![0, i64::MAX])),
        ];
        for array in bad {
            let mut seen = 0;
            let result = JsonRows::default().encode(&one(array), |_, text| {
                text.clear();
                seen += 1;
                Ok(())
            });
            let Err(JsonRowsError::Value(error)) = result else { panic!("{result:?}") };
            assert!(error.to_string().ends_with("column=c row=1"), "{error}");
            assert_eq!(seen, 1);
        }
        let odd = RecordBatch::try_from_iter([
            ("f", Arc::new(Float64Array::from(vec![f64::NAN])) as ArrayRef),
            ("t", Arc::new(TimestampSecondArray::from(vec![i64::MAX]))),
        ]);
        let mut shown = Vec::new();
        let row = |_, text: &mut Vec<u8>| {
            shown.append(text);
            Ok(())
        };
        assert!(JsonRows::showing(true).encode(&odd.expect("valid"), row).is_ok());
        let shown: serde_json::Value = serde_json::from_slice(&shown).expect("is JSON");
        assert_eq!(shown["f"], "NaN");
        assert!(shown["t"].as_str().expect("is a text").contains(&i64::MAX.to_string()), "{shown}");
        let under_a_null = Float64Array::new(vec![f64::NAN].into(), Some(vec![false].into()));
        assert_eq!(lines(&one(Arc::new(under_a_null))), [r#"{"c":null}"#]);
    }

    #[test]
    fn types_without_a_json_form_are_found_before_the_first_row() {
        let union = DataType::Union(
            UnionFields::try_new([0], [Field::new("x", DataType::Int8, true)]).expect("valid"),
            UnionMode::Sparse,
        );
        let error = JsonRows::default()
            .check(&Arc::new(Schema::new(vec![Field::new("u", union.clone(), true)])))
            .expect_err("no form");
        assert!(error.to_string().contains("column=u"), "{error}");
        JsonRows::showing(true).check(&Arc::new(Schema::new(vec![Field::new("u", union, true)]))).expect("is shown");
        let fine = [
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Asia/Tokyo".into())),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::BinaryView,
        ];
        let fields: Vec<Field> =
            fine.into_iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t, true)).collect();
        JsonRows::default().check(&Arc::new(Schema::new(fields))).expect("have one");
    }
}
