//! Reading the IDs back from data files, to prove that a task is whole.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use async_trait::async_trait;
use checkpoint_fs::{ObjectPath, ReadOptions, StorageExt, StorageRef};
use futures::stream::{self, BoxStream, StreamExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::error::{Error, Result};

/// Reads one column of data files. The pipeline knows every format; [`ParquetIds`] knows one.
#[async_trait]
pub trait DataReader: Debug + Send + Sync {
    /// The ID column of a data file, in pieces. Text formats read it as the field's type; where they
    /// cannot, and in the others, it comes as the file has it.
    ///
    /// # Errors
    /// `BadData` when the file is damaged or lacks the column, `InvalidConfig` for an unknown format;
    /// errors in the stream likewise.
    async fn ids(
        &self,
        output: &StorageRef,
        path: &ObjectPath,
        id: &Field,
    ) -> Result<BoxStream<'static, Result<ArrayRef>>>;
}

/// Reads Parquet files, whole in memory one at a time.
#[derive(Debug, Default, Clone, Copy)]
pub struct ParquetIds;

#[async_trait]
impl DataReader for ParquetIds {
    async fn ids(
        &self,
        output: &StorageRef,
        path: &ObjectPath,
        id: &Field,
    ) -> Result<BoxStream<'static, Result<ArrayRef>>> {
        let url = output.url_of(path);
        if !path.name().ends_with(".parquet") {
            return Err(Error::invalid_config(format!("only Parquet data files can be read here: url={url}")));
        }
        let damaged = |e: &dyn std::fmt::Display| Error::bad_data(format!("a data file is damaged: {e}: url={url}"));
        let bytes = output.read(path, ReadOptions::new()).await?.bytes;
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|e| damaged(&e))?;
        let index = builder
            .schema()
            .index_of(id.name())
            .map_err(|_| Error::bad_data(format!("a data file lacks the ID column: column={} url={url}", id.name())))?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), [index]);
        let reader = builder.with_projection(mask).build().map_err(|e| damaged(&e))?;
        Ok(stream::iter(reader.map(move |batch| match batch {
            Ok(batch) => Ok(batch.column(0).clone()),
            Err(error) => Err(Error::bad_data(format!("a data file is damaged: {error}: url={url}"))),
        }))
        .boxed())
    }
}
