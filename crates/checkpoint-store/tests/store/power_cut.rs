//! A process that is killed before what it wrote is on disk, a recovery, and then a power cut.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use checkpoint_fs::{
    Capabilities, CopyOptions, CreateDirOptions, DeleteFailure, DeleteOptions, Entry, Error, ErrorKind, ListOptions,
    ObjectMeta, ObjectPath, ReadOptions, ReadResult, RenameOptions, Result, StatOptions, Storage, StorageRef,
    StorageWriter, WriteMode, WriteOptions, WriteOutcome,
};
use checkpoint_store::{AttemptState, Checkpoint, ParquetIds, RecoverOptions, recover};
use futures::stream::BoxStream;

use crate::small_job::{Done, Step, World, attempt, begin, left, path_of, run};

const IDS: [i64; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// A file system that keeps what is written in memory until somebody waits for the disk.
#[derive(Debug, Clone)]
struct Disk {
    inner: StorageRef,
    unsettled: Arc<Mutex<Unsettled>>,
}

/// What a power cut takes.
#[derive(Debug, Default)]
struct Unsettled {
    bytes: BTreeSet<ObjectPath>,
    names: BTreeSet<ObjectPath>,
    /// Writers die between the name and the disk.
    is_cut_short: bool,
}

impl Disk {
    fn new(inner: &StorageRef) -> (Self, StorageRef) {
        let disk = Self { inner: inner.clone(), unsettled: Arc::default() };
        (disk.clone(), Arc::new(disk))
    }

    /// From now on writes and renames do not get as far as to sync the directory, or do again.
    fn cut_short(&self, is_cut_short: bool) {
        self.lock().is_cut_short = is_cut_short;
    }

    /// The power goes: what nobody has waited for is gone.
    async fn power_cut(&self) {
        let Unsettled { bytes, names, .. } = std::mem::take(&mut *self.lock());
        for path in bytes.difference(&names) {
            let _ = self.inner.write(path, Bytes::new(), WriteOptions::new()).await.expect("empties");
        }
        for path in names {
            self.inner.delete(&path, DeleteOptions::new()).await.expect("takes");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Unsettled> {
        self.unsettled.lock().expect("not poisoned")
    }

    /// A name goes; answers whether its bytes were on disk.
    fn forget(&self, path: &ObjectPath) -> bool {
        let mut unsettled = self.lock();
        unsettled.names.remove(path);
        !unsettled.bytes.remove(path)
    }

    fn named(&self, path: &ObjectPath, bytes_are_durable: bool, name_is_durable: bool) {
        let mut unsettled = self.lock();
        match bytes_are_durable {
            true => unsettled.bytes.remove(path),
            false => unsettled.bytes.insert(path.clone()),
        };
        if name_is_durable && !unsettled.is_cut_short {
            unsettled.names.retain(|other| other.parent() != path.parent());
        } else {
            unsettled.names.insert(path.clone());
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for Disk {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn read(&self, path: &ObjectPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn write(&self, path: &ObjectPath, bytes: Bytes, options: WriteOptions) -> Result<WriteOutcome> {
        let durable = !options.unsettled;
        let outcome = self.inner.write(path, bytes, options).await?;
        if matches!(outcome, WriteOutcome::Done(_)) {
            self.named(path, durable, durable);
        }
        Ok(outcome)
    }

    async fn writer(&self, _path: &ObjectPath, _options: WriteOptions) -> Result<Box<dyn StorageWriter>> {
        Err(Error::new(ErrorKind::Unsupported, "no streamed writes here"))
    }

    async fn stat(&self, path: &ObjectPath, options: StatOptions) -> Result<ObjectMeta> {
        self.inner.stat(path, options).await
    }

    fn list(&self, prefix: &ObjectPath, options: ListOptions) -> BoxStream<'static, Result<Entry>> {
        self.inner.list(prefix, options)
    }

    async fn copy(&self, _from: &ObjectPath, _to: &ObjectPath, _options: CopyOptions) -> Result<WriteOutcome> {
        Err(Error::new(ErrorKind::Unsupported, "no copies here"))
    }

    async fn delete(&self, path: &ObjectPath, options: DeleteOptions) -> Result<()> {
        self.forget(path);
        self.inner.delete(path, options).await
    }

    async fn delete_many(&self, paths: Vec<ObjectPath>, options: DeleteOptions) -> Result<Vec<DeleteFailure>> {
        for path in paths {
            self.delete(&path, options.clone()).await?;
        }
        Ok(Vec::new())
    }

    async fn create_dir(&self, path: &ObjectPath, options: CreateDirOptions) -> Result<()> {
        self.inner.create_dir(path, options).await
    }

    async fn rename(&self, from: &ObjectPath, to: &ObjectPath, options: RenameOptions) -> Result<WriteOutcome> {
        let settle = options.settle;
        let outcome = self.inner.rename(from, to, options).await?;
        if matches!(outcome, WriteOutcome::Done(_)) {
            let was_durable = self.forget(from);
            self.named(to, settle || was_durable, true);
        }
        Ok(outcome)
    }
}

/// A job of which two tasks are committed in peace; of two others all data is written, and the commit of one of them is
/// tried. The process is killed while none of that is on disk.
struct Killed {
    world: World,
    checkpoint: (Disk, StorageRef),
    output: (Disk, StorageRef),
}

impl Killed {
    async fn new(commits_one: bool) -> Self {
        let world = World::new(true);
        let killed = Self { checkpoint: Disk::new(&world.checkpoint), output: Disk::new(&world.output), world };
        let process = killed.world.process("a");
        let seen = Checkpoint::new(killed.checkpoint.1.clone(), process.clone());
        let owner = attempt(begin(&seen, &killed.output.1, Default::default()).await);
        for ids in IDS[..6].chunks(3) {
            let step = Step::prepare(&owner, ids).await.expect("prepares");
            step.all_data(&owner).await.expect("writes");
            step.commit(&owner).await.expect("commits");
        }
        for ids in IDS[6..].chunks(3) {
            let step = Step::prepare(&owner, ids).await.expect("prepares");
            killed.output.0.cut_short(!commits_one);
            step.all_data(&owner).await.expect("writes");
            if commits_one {
                killed.checkpoint.0.cut_short(true);
                step.commit(&owner).await.expect("commits");
                killed.checkpoint.0.cut_short(false);
                break;
            }
        }
        process.kill();
        killed.output.0.cut_short(false);
        killed
    }

    fn seen(&self) -> Checkpoint {
        Checkpoint::new(self.checkpoint.1.clone(), self.world.process("a"))
    }

    /// Cuts the power, and ends the job after it.
    async fn ends_well(&self, done: usize) {
        self.checkpoint.0.power_cut().await;
        self.output.0.power_cut().await;
        let found = self.world.verify().await;
        assert_eq!((found.ok, found.committed_ids), (true, done as u64), "{found:?}");
        let ended = run(&self.seen(), &self.output.1, &IDS, false).await.expect("ends");
        assert_eq!(ended, Done::Processed(IDS.len() - done));
        self.world.holds_once(&IDS).await;
    }
}

#[tokio::test]
async fn data_that_is_rolled_forward_is_on_disk_before_its_commit() {
    let killed = Killed::new(false).await;
    assert_eq!(killed.output.0.lock().names.len(), 4, "two tasks of two files each are at risk");
    let report = recover(&killed.seen(), &killed.output.1, RecoverOptions::default(), &ParquetIds).await;
    assert_eq!(report.expect("recovers").rolled_forward, 2);
    killed.ends_well(12).await;
}

#[tokio::test]
async fn a_record_is_on_disk_before_the_list_that_counts_it() {
    let killed = Killed::new(true).await;
    assert_eq!(killed.checkpoint.0.lock().names.len(), 1, "one record is at risk");
    let owner = attempt(begin(&killed.seen(), &killed.output.1, Default::default()).await);
    assert_eq!((owner.recovery().rolled_forward, left(&owner, &IDS)), (0, vec![9, 10, 11]));
    owner.end(AttemptState::Failed).await.expect("ends");
    killed.ends_well(9).await;
}

#[tokio::test]
async fn the_disk_takes_what_nobody_waited_for() {
    let killed = Killed::new(false).await;
    let create = WriteOptions::new().mode(WriteMode::IfAbsent);
    let output = &killed.output.1;
    let _ = output.write(&path_of("x"), "x".into(), create.unsettled(true)).await.expect("writes");
    killed.ends_well(6).await;
}
