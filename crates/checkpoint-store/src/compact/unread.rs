//! Records that a start did not read, since a saved set has their IDs: their data files are asked for at the end alone.

use std::collections::BTreeMap;

use futures::stream::StreamExt;

use super::file::load_facts;
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::listing::Listing;
use crate::merged::{Covered, MergedRecord};
use crate::record::{Damage, DataFile};
use crate::recovery::{Wanted, load_records, whole_or_damage};
use crate::snapshot::Source;

/// Where the facts of unread records are once a closing has merged them: in its own merged records, together with those of
/// others. A record goes into one merged record as a whole.
pub(crate) fn after_merging(unread: Vec<Source>, merged: &[MergedRecord]) -> Vec<Source> {
    let (covered, job) = (Covered::by(merged), merged.first().map(|one| &one.name.job));
    let by_name: BTreeMap<String, &MergedRecord> = merged.iter().map(|one| (one.name.to_string(), one)).collect();
    let mut sources: BTreeMap<String, Source> = BTreeMap::new();
    for source in unread {
        // Mostly nothing was merged, and none of them is looked for.
        let now = match &source {
            Source::Task(name) if covered.name(name, job) => merged.iter().find(|one| one.covers(name)),
            Source::Task(_) => None,
            Source::Merged(old) => {
                let same = by_name.get(&old.name.to_string()).copied();
                same.or_else(|| merged.iter().find(|one| one.shares_tasks_with(old)))
            }
        };
        let source = now.map_or(source, |merged| Source::Merged(Box::new(merged.clone())));
        sources.insert(source.name(), source);
    }
    sources.into_values().collect()
}

/// The data files of tasks whose records were not read at the start.
///
/// # Errors
/// `BadData` naming a record that is damaged or gone; `Storage`.
pub(crate) async fn data_files_of(
    c: &Checkpoint,
    sources: &[Source],
    id_column: &str,
    listing: &Listing,
) -> Result<Vec<DataFile>> {
    let damaged = |name: &str, damage: &Damage| c.damaged_record(name, damage);
    let mut files = Vec::new();
    let mut tasks = Vec::new();
    for source in sources {
        match source {
            Source::Task(_) => tasks.push(source.clone()),
            Source::Merged(merged) => {
                let name = merged.name.to_string();
                for task in load_facts(&c.storage, merged).await?.map_err(|damage| damaged(&name, &damage))? {
                    files.extend(task.whole().map_err(|d| damaged(&name, &d))?.into_iter().flat_map(|f| f.data_files));
                }
            }
        }
    }
    let wanted = Wanted::committed(tasks, listing)?;
    let mut records = std::pin::pin!(load_records(c, wanted, Some(id_column.to_owned()), whole_or_damage));
    while let Some(next) = records.next().await {
        match next? {
            (_, Ok(record)) => files.extend(record.facts.into_iter().flat_map(|facts| facts.data_files)),
            (name, Err(damage)) => return Err(damaged(&name, &damage)),
        }
    }
    Ok(files)
}
