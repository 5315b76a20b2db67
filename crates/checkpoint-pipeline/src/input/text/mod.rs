//! Text.
use arrow::datatypes::SchemaRef;

/// Schemas.
#[derive(Debug, Clone, Default)]
pub struct TextSchemas {
    /// J
    pub json_lines: Option<SchemaRef>,
}
