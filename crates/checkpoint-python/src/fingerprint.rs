//! Who a job is: what its engine says, and what earlier attempts have recorded.

use std::time::UNIX_EPOCH;

use arrow::datatypes::{DataType, Field};
use checkpoint_fs::StorageRef;
use checkpoint_pipeline::ROW_HASH_COLUMN;
use checkpoint_pipeline::input::{SourceFile, discover};
use checkpoint_store::{Checkpoint, Error, Fingerprint, IdClass, InputFile, Result};
use pyo3::prelude::*;

use crate::capsule::{import, import_type};
use crate::places::Places;

/// What the engine says of its job. What it does not say is as it was recorded.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Job {
    id_column: Option<String>,
    id_type: Option<IdType>,
    row_hash: bool,
    inputs: Option<Vec<String>>,
    filter: Option<String>,
    version: Option<String>,
}

/// The type of the IDs, of an Arrow type or of a column of them.
pub(crate) struct IdType(DataType);

impl<'py> FromPyObject<'_, 'py> for IdType {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let object = object.to_owned();
        let field = match import_type(&object)? {
            Some(field) => field,
            None => Field::clone(&import(&object)?.field),
        };
        Ok(Self(field.data_type().clone()))
    }
}

impl Job {
    /// The job's fingerprint.
    ///
    /// # Errors
    /// `InvalidConfig` when the ID column or its type is not said and not recorded, or when an input is missing;
    /// `BadData` for a type that cannot be the ID; `Storage`.
    pub(crate) async fn fingerprint(
        &self,
        places: &Places,
        checkpoint: &Checkpoint,
        output: &StorageRef,
    ) -> Result<Fingerprint, checkpoint_pipeline::Error> {
        let recorded = checkpoint.recorded_fingerprint(output).await;
        let recorded = recorded.as_ref();
        let named = self.id_column.clone().or_else(|| self.row_hash.then(|| ROW_HASH_COLUMN.to_owned()));
        let id_column = named
            .or_else(|| recorded.map(|job| job.id_column.clone()))
            .ok_or_else(|| not_said("the ID column is not known", "give id_column, or row_hash=True"))?;
        let id_type = match &self.id_type {
            Some(IdType(given)) => Some(given.clone()),
            None => self.row_hash.then_some(DataType::UInt64),
        };
        let (id_class, id_type) = match id_type {
            Some(given) => (IdClass::of(&given)?.to_string(), given.to_string()),
            None => recorded.map(|job| (job.id_class.clone(), job.id_type.clone())).ok_or_else(|| {
                not_said("the type of the IDs is not known", "give id_type: an Arrow type, or a column of IDs")
            })?,
        };
        let inputs = match &self.inputs {
            Some(urls) => {
                let files = discover(&places.registry, urls, &places.options, None).await?;
                files.iter().map(as_input).collect()
            }
            None => Vec::new(),
        };
        let mut fingerprint = Fingerprint {
            id_column,
            id_class,
            id_type,
            row_hash: self.row_hash || (self.id_column.is_none() && recorded.is_some_and(|job| job.row_hash)),
            filter: self.filter.clone(),
            output: output.url().to_owned(),
            version: self.version.clone(),
            inputs,
            inputs_unknown: self.inputs.is_none(),
        };
        if let Some(recorded) = recorded {
            fingerprint.fill_unknown(recorded);
            fingerprint.fill_rows(recorded);
        }
        Ok(fingerprint)
    }
}

fn not_said(what: &str, hint: &str) -> Error {
    Error::invalid_config(format!("{what}: no attempt before has recorded it")).with_hint(hint)
}

/// A file as `ckpt run` records it, so that either goes on with what the other began.
fn as_input(file: &SourceFile) -> InputFile {
    let version = file.meta.etag.clone().or_else(|| {
        let modified = file.meta.last_modified?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{}.{:09}", modified.as_secs(), modified.subsec_nanos()))
    });
    InputFile { path: file.hash_key(), size: file.meta.size, version, rows: None }
}
