//! Checking one task: its data files against its record, and the IDs in them against its own.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use checkpoint_fs::{ObjectPath, StorageRef};
use futures::stream::StreamExt;

use super::verify::VerifyReport;
use crate::complete::OutputView;
use crate::data::DataReader;
use crate::error::{Error, ErrorKind, Result};
use crate::id::{IdColumn, show_id};
use crate::layout;
use crate::record::{Record, RecordFacts};
use crate::snapshot::Snapshot;

/// What the checks of all tasks have found so far.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) report: VerifyReport,
    /// Tasks whose record or data is gone or damaged, each with what is wrong.
    pub(super) lost: Vec<(String, String)>,
    pub(super) one_to_one: OneToOne,
}

/// What would be wrong if every row became exactly one row. Only a job whose every task wrote as many rows as
/// it read is taken for one of that kind.
#[derive(Debug, Default)]
pub(super) struct OneToOne {
    broken: bool,
    missing: u64,
    doubled: u64,
    notes: Vec<String>,
}

impl OneToOne {
    pub(super) fn report(self, report: &mut VerifyReport) {
        if self.broken {
            return;
        }
        report.missing_ids += self.missing;
        report.duplicate_ids += self.doubled;
        for note in self.notes {
            report.note(note);
        }
    }
}

impl Check {
    /// Notes that a record file is lost, and with it each task that it holds the IDs of.
    pub(super) fn lost_record(&mut self, snapshot: &Snapshot, name: &str, what: &str) {
        match snapshot.closed.merged.iter().find(|merged| merged.name.to_string() == name) {
            Some(merged) => self.lost.extend(merged.task_names().map(|task| (task, what.to_owned()))),
            None => self.lost.push((name.to_owned(), what.to_owned())),
        }
    }

    /// Checks one task that counts. `on_disk` are the files in the output that its name owns.
    ///
    /// # Errors
    /// `Storage`. Everything else is a finding.
    pub(super) async fn task(
        &mut self,
        output: &StorageRef,
        reader: &dyn DataReader,
        view: &OutputView,
        name: &str,
        record: &Record,
        on_disk: &[String],
    ) -> Result<()> {
        let (data, problem) = match &record.facts {
            Some(facts) => self.own_data(view, name, facts, on_disk),
            None if on_disk.is_empty() && record.ids.is_some() => (Vec::new(), Some("it has no data file".to_owned())),
            None => (on_disk.to_vec(), None),
        };
        let problem = match problem {
            Some(problem) => Some(problem),
            None => match read_ids(output, reader, &data, &record.id_field()).await {
                Ok(found) => {
                    self.compare(name, record, &found);
                    None
                }
                Err(error) if error.kind() == ErrorKind::Storage && !is_not_found(&error) => return Err(error),
                Err(error) => Some(error.to_string()),
            },
        };
        if let Some(problem) = problem {
            self.lost.push((name.to_owned(), format!("task {name}: {problem}")));
        }
        Ok(())
    }

    /// The data files that a record of ours names, and the first thing that is wrong with them.
    fn own_data(
        &mut self,
        view: &OutputView,
        name: &str,
        facts: &RecordFacts,
        on_disk: &[String],
    ) -> (Vec<String>, Option<String>) {
        let problem = facts.data_files.iter().find_map(|file| match view.files.get(&file.name) {
            None => Some(format!("data file {} is gone", file.name)),
            Some(size) if *size != file.bytes => {
                Some(format!("data file {} has {size} bytes and should have {}", file.name, file.bytes))
            }
            Some(_) => None,
        });
        for extra in on_disk.iter().filter(|on_disk| facts.data_files.iter().all(|f| f.name != **on_disk)) {
            self.report.orphan_files += 1;
            self.report.note(format!("file {extra} belongs to task {name}, which does not know it"));
        }
        let data = facts.data_files.iter().map(|f| &f.name).filter(|f| !f.starts_with(layout::FAILED_DIR));
        (data.cloned().collect(), problem)
    }

    fn compare(&mut self, task: &str, record: &Record, found: &[IdColumn]) {
        let facts = record.facts.as_ref();
        // Ray records the IDs that it wrote, so its tasks are always of this kind.
        let one_to_one = facts.is_none_or(|facts| facts.output_rows + facts.failed_rows == facts.input_rows);
        self.one_to_one.broken |= !one_to_one;
        let failed_rows = facts.map_or(0, |facts| facts.failed_rows);

        let mut wanted: HashMap<Vec<u8>, (usize, u64)> = HashMap::new();
        if let Some(ids) = &record.ids {
            wanted.extend(ids.canonical_keys().enumerate().map(|(row, key)| (key, (row, 0))));
        }
        for piece in found {
            self.report.output_rows += piece.len() as u64;
            let same_class = record.ids.as_ref().is_none_or(|ids| ids.class() == piece.class());
            for (row, key) in piece.canonical_keys().enumerate() {
                let Some((_, times)) = wanted.get_mut(&key).filter(|_| same_class) else {
                    self.report.duplicate_ids += 1;
                    self.report.note(format!(
                        "ID {} is in the output of task {task} and not in its record",
                        show_id(piece.array(), row)
                    ));
                    continue;
                };
                *times += 1;
                if *times > 1 {
                    self.one_to_one.doubled += 1;
                    let id = show_id(piece.array(), row);
                    self.one_to_one.note(format!("ID {id} is twice in the output of task {task}"));
                }
            }
        }
        let absent: Vec<usize> = wanted.values().filter(|(_, times)| *times == 0).map(|(row, _)| *row).collect();
        let missing = (absent.len() as u64).saturating_sub(failed_rows);
        self.one_to_one.missing += missing;
        if let (true, Some(row), Some(ids)) = (missing > 0, absent.iter().min(), &record.ids) {
            let id = show_id(ids.array(), *row);
            self.one_to_one.note(format!("ID {id} of task {task} is not in the output"));
        }
    }
}

impl OneToOne {
    fn note(&mut self, text: String) {
        if self.notes.len() < super::verify::EXAMPLES {
            self.notes.push(text);
        }
    }
}

async fn read_ids(output: &StorageRef, reader: &dyn DataReader, files: &[String], id: &Field) -> Result<Vec<IdColumn>> {
    let mut found = Vec::new();
    for file in files {
        let path = ObjectPath::parse(file.as_str())?;
        let mut pieces = reader.ids(output, &path, id).await?;
        while let Some(piece) = pieces.next().await {
            let piece: ArrayRef = piece?;
            if piece.is_empty() {
                continue;
            }
            found.push(IdColumn::try_new(&piece)?.map_err(|p| Error::bad_data(format!("{p} file={file}")))?);
        }
    }
    Ok(found)
}

/// Whether a file was there when it was listed and is not any more.
fn is_not_found(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<checkpoint_fs::Error>());
    source.is_some_and(checkpoint_fs::Error::is_not_found)
}
