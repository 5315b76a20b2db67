//! The types that can be IDs, grouped by what compares with what.

use std::fmt;

use arrow::datatypes::{DataType, Fields};

use crate::error::{Error, Result};

/// A group of Arrow types whose values compare with each other. Integer widths compare by value, text and
/// binary whatever their encoding; a text never equals a number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdClass {
    /// Signed and unsigned integers of every width.
    Integer,
    /// Strings: plain, large, view, dictionary.
    Text,
    /// Bytes: plain, large, view, fixed size.
    Binary,
    /// Booleans.
    Boolean,
    /// Decimals of one scale.
    Decimal(i8),
    /// Days.
    Date,
    /// Times of day.
    Time,
    /// Instants (with a time zone) or local times (without).
    Timestamp {
        /// Whether the type has a time zone.
        zoned: bool,
    },
    /// Structs of the above, by field name and order.
    Struct(Vec<(String, IdClass)>),
}

impl IdClass {
    /// The class of an Arrow type.
    ///
    /// # Errors
    /// `BadData` for floats (they do not compare exactly) and for types that cannot name a row.
    pub fn of(data_type: &DataType) -> Result<Self> {
        Ok(match data_type {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Integer,
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Self::Integer,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Binary
            }
            DataType::Boolean => Self::Boolean,
            DataType::Decimal32(_, s)
            | DataType::Decimal64(_, s)
            | DataType::Decimal128(_, s)
            | DataType::Decimal256(_, s) => Self::Decimal(*s),
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, zone) => Self::Timestamp { zoned: zone.is_some() },
            DataType::Dictionary(_, value) => Self::of(value)?,
            DataType::RunEndEncoded(_, values) => Self::of(values.data_type())?,
            DataType::Struct(fields) if !fields.is_empty() => Self::of_fields(fields)?,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                return Err(Error::bad_data(format!("a floating-point column cannot be the ID: type={data_type}"))
                    .with_hint("floats do not compare exactly; use an integer or string ID, or row hashes"));
            }
            _ => {
                return Err(Error::bad_data(format!("this type cannot be the ID: type={data_type}")).with_hint(
                    "IDs are integers, strings, binaries, decimals, dates, times, timestamps, booleans, or structs of these",
                ));
            }
        })
    }

    fn of_fields(fields: &Fields) -> Result<Self> {
        let classes = fields.iter().map(|f| Ok((f.name().clone(), Self::of(f.data_type())?)));
        Ok(Self::Struct(classes.collect::<Result<_>>()?))
    }
}

/// The spelling kept in `job.json`; equal spellings compare.
impl fmt::Display for IdClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer => f.write_str("integer"),
            Self::Text => f.write_str("text"),
            Self::Binary => f.write_str("binary"),
            Self::Boolean => f.write_str("boolean"),
            Self::Decimal(scale) => write!(f, "decimal({scale})"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time"),
            Self::Timestamp { zoned: true } => f.write_str("instant"),
            Self::Timestamp { zoned: false } => f.write_str("timestamp"),
            Self::Struct(fields) => {
                f.write_str("struct(")?;
                for (i, (name, class)) in fields.iter().enumerate() {
                    write!(f, "{}{name:?}: {class}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn widths_and_encodings_share_a_class_and_floats_have_none() {
        let of = |t: DataType| IdClass::of(&t).map(|c| c.to_string()).unwrap_or_default();
        assert_eq!(of(DataType::Int32), of(DataType::UInt64));
        assert_eq!(of(DataType::Utf8View), of(DataType::Dictionary(DataType::Int8.into(), DataType::LargeUtf8.into())));
        assert_ne!(of(DataType::Utf8), of(DataType::Binary));
        assert_ne!(of(DataType::Decimal128(10, 2)), of(DataType::Decimal128(10, 3)));
        let zoned = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
        assert_ne!(of(zoned), of(DataType::Timestamp(TimeUnit::Second, None)));
        for refused in [DataType::Float64, DataType::Null, DataType::Struct(Fields::empty())] {
            assert!(IdClass::of(&refused).is_err(), "{refused}");
        }
    }
}
