//! Reading many records at once.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ObjectPath, StorageExt};
use futures::channel::oneshot;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::Semaphore;

use crate::checkpoint::Checkpoint;
use crate::compact::MergedBytes;
use crate::error::{Error, ErrorKind, Result};
use crate::id::IdClass;
use crate::layout;
use crate::lengths::whole_of;
use crate::listing::Listing;
use crate::merged::MergedRecord;
use crate::names::TaskName;
use crate::record::{self, Damage, Record};
use crate::runtime::{TaskHandle, blocking};
use crate::snapshot::Source;

/// Records that are under way at a time.
const CONCURRENCY: usize = 32;
/// Their bytes, as stored. A larger record is read alone.
const BYTES: u64 = 64 << 20;
/// What a record counts at the least, for what it becomes.
const SMALLEST: u64 = 64 << 10;
/// What an ID takes while it is a key.
const KEY: u64 = 16;
/// What a record counts whose size no listing says.
const UNKNOWN: u64 = 4 << 20;

/// A record that was looked for.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// It is whole.
    Whole(Box<Record>),
    /// It is there, and damaged.
    Damaged(Damage),
    /// It is not there.
    Missing,
}

/// A record to read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    size: Option<u64>,
    file: File,
}

/// Where it is.
#[derive(Debug, Clone)]
enum File {
    /// A record of one task.
    Task {
        path: ObjectPath,
        /// Whether one of our tasks must say its own name.
        named: bool,
    },
    /// A merged record, and the facts beside it.
    Merged(Box<MergedRecord>),
}

impl Wanted {
    /// Committed records, with the sizes that a listing shows.
    ///
    /// # Errors
    /// `InvalidConfig` for a name that no path can hold.
    pub(crate) fn committed(sources: Vec<Source>, listing: &Listing) -> Result<Vec<Self>> {
        let sizes: HashMap<String, u64> =
            listing.committed.iter().map(|(name, meta)| (name.stem(), meta.size)).collect();
        let wanted = |source: Source| match source {
            Source::Task(name) => {
                let size = sizes.get(&name).copied();
                Self::task(name, size)
            }
            Source::Merged(merged) => {
                // Files of a few bytes an ID become keys of many.
                let size = merged.bytes.max(merged.rows.saturating_mul(KEY));
                Ok(Self { name: merged.name.to_string(), size: Some(size), file: File::Merged(merged) })
            }
        };
        sources.into_iter().map(wanted).collect()
    }

    /// The committed record of a task, of a size that is known or not.
    ///
    /// # Errors
    /// As [`Wanted::committed`].
    pub(crate) fn task(name: String, size: Option<u64>) -> Result<Self> {
        Ok(Self { size, file: File::Task { path: layout::committed(&name)?, named: true }, name })
    }

    /// A pending record as we write it.
    pub(crate) fn pending(task: &TaskName, meta: &ObjectMeta) -> Result<Self> {
        let name = task.to_string();
        let file = File::Task { path: layout::pending(&name)?, named: true };
        Ok(Self { size: Some(meta.size), file, name })
    }

    /// A pending record as Ray writes it, whatever its name.
    pub(crate) fn ray_pending(stem: &str, meta: &ObjectMeta) -> Result<Self> {
        let file = File::Task { path: layout::ray_pending(stem)?, named: false };
        Ok(Self { size: Some(meta.size), file, name: stem.to_owned() })
    }

    fn weight(&self) -> u64 {
        self.size.unwrap_or(UNKNOWN).max(SMALLEST)
    }
}

/// Reads and decodes records, and gives each, with its bytes, to `handle` on a thread that may be kept busy; the
/// answers come in the order that is wanted. Of a merged record each task that it covers is given, under its own name
/// and without bytes; where it is gone or damaged it is given itself.
///
/// Each record is read by a task of its own, which goes on while the caller is busy with an earlier one: no request
/// is left in the air, to run into its time limit or to hold a place that the caller's own requests wait for. How
/// many are under way is bounded by their number and by their bytes, from the start of the read until the answer is
/// handed out.
pub(crate) fn load_records<T, F>(
    checkpoint: &Checkpoint,
    wanted: Vec<Wanted>,
    id_column: Option<String>,
    handle: F,
) -> impl Stream<Item = Result<(String, T)>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
{
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let reader = Reader { checkpoint: checkpoint.clone(), id_column, decoding: Semaphore::new(cores), handle };
    let loading = Loading::new(reader, wanted.into());
    stream::unfold(loading, |mut loading| async move { Some((loading.next().await?, loading)) })
}

/// How records are read.
struct Reader<F> {
    checkpoint: Checkpoint,
    id_column: Option<String>,
    /// As many records are decoded at a time as there are cores: what they become is held by nothing else.
    decoding: Semaphore,
    handle: F,
}

/// A record that is being read.
struct UnderWay<T> {
    name: String,
    weight: u64,
    answers: oneshot::Receiver<Result<Vec<(String, T)>>>,
    _task: TaskHandle,
}

struct Loading<T, F> {
    reader: Arc<Reader<F>>,
    wanted: VecDeque<Wanted>,
    under_way: VecDeque<UnderWay<T>>,
    weight: u64,
    /// What one record came to, and was not handed out yet.
    answers: std::vec::IntoIter<(String, T)>,
}

impl<T, F> Loading<T, F>
where
    T: Send + 'static,
    F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
{
    fn new(reader: Reader<F>, wanted: VecDeque<Wanted>) -> Self {
        let answers = Vec::new().into_iter();
        Self { reader: Arc::new(reader), wanted, under_way: VecDeque::new(), weight: 0, answers }
    }

    async fn next(&mut self) -> Option<Result<(String, T)>> {
        loop {
            if let Some(answer) = self.answers.next() {
                return Some(Ok(answer));
            }
            match self.next_record().await? {
                Ok(answers) => self.answers = answers.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    async fn next_record(&mut self) -> Option<Result<Vec<(String, T)>>> {
        while let Some(next) = self.wanted.pop_front_if(|next| {
            self.under_way.is_empty() || (self.under_way.len() < CONCURRENCY && self.weight + next.weight() <= BYTES)
        }) {
            self.start(next);
        }
        let UnderWay { name, weight, answers, _task } = self.under_way.pop_front()?;
        let answers = answers.await;
        self.weight -= weight;
        let given_up = |_| Error::new(ErrorKind::Storage, format!("reading a record was given up: record={name}"));
        Some(answers.map_err(given_up).flatten())
    }

    fn start(&mut self, wanted: Wanted) {
        let (name, weight) = (wanted.name.clone(), wanted.weight());
        let (done, answers) = oneshot::channel();
        let reader = self.reader.clone();
        let task = self.reader.checkpoint.runtime.spawn(Box::pin(async move {
            let _ = done.send(reader.read(wanted).await);
        }));
        self.weight += weight;
        self.under_way.push_back(UnderWay { name, weight, answers, _task: task });
    }
}

impl<F> Reader<F> {
    async fn read<T>(self: Arc<Self>, wanted: Wanted) -> Result<Vec<(String, T)>>
    where
        T: Send + 'static,
        F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
    {
        match wanted.file {
            File::Task { path, named } => {
                let answer = self.read_task(&wanted.name, &path, named, wanted.size).await?;
                Ok(vec![(wanted.name, answer)])
            }
            File::Merged(merged) => self.read_merged(*merged).await,
        }
    }

    async fn read_merged<T>(self: Arc<Self>, merged: MergedRecord) -> Result<Vec<(String, T)>>
    where
        T: Send + 'static,
        F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
    {
        let read = MergedBytes::read(&self.checkpoint.storage, &merged).await?;
        let _permit = self.decoding.acquire().await;
        let this = self.clone();
        blocking(self.checkpoint.runtime.as_ref(), move || {
            let handle = |name: String, loaded: Loaded| {
                let answer = (this.handle)(&name, loaded, &Bytes::new())?;
                Ok((name, answer))
            };
            match read.and_then(|bytes| bytes.decode(&merged, this.id_column.as_deref())) {
                Ok(whole) => {
                    whole.into_records().map(|task| task.and_then(|(name, loaded)| handle(name, loaded))).collect()
                }
                Err(damage) => Ok(vec![handle(merged.name.to_string(), Loaded::Damaged(damage))?]),
            }
        })
        .await
    }

    async fn read_task<T>(self: &Arc<Self>, name: &str, path: &ObjectPath, named: bool, size: Option<u64>) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
    {
        let storage = &self.checkpoint.storage;
        let Some(read) = storage.read_optional(path, whole_of(size)).await? else {
            return (self.handle)(name, Loaded::Missing, &Bytes::new());
        };
        let _permit = self.decoding.acquire().await;
        let (this, name) = (self.clone(), name.to_owned());
        blocking(self.checkpoint.runtime.as_ref(), move || {
            let (bytes, column) = (read.bytes.clone(), this.id_column.as_deref());
            let decoded = match named {
                true => record::decode_named(&name, bytes, column),
                false => record::decode(bytes, column),
            };
            let loaded = match decoded {
                Ok(record) => Loaded::Whole(Box::new(record)),
                Err(damage) => Loaded::Damaged(damage),
            };
            (this.handle)(&name, loaded, &read.bytes)
        })
        .await
    }
}

/// The class of the first IDs in the order that is wanted, where nothing else says of which class they are.
///
/// # Errors
/// `Storage`.
pub(crate) async fn first_class(
    checkpoint: &Checkpoint,
    wanted: &[Wanted],
    id_column: Option<&str>,
) -> Result<Option<IdClass>> {
    let class = |_: &str, loaded: Loaded, _: &Bytes| {
        Ok(match loaded {
            Loaded::Whole(record) => record.ids.map(|ids| ids.class().clone()),
            _ => None,
        })
    };
    for one in wanted {
        let mut found = Box::pin(load_records(checkpoint, vec![one.clone()], id_column.map(str::to_owned), class));
        while let Some((_, class)) = found.next().await.transpose()? {
            if class.is_some() {
                return Ok(class);
            }
        }
    }
    Ok(None)
}

/// The record, or what is wrong with it; for [`load_records`].
pub(crate) fn whole_or_damage(_: &str, loaded: Loaded, _: &Bytes) -> Result<std::result::Result<Box<Record>, Damage>> {
    Ok(match loaded {
        Loaded::Whole(record) => Ok(record),
        Loaded::Damaged(damage) => Err(damage),
        Loaded::Missing => Err("it is gone, though it counts".to_owned().into()),
    })
}

/// What is wrong with a record whose IDs are not of the job's class, where that is known.
pub(crate) fn class_problem(record: &Record, wanted: Option<&str>) -> Option<String> {
    let (ids, wanted) = (record.ids.as_ref()?, wanted?);
    let class = ids.class().to_string();
    (class != wanted).then(|| format!("its IDs are {class} and the job's are {wanted}"))
}

#[cfg(test)]
mod tests {
    use checkpoint_fs::{MemoryStorage, StorageRef, WriteOptions};

    use super::*;
    use crate::runtime::SystemRuntime;

    async fn loading(
        sizes: &[Option<u64>],
    ) -> Loading<usize, impl Fn(&str, Loaded, &Bytes) -> Result<usize> + Send + Sync + 'static> {
        let storage: StorageRef = Arc::new(MemoryStorage::new("memory://loading"));
        let mut wanted = VecDeque::new();
        for (number, size) in sizes.iter().enumerate() {
            let name = format!("r_{number:06}");
            let path = layout::committed(&name).unwrap();
            let written = storage.write(&path, vec![b'x'; number + 1].into(), WriteOptions::new()).await.unwrap();
            written.into_result("memory://loading").unwrap();
            wanted.push_back(Wanted { name, size: *size, file: File::Task { path, named: true } });
        }
        let checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
        let handle = |_: &str, loaded: Loaded, bytes: &Bytes| {
            assert!(matches!(loaded, Loaded::Damaged(_)));
            Ok(bytes.len())
        };
        let reader = Reader { checkpoint, id_column: None, decoding: Semaphore::new(2), handle };
        Loading::new(reader, wanted)
    }

    #[tokio::test]
    async fn large_records_do_not_pile_up() {
        let mb = |n: u64| Some(n << 20);
        let mut loading = loading(&[mb(40), mb(40), mb(8), mb(100), mb(1), None, mb(0)]).await;
        let mut under_way = Vec::new();
        for number in 0..7 {
            let (name, length) = loading.next().await.unwrap().unwrap();
            assert_eq!((name, length), (format!("r_{number:06}"), number + 1), "in the order that is wanted");
            under_way.push(loading.under_way.len());
            assert!(loading.weight <= BYTES);
        }
        assert_eq!(under_way, [0, 1, 0, 0, 2, 1, 0]);
        assert!(loading.next().await.is_none());
        assert_eq!(loading.weight, 0);
    }

    #[tokio::test]
    async fn small_records_are_read_many_at_a_time_and_no_more() {
        let mut loading = loading(&[Some(10); 200]).await;
        let first = loading.next().await.unwrap().unwrap();
        assert_eq!((first.1, loading.under_way.len()), (1, CONCURRENCY - 1));
        let mut rest = Vec::new();
        while let Some(next) = loading.next().await {
            assert!(loading.under_way.len() < CONCURRENCY);
            rest.push(next.unwrap().1);
        }
        assert_eq!(rest, (2..=200).collect::<Vec<_>>());
    }
}
