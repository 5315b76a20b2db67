//! Whether two schemas are the same columns, and how they differ.

use arrow::datatypes::{DataType, Field, FieldRef, Schema};

/// How `got` differs from `expected`, in words that name each column; `None` when it does not.
///
/// Columns are compared by name, so another order is no difference, and by type. Nullability, metadata and
/// the names of list items are no part of a type here, and a column of type `Null` (all its values are
/// null) fits any other.
pub fn schema_drift(expected: &Schema, got: &Schema) -> Option<String> {
    let missing = expected.fields().iter().filter(|f| got.column_with_name(f.name()).is_none());
    let new = got.fields().iter().filter(|f| expected.column_with_name(f.name()).is_none());
    let changed = got.fields().iter().filter_map(|field| {
        let (_, before) = expected.column_with_name(field.name())?;
        (!fits(field.data_type(), before.data_type()))
            .then(|| format!("`{}` (was {}, is {})", field.name(), before.data_type(), field.data_type()))
    });
    let described = |f: &FieldRef| format!("`{}` ({})", f.name(), f.data_type());
    let groups = [
        ("missing columns", missing.map(|f| format!("`{}`", f.name())).collect::<Vec<_>>()),
        ("new columns", new.map(described).collect()),
        ("changed types", changed.collect()),
        ("columns twice", repeated(got).map(|f| format!("`{}`", f.name())).collect()),
    ];
    let parts: Vec<String> =
        groups.iter().filter(|(_, c)| !c.is_empty()).map(|(what, c)| format!("{what}: {}", c.join(", "))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Columns whose name an earlier one has.
pub(super) fn repeated(schema: &Schema) -> impl Iterator<Item = &FieldRef> {
    let fields = schema.fields();
    fields.iter().enumerate().filter(|(i, f)| fields[..*i].iter().any(|e| e.name() == f.name())).map(|(_, f)| f)
}

/// Whether data of type `got` can stand, value for value, in a column of type `expected`.
fn fits(got: &DataType, expected: &DataType) -> bool {
    use DataType as T;
    let child = |g: &Field, e: &Field| fits(g.data_type(), e.data_type());
    match (got, expected) {
        (T::Null, _) => true,
        (T::List(g), T::List(e))
        | (T::LargeList(g), T::LargeList(e))
        | (T::ListView(g), T::ListView(e))
        | (T::LargeListView(g), T::LargeListView(e)) => child(g, e),
        (T::FixedSizeList(g, n), T::FixedSizeList(e, m)) => n == m && child(g, e),
        (T::Map(g, s), T::Map(e, t)) => s == t && entries_fit(g, e),
        (T::Dictionary(gk, g), T::Dictionary(ek, e)) => gk == ek && fits(g, e),
        (T::Struct(g), T::Struct(e)) => {
            g.len() == e.len() && e.iter().all(|e| g.find(e.name()).is_some_and(|(_, g)| child(g, e)))
        }
        (g, e) => g == e,
    }
}

/// Map entries are a key and a value, whatever they are called.
fn entries_fit(got: &Field, expected: &Field) -> bool {
    let (DataType::Struct(g), DataType::Struct(e)) = (got.data_type(), expected.data_type()) else { return false };
    g.len() == e.len() && g.iter().zip(e).all(|(g, e)| fits(g.data_type(), e.data_type()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::TimeUnit;

    use super::*;

    fn schema(fields: Vec<Field>) -> Schema {
        Schema::new(fields)
    }

    #[test]
    fn each_column_that_differs_is_named() {
        let before = schema(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("text", DataType::Utf8, true),
            Field::new("score", DataType::Float64, true),
        ]);
        let after = schema(vec![
            Field::new("score", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
            Field::new("label", DataType::Boolean, true),
        ]);
        assert_eq!(
            schema_drift(&before, &after).expect("differs"),
            "missing columns: `text`; new columns: `label` (Boolean); changed types: `score` (was Float64, is Utf8)"
        );
        assert_eq!(schema_drift(&before, &before), None);
        let twice = schema(vec![before.field(0).clone(), before.field(0).clone()]);
        assert_eq!(
            schema_drift(&schema(vec![before.field(0).clone()]), &twice).expect("differs"),
            "columns twice: `id`"
        );
    }

    #[test]
    fn labels_order_and_nullability_are_no_difference_but_inner_types_are() {
        let list = |name: &str, nullable: bool, t: DataType| DataType::List(Arc::new(Field::new(name, t, nullable)));
        let row = |a: DataType| {
            DataType::Struct(vec![Field::new("x", a, true), Field::new("y", DataType::Utf8, true)].into())
        };
        let swapped = DataType::Struct(
            vec![Field::new("y", DataType::Utf8, false), Field::new("x", DataType::Int8, true)].into(),
        );
        let one = |t: DataType| schema(vec![Field::new("c", t, true)]);
        let same = [
            (list("item", true, DataType::Int8), list("element", false, DataType::Int8)),
            (row(DataType::Int8), swapped),
            (row(DataType::Int8), row(DataType::Null)),
            (list("item", true, DataType::Utf8), DataType::Null),
        ];
        for (expected, got) in same {
            assert_eq!(schema_drift(&one(expected), &one(got)), None);
        }
        let different = [
            (list("item", true, DataType::Int8), list("item", true, DataType::Int16)),
            (DataType::Utf8, DataType::LargeUtf8),
            (DataType::Null, DataType::Utf8),
            (row(DataType::Int8), row(DataType::Int16)),
            (DataType::Timestamp(TimeUnit::Second, None), DataType::Timestamp(TimeUnit::Second, Some("+00:00".into()))),
        ];
        for (expected, got) in different {
            assert!(schema_drift(&one(expected.clone()), &one(got.clone())).is_some(), "{expected} {got}");
        }
    }
}
