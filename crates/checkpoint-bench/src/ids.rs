//! The IDs of the comparisons: the same number always names the same ID, and two numbers never share one.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::DataType;
use checkpoint_store::row_hash;
use serde::{Deserialize, Serialize};

/// Rows of each file that row hashes are of.
const FILE_ROWS: u64 = 1_000_000;
const FIRST: u64 = 0x6368_6563_6b70_6f69;
const SECOND: u64 = 0x6265_6e63_686d_6172;

/// What names a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IdKind {
    /// Random 64-bit integers.
    Int64,
    /// Row hashes of files of a million rows each.
    RowHash,
    /// UUIDs as text, 36 characters.
    Uuid,
    /// Random 16 bytes.
    Binary16,
}

impl IdKind {
    /// As a table names it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Int64 => "int64, random",
            Self::RowHash => "row hash",
            Self::Uuid => "UUID text",
            Self::Binary16 => "16 random bytes",
        }
    }

    /// The column that they come in.
    pub(crate) fn column(self) -> &'static str {
        if self == Self::RowHash { "row_hash" } else { "id" }
    }

    /// Bytes of one in a record, and a little.
    pub(crate) fn disk_bytes(self) -> u64 {
        match self {
            Self::Int64 | Self::RowHash => 10,
            Self::Uuid => 24,
            Self::Binary16 => 18,
        }
    }

    /// Their Arrow type.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Int64 => DataType::Int64,
            Self::RowHash => DataType::UInt64,
            Self::Uuid => DataType::Utf8,
            Self::Binary16 => DataType::FixedSizeBinary(16),
        }
    }

    /// The IDs of these numbers.
    pub(crate) fn array(self, numbers: impl Iterator<Item = u64>) -> ArrayRef {
        match self {
            Self::Int64 => Arc::new(Int64Array::from_iter_values(numbers.map(|n| mixed(FIRST, n).cast_signed()))),
            Self::RowHash => {
                let mut file = (u64::MAX, 0);
                let hashes = numbers.map(|n| {
                    let number = n / FILE_ROWS;
                    if file.0 != number {
                        file = (number, row_hash::seed(&format!("bench/input/part-{number:06}.parquet")));
                    }
                    row_hash::hash(file.1, n % FILE_ROWS)
                });
                Arc::new(UInt64Array::from_iter_values(hashes))
            }
            Self::Uuid => Arc::new(StringArray::from_iter_values(numbers.map(uuid))),
            Self::Binary16 => {
                let bytes: Vec<u8> = numbers.flat_map(wide).collect();
                Arc::new(FixedSizeBinaryArray::new(16, bytes.into(), None))
            }
        }
    }
}

/// A bijection of the numbers, for each salt another.
pub(crate) fn mixed(salt: u64, number: u64) -> u64 {
    row_hash::hash(salt, number)
}

fn wide(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mixed(FIRST, number).to_le_bytes());
    bytes[8..].copy_from_slice(&mixed(SECOND, number).to_le_bytes());
    bytes
}

fn uuid(number: u64) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (i, byte) in wide(number).into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow::array::{Array, AsArray};

    use super::*;

    #[test]
    fn numbers_name_ids_and_never_the_same_one_twice() {
        let numbers = || (0..2000u64).map(|n| n * 997);
        for kind in [IdKind::Int64, IdKind::RowHash, IdKind::Uuid, IdKind::Binary16] {
            let ids = kind.array(numbers());
            assert_eq!(ids.data_type(), &kind.data_type());
            let shown: HashSet<String> =
                (0..ids.len()).map(|row| arrow::util::display::array_value_to_string(&ids, row).unwrap()).collect();
            assert_eq!(shown.len(), 2000, "{kind:?}");
        }
        let text = IdKind::Uuid.array([7].into_iter());
        assert_eq!(text.as_string::<i32>().value(0).len(), 36);
    }
}
