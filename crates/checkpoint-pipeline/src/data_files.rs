//! Reading IDs back from data files of every format, to prove that tasks are whole.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use checkpoint_fs::{Location, ObjectPath, StatOptions, StorageExt, StorageRef};
use checkpoint_store::DataReader;
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::mpsc;

use crate::format::Format;
use crate::id_text::{from_text, text_type};
use crate::input::{self, ReadConfig, ReadContext, SourceFile, TextSchemas};

/// Reads the ID column of Parquet, Arrow IPC, JSON lines and CSV files, batch by batch.
#[derive(Debug, Default, Clone, Copy)]
pub struct DataFiles;

impl DataFiles {
    /// A reader.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl DataReader for DataFiles {
    async fn ids(
        &self,
        output: &StorageRef,
        path: &ObjectPath,
        id: &Field,
    ) -> checkpoint_store::Result<BoxStream<'static, checkpoint_store::Result<ArrayRef>>> {
        let url = output.url_of(path);
        let Some(format) = Format::from_file_name(path.name()) else {
            return Err(checkpoint_store::Error::bad_data(format!("a data file of an unknown format: url={url}")));
        };
        let meta = output.stat(path, StatOptions::new()).await?;
        let location = Location::parse(&url)?;
        let file = SourceFile::new(output.clone(), path.clone(), location, meta, format);
        let (sender, receiver) = mpsc::channel(4);
        let mut context = ReadContext::new(tokio::runtime::Handle::current());
        if matches!(format, Format::JsonLines | Format::Csv) {
            let schemas = input::infer_schemas(std::slice::from_ref(&file), &context).await.map_err(to_store_error)?;
            context = context.with_schemas(typed(schemas, id));
        }
        let id = id.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = read(&file, &id, context, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        let stream = futures::stream::unfold(receiver, |mut r| async { r.recv().await.map(|item| (item, r)) });
        Ok(stream.map(|item| item.map_err(to_store_error)).boxed())
    }
}

type Piece = crate::error::Result<ArrayRef>;

/// The schemas of text files, the ID column read as the text of what it is known to be.
fn typed(mut schemas: TextSchemas, id: &Field) -> TextSchemas {
    if *id.data_type() == DataType::Null {
        return schemas;
    }
    let as_text = Arc::new(id.clone().with_data_type(text_type(id.data_type())));
    for schema in [&mut schemas.json_lines, &mut schemas.csv].into_iter().flatten() {
        let fields = schema.fields().iter().map(|f| if f.name() == id.name() { &as_text } else { f }).cloned();
        *schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    }
    schemas
}

fn read(file: &SourceFile, id: &Field, context: ReadContext, to: &mpsc::Sender<Piece>) -> crate::error::Result<()> {
    let config = ReadConfig::new().with_batch_rows(8192).with_columns(Some(vec![id.name().clone()]));
    let mut reader = input::open(file, &config, &context)?;
    let is_text = matches!(file.format, Format::JsonLines | Format::Csv) && *id.data_type() != DataType::Null;
    while let Some((_, batch)) = reader.next()? {
        let ids = batch.column(0);
        let ids = if is_text { from_text(ids, id.data_type()) } else { Ok(ids.clone()) };
        let ids = ids.map_err(|e| {
            let (column, file) = (id.name(), &file.location);
            crate::error::Error::bad_data(format!("an ID is not of its type: {e}: column={column} file={file}"))
        })?;
        if to.blocking_send(Ok(ids)).is_err() {
            break;
        }
    }
    Ok(())
}

fn to_store_error(error: crate::error::Error) -> checkpoint_store::Error {
    use crate::error::ErrorKind as Here;
    use checkpoint_store::ErrorKind as There;
    let kind = match error.kind() {
        Here::Storage => There::Storage,
        Here::Conflict => There::Conflict,
        Here::InvalidConfig => There::InvalidConfig,
        Here::OutcomeUnknown => There::OutcomeUnknown,
        _ => There::BadData,
    };
    checkpoint_store::Error::new(kind, error.to_string()).with_source(error)
}
