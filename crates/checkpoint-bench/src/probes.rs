//! Rows to filter: half of them are done, in no order, and which ones is known without any set.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;

use crate::ids::{IdKind, mixed};

/// Rows of a batch, for every side.
pub(crate) const BATCH: u64 = 65_536;
const SALT: u64 = 0x7072_6f62_6573_2121;

/// What a filter must keep: how many rows, and the sum of their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) rows: u64,
    pub(crate) sum: u64,
}

/// The number of the ID at a position, where those below `done` are done.
fn number(position: u64, done: u64) -> u64 {
    let random = mixed(SALT, position);
    let within = (random >> 1) % done;
    if random & 1 == 0 { within } else { done + within }
}

/// What remains of the first `rows` rows when the IDs below `done` are done.
pub(crate) fn expected(rows: u64, done: u64) -> Kept {
    let kept = (0..rows).filter(|position| number(*position, done) >= done);
    kept.fold(Kept { rows: 0, sum: 0 }, |kept, position| Kept { rows: kept.rows + 1, sum: kept.sum + position })
}

/// Writes so many rows as an Arrow file: the ID, and the position of the row.
pub(crate) fn write(path: &Path, kind: IdKind, rows: u64, done: u64) -> Result<()> {
    let batch = |start: u64| -> Result<RecordBatch> {
        let positions: Vec<u64> = (start..rows.min(start + BATCH)).collect();
        let ids = kind.array(positions.iter().map(|position| number(*position, done)));
        let row: ArrayRef =
            Arc::new(Int64Array::from_iter_values(positions.iter().map(|position| position.cast_signed())));
        Ok(RecordBatch::try_from_iter([(kind.column(), ids), ("row", row)])?)
    };
    let first = batch(0)?;
    let mut writer = FileWriter::try_new(BufWriter::new(File::create(path)?), &first.schema())?;
    writer.write(&first)?;
    for start in (BATCH..rows).step_by(BATCH as usize) {
        writer.write(&batch(start)?)?;
    }
    writer.finish()?;
    Ok(())
}

/// Reads them back, whole.
pub(crate) fn read(path: &Path) -> Result<Vec<RecordBatch>> {
    Ok(FileReader::try_new(File::open(path)?, None)?.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn half_is_done_and_what_remains_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("probes.arrow");
        let (rows, done) = (BATCH + 1000, 500);
        write(&path, IdKind::Int64, rows, done).unwrap();
        let ids = IdKind::Int64.array(0..done);
        let ids: std::collections::HashSet<i64> = ids.as_primitive::<Int64Type>().values().iter().copied().collect();
        let mut kept = Kept { rows: 0, sum: 0 };
        for batch in read(&path).unwrap() {
            let row = batch.column(1).as_primitive::<Int64Type>();
            for (id, row) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(row.values()) {
                if !ids.contains(id) {
                    kept = Kept { rows: kept.rows + 1, sum: kept.sum + row.cast_unsigned() };
                }
            }
        }
        assert_eq!(kept, expected(rows, done));
        assert!(kept.rows.abs_diff(rows / 2) < rows / 50, "{kept:?}");
    }
}
