//! Reading many records at once.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use checkpoint_fs::{ObjectMeta, ObjectPath, ReadOptions, StorageExt};
use futures::channel::oneshot;
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::Semaphore;

use crate::checkpoint::Checkpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::id::IdClass;
use crate::layout;
use crate::listing::Listing;
use crate::names::TaskName;
use crate::record::{self, Damage, Record};
use crate::runtime::{TaskHandle, blocking};

/// Records that are under way at a time.
const CONCURRENCY: usize = 64;
/// Their bytes, as stored. A larger record is read alone.
const BYTES: u64 = 64 << 20;
/// What a record counts at the least, for what it becomes.
const SMALLEST: u64 = 64 << 10;
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
    path: ObjectPath,
    size: Option<u64>,
    /// Whether one of our tasks must say its own name.
    named: bool,
}

impl Wanted {
    /// Committed records by name, with the sizes that a listing shows.
    ///
    /// # Errors
    /// `InvalidConfig` for a name that no path can hold.
    pub(crate) fn committed(names: Vec<String>, listing: &Listing) -> Result<Vec<Self>> {
        let sizes: HashMap<String, u64> =
            listing.committed.iter().map(|(name, meta)| (name.stem(), meta.size)).collect();
        let wanted = |name: String| {
            Ok(Self { path: layout::committed(&name)?, size: sizes.get(&name).copied(), named: true, name })
        };
        names.into_iter().map(wanted).collect()
    }

    /// A pending record as we write it.
    pub(crate) fn pending(task: &TaskName, meta: &ObjectMeta) -> Result<Self> {
        let name = task.to_string();
        Ok(Self { path: layout::pending(&name)?, size: Some(meta.size), named: true, name })
    }

    /// A pending record as Ray writes it, whatever its name.
    pub(crate) fn ray_pending(stem: &str, meta: &ObjectMeta) -> Result<Self> {
        Ok(Self { path: layout::ray_pending(stem)?, size: Some(meta.size), named: false, name: stem.to_owned() })
    }

    fn weight(&self) -> u64 {
        self.size.unwrap_or(UNKNOWN).max(SMALLEST)
    }
}

/// Reads and decodes records, and gives each, with its bytes, to `handle` on a thread that may be kept busy; the
/// answers come in the order that is wanted.
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
    let loading = Loading { reader: Arc::new(reader), wanted: wanted.into(), under_way: VecDeque::new(), weight: 0 };
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
    answer: oneshot::Receiver<Result<T>>,
    _task: TaskHandle,
}

struct Loading<T, F> {
    reader: Arc<Reader<F>>,
    wanted: VecDeque<Wanted>,
    under_way: VecDeque<UnderWay<T>>,
    weight: u64,
}

impl<T, F> Loading<T, F>
where
    T: Send + 'static,
    F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
{
    async fn next(&mut self) -> Option<Result<(String, T)>> {
        while let Some(next) = self.wanted.pop_front_if(|next| {
            self.under_way.is_empty() || (self.under_way.len() < CONCURRENCY && self.weight + next.weight() <= BYTES)
        }) {
            self.start(next);
        }
        let UnderWay { name, weight, answer, _task } = self.under_way.pop_front()?;
        let answer = answer.await;
        self.weight -= weight;
        let given_up = |_| Error::new(ErrorKind::Storage, format!("reading a record was given up: record={name}"));
        Some(answer.map_err(given_up).flatten().map(|answer| (name, answer)))
    }

    fn start(&mut self, wanted: Wanted) {
        let (name, weight) = (wanted.name.clone(), wanted.weight());
        let (done, answer) = oneshot::channel();
        let reader = self.reader.clone();
        let task = self.reader.checkpoint.runtime.spawn(Box::pin(async move {
            let _ = done.send(reader.read(wanted).await);
        }));
        self.weight += weight;
        self.under_way.push_back(UnderWay { name, weight, answer, _task: task });
    }
}

impl<F> Reader<F> {
    async fn read<T>(self: Arc<Self>, wanted: Wanted) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&str, Loaded, &Bytes) -> Result<T> + Send + Sync + 'static,
    {
        let storage = &self.checkpoint.storage;
        let Some(read) = storage.read_optional(&wanted.path, ReadOptions::new()).await? else {
            return (self.handle)(&wanted.name, Loaded::Missing, &Bytes::new());
        };
        let _permit = self.decoding.acquire().await;
        let this = self.clone();
        blocking(self.checkpoint.runtime.as_ref(), move || {
            let (bytes, column) = (read.bytes.clone(), this.id_column.as_deref());
            let decoded = match wanted.named {
                true => record::decode_named(&wanted.name, bytes, column),
                false => record::decode(bytes, column),
            };
            let loaded = match decoded {
                Ok(record) => Loaded::Whole(Box::new(record)),
                Err(damage) => Loaded::Damaged(damage),
            };
            (this.handle)(&wanted.name, loaded, &read.bytes)
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
        if let Some((_, Some(class))) = found.next().await.transpose()? {
            return Ok(Some(class));
        }
    }
    Ok(None)
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
            wanted.push_back(Wanted { name, path, size: *size, named: true });
        }
        let checkpoint = Checkpoint::new(storage, SystemRuntime::shared());
        let handle = |_: &str, loaded: Loaded, bytes: &Bytes| {
            assert!(matches!(loaded, Loaded::Damaged(_)));
            Ok(bytes.len())
        };
        let reader = Reader { checkpoint, id_column: None, decoding: Semaphore::new(2), handle };
        Loading { reader: Arc::new(reader), wanted, under_way: VecDeque::new(), weight: 0 }
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
