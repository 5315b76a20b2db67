//! Looking IDs up, with one record in memory at a time.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use checkpoint_store::{Checkpoint, ExactIdSet, IdSet, committed_ids};
use futures::StreamExt;

use super::{id_column, parse::parse};
use crate::exit::Exit;
use crate::failure::{Result, visible};
use crate::session::Session;

/// Prints each ID with `present` or `absent`, and answers whether all are there.
pub(super) async fn run(checkpoint: &Checkpoint, wanted: &[String], session: &Session) -> Result<Exit> {
    let (_, recorded) = id_column(checkpoint).await?;
    let recorded: Option<DataType> = recorded.and_then(|text| text.parse().ok());
    let mut probes = recorded.map(|id_type| parse_all(wanted, &id_type)).transpose()?;
    let mut present = vec![false; wanted.len()];
    let mut ids = std::pin::pin!(committed_ids(checkpoint).await?);
    while let Some(column) = ids.next().await {
        let column = column?;
        let probes = match &mut probes {
            Some(probes) => probes,
            none => none.insert(parse_all(wanted, column.array().data_type())?),
        };
        let mut record = ExactIdSet::new();
        record.insert(&column)?;
        for (probe, present) in probes.iter().zip(&mut present) {
            *present |= record.contains(probe)?.true_count() > 0;
        }
        if present.iter().all(|present| *present) {
            break;
        }
    }
    for (id, present) in wanted.iter().zip(&present) {
        session.out.line(format!("{}\t{}", visible(id), if *present { "present" } else { "absent" }))?;
    }
    Ok(if present.iter().all(|present| *present) { Exit::Done } else { Exit::No })
}

fn parse_all(wanted: &[String], id_type: &DataType) -> Result<Vec<ArrayRef>> {
    wanted.iter().map(|text| parse(text, id_type)).collect()
}
