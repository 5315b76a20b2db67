//! Batches as JSON lines: a line for each row to the child, a line for each of these back.

use std::io::{self, Write};

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::exchange::Early;
use super::wire::to_wire;
use crate::output::{JsonRows, JsonRowsError};
use crate::transform::{Batch, TransformError};

/// The member that carries the batch's key and the row's place.
pub(super) const CKPT: &str = "_ckpt";

/// Writes a batch as lines.
pub(super) fn encode(batch: &Batch, mut out: impl Write) -> Result<(), TransformError> {
    if batch.records.column_by_name(CKPT).is_some() {
        return Err(TransformError::new(format!("the input has a column of a reserved name: column={CKPT}"))
            .with_hint("rename the column, or use the arrow format"));
    }
    let key = serde_json::to_string(&batch.idempotency_key).map_err(TransformError::from_error)?;
    let rows = batch.records.num_rows();
    let records = to_wire(&batch.records).map_err(TransformError::from_error)?;
    let line = |row: usize, text: &mut Vec<u8>| -> io::Result<()> {
        text.pop();
        if text.len() > 1 {
            text.push(b',');
        }
        writeln!(text, r#""{CKPT}":{{"idempotency_key":{key},"row":{row},"rows":{rows}}}}}"#)?;
        out.write_all(text)?;
        text.clear();
        Ok(())
    };
    JsonRows::default().encode(&records, line).map_err(|error| match error {
        JsonRowsError::Value(error) => {
            TransformError::new(error.to_string()).with_hint("use the arrow format, which holds every value")
        }
        JsonRowsError::Receiver(error) => TransformError::from_error(error),
    })?;
    out.flush().map_err(TransformError::from_error)
}

/// The lines of an answer, without their ends, in one buffer.
#[derive(Debug, Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The output ended with a line that no line break ended.
    pub(super) unterminated: bool,
}

impl Lines {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    fn end_line(&mut self) {
        self.ends.push(self.text.len());
    }
}

/// Reads as many lines as there are rows. A last line may end with the output instead of a line break.
pub(super) async fn read(input: &mut (impl AsyncBufRead + Unpin), rows: usize) -> Result<Lines, Early> {
    let mut lines = Lines::default();
    while lines.ends.len() < rows {
        let before = lines.text.len();
        let got = input.read_until(b'\n', &mut lines.text).await?;
        let complete = lines.text.last() == Some(&b'\n') && got > 0;
        if complete {
            lines.text.pop();
            lines.end_line();
            lines.text.push(b'\n');
        } else if got > 0 && lines.ends.len() + 1 == rows {
            lines.end_line();
            lines.unterminated = true;
        } else {
            let answers = lines.ends.len();
            let any = answers > 0 || lines.text.len() > before;
            return Err(Early::Ended { any, progress: format!("after {answers} of {rows} answers") });
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, DurationSecondArray, Float64Array, Int64Array, RecordBatch, StringArray};

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> Batch {
        Batch::new(RecordBatch::try_from_iter(columns).expect("valid"), "k\"1")
    }

    #[test]
    fn each_row_is_a_line_with_its_place() {
        let mut out = Vec::new();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("t", Arc::new(StringArray::from(vec![Some("a\nb"), None]))),
            ("d", Arc::new(DurationSecondArray::from(vec![5, 6]))),
        ];
        encode(&batch(columns), &mut out).expect("encodes");
        assert_eq!(
            String::from_utf8(out).expect("is UTF-8"),
            "{\"id\":1,\"t\":\"a\\nb\",\"d\":5,\"_ckpt\":{\"idempotency_key\":\"k\\\"1\",\"row\":0,\"rows\":2}}\n\
             {\"id\":2,\"t\":null,\"d\":6,\"_ckpt\":{\"idempotency_key\":\"k\\\"1\",\"row\":1,\"rows\":2}}\n"
        );
    }

    #[test]
    fn a_reserved_name_and_values_without_a_form_are_refused() {
        let reserved = batch(vec![(CKPT, Arc::new(Int64Array::from(vec![1])))]);
        assert!(encode(&reserved, io::sink()).expect_err("is reserved").to_string().contains("column=_ckpt"));
        let odd = batch(vec![("score", Arc::new(Float64Array::from(vec![f64::NAN])))]);
        assert!(encode(&odd, io::sink()).expect_err("has no form").to_string().contains("column=score"));
    }

    #[tokio::test]
    async fn lines_are_counted_and_an_early_end_is_told() {
        let mut input = &b"{}\n\nlast"[..];
        let lines = read(&mut input, 2).await.expect("has two");
        assert_eq!(lines.iter().collect::<Vec<_>>(), [&b"{}"[..], b""]);
        assert!(!lines.unterminated);
        assert_eq!(input, b"last");
        let lines = read(&mut &b"a\nb"[..], 2).await.expect("has two");
        assert!(lines.unterminated);
        assert_eq!(lines.iter().collect::<Vec<_>>(), [b"a", b"b"]);
        for (text, rows, some) in [(&b""[..], 1, false), (b"a", 2, true), (b"a\n", 2, true), (b"a\nb", 3, true)] {
            match read(&mut &text[..], rows).await {
                Err(Early::Ended { any, .. }) => assert_eq!(any, some),
                other => panic!("{other:?}"),
            }
        }
    }
}
