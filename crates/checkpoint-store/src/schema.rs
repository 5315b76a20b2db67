//! The schema of a job's output, as records spell it.

use arrow::datatypes::Schema;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::error::{Error, Result};

/// Spells a schema for [`RecordFacts::output_schema`](crate::RecordFacts::output_schema).
pub fn encode_schema(schema: &Schema) -> String {
    let options = arrow::ipc::writer::IpcWriteOptions::default();
    let bare = Schema::new(schema.fields().clone());
    let mut tracker = arrow::ipc::writer::DictionaryTracker::new(true);
    let message = arrow::ipc::writer::IpcDataGenerator::default()
        .schema_to_bytes_with_dictionary_tracker(&bare, &mut tracker, &options)
        .ipc_message;
    BASE64_STANDARD.encode(message)
}

/// Reads what [`encode_schema`] wrote.
///
/// # Errors
/// `BadData` when it is not that.
pub fn decode_schema(text: &str) -> Result<Schema> {
    let broken = || Error::bad_data("the output schema in a record is damaged");
    let bytes = BASE64_STANDARD.decode(text).map_err(|e| broken().with_source(e))?;
    let message = arrow::ipc::root_as_message(&bytes).map_err(|e| broken().with_source(e.to_string()))?;
    arrow::ipc::convert::try_fb_to_schema(message.header_as_schema().ok_or_else(broken)?)
        .map_err(|e| broken().with_source(e))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn schemas_survive_their_spelling() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into()), true),
            Field::new("b", DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true))), false),
        ]);
        let read = decode_schema(&encode_schema(&schema)).unwrap();
        assert_eq!(read.field(1), schema.field(1));
        assert_eq!(read.field(0).data_type(), schema.field(0).data_type());
        assert!(decode_schema("%%%").is_err());
    }
}
