//! The builder of a compact set.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::Array;

use super::merge::merge;
use super::options::IdSetOptions;
use super::repeats::Repeats;
use super::source::{Source, sort};
use super::spill::SpillFile;
use crate::error::{Error, Result};
use crate::id::compact::{CompactIdSet, Encoder};
use crate::id::key_map::KeyMap;
use crate::id::key_source::differing;
use crate::id::{HashKey, IdClass, IdColumn, IdSet};

/// Keys that are sorted at a time, at the least.
const BATCH: usize = 1 << 20;
/// The same at the most: a batch grows with what is there, so that there are never too many to merge.
const LARGEST_BATCH: usize = 1 << 23;
/// The same, however little memory there is.
const SMALLEST_BATCH: usize = 1 << 14;
/// From so many keys on a batch will likely get full.
const LARGE_COLUMN: usize = 1 << 14;
/// Batches that make up what is there, about.
const BATCHES: u64 = 64;

/// Makes a [`CompactIdSet`] of columns of IDs and of other sets, in any order and from any number of threads.
///
/// The keys of IDs are collected in batches, and a full batch is sorted and packed by whoever filled it. At the
/// end all batches are merged by several threads, a slice of the key space at a time, and go as the set grows. So
/// the peak is about the memory of the finished set twice, and 16 MiB or more for each thread that pushes.
///
/// The same IDs make the same bytes, however they are shared out and in whatever order they come.
#[derive(Debug)]
pub struct IdSetBuilder {
    options: IdSetOptions,
    batch: Option<usize>,
    cut: Option<u8>,
    map: OnceLock<KeyMap>,
    /// Batches that nobody is filling at the moment.
    open: Mutex<Vec<Vec<u128>>>,
    state: Mutex<State>,
    spill: OnceLock<Arc<SpillFile>>,
}

#[derive(Debug, Default)]
struct State {
    sources: Vec<Source>,
    repeats: Repeats,
    /// Keys in the sources.
    keys: u64,
    /// Bytes of memory of the sources.
    memory: u64,
}

impl IdSetBuilder {
    /// An empty builder.
    pub fn new(options: IdSetOptions) -> Self {
        Self {
            options,
            batch: None,
            cut: None,
            map: OnceLock::new(),
            open: Mutex::default(),
            state: Mutex::default(),
            spill: OnceLock::new(),
        }
    }

    /// Sorts so many keys at a time, for tests.
    #[cfg(test)]
    pub(crate) fn with_batch(mut self, keys: usize) -> Self {
        self.batch = Some(keys);
        self
    }

    /// Cuts hashes to so few bits, for tests.
    #[cfg(test)]
    pub(crate) fn with_cut(mut self, bits: u8) -> Self {
        self.cut = Some(bits);
        self
    }

    /// Bytes of memory of what is packed.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        lock(&self.state).memory
    }

    /// The class of the IDs so far.
    pub fn class(&self) -> Option<&IdClass> {
        self.map.get().map(KeyMap::class)
    }

    /// Adds a column. Sorts, and spills, when a batch is full by it; the caller's thread does the work.
    ///
    /// # Errors
    /// `BadData` when the IDs are of another class than those before, or a row hash is negative; `InvalidConfig`
    /// when the memory limit is reached and there is nowhere to spill to; `Storage` when the disk is full. The
    /// builder is of no use after one.
    pub fn push(&self, ids: &IdColumn) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let map = self.map_of(ids.class())?;
        let mut batch = lock(&self.open).pop().unwrap_or_default();
        let mut row = 0;
        while row < ids.len() {
            let room = self.batch_size().saturating_sub(batch.len()).max(1).min(ids.len() - row);
            let before = batch.len();
            if before + room > LARGE_COLUMN && batch.capacity() < self.batch_size() {
                // At once: a batch that doubles and doubles leaves its former selves behind.
                batch.reserve_exact(self.batch_size() - before);
            }
            if let Err(error) = map.append(&ids.array().slice(row, room), &mut batch) {
                batch.truncate(before);
                lock(&self.open).push(batch);
                return Err(error);
            }
            row += room;
            if batch.len() >= self.batch_size() {
                self.pack(&mut batch)?;
            }
        }
        lock(&self.open).push(batch);
        Ok(())
    }

    /// Adds all IDs of another set, which is shared and not copied.
    ///
    /// # Errors
    /// `BadData` when it is of another class; `InvalidConfig` when its IDs are not kept in the same way: one has row
    /// hashes and the other plain integers, or their hash keys differ.
    pub fn push_set(&self, set: &CompactIdSet) -> Result<()> {
        let Some(theirs) = set.map() else { return Ok(()) };
        if self.map.get().is_none() {
            let key = self.options.hash_key.unwrap_or_else(|| theirs.hash_key());
            let map = self.new_map(theirs.class(), key)?;
            self.map.get_or_init(|| map);
        }
        let ours = self.map_of(theirs.class())?;
        if ours != theirs {
            return Err(Error::invalid_config(format!(
                "sets of IDs that were not built alike cannot be merged: class={}",
                ours.class()
            ))
            .with_hint("build them with the same `row_hash` and the same `hash_key`"));
        }
        let mut state = lock(&self.state);
        state.keys = state.keys.saturating_add(set.len());
        state.sources.push(Source::Set(set.clone()));
        Ok(())
    }
}

impl IdSetBuilder {
    /// Merges everything into the set.
    ///
    /// # Errors
    /// `Storage` when spilled keys cannot be read back, or are not what was written.
    pub fn finish(self) -> Result<CompactIdSet> {
        Ok(self.finish_counted()?.0)
    }

    /// As [`finish`](Self::finish), with what was there more than once.
    ///
    /// # Errors
    /// As there.
    pub fn finish_counted(mut self) -> Result<(CompactIdSet, Repeats)> {
        let Some(map) = self.map.take() else { return Ok((CompactIdSet::empty(), Repeats::default())) };
        let mut encoder = Encoder::new(&map);
        let repeats = self.merge(|first, last| encoder.push(first, last))?;
        Ok((encoder.finish()?, repeats.with_map(map)))
    }

    /// What was there more than once, without the set.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn repeats(mut self) -> Result<Repeats> {
        let Some(map) = self.map.take() else { return Ok(Repeats::default()) };
        Ok(self.merge(|_, _| {})?.with_map(map))
    }

    fn merge(self, take: impl FnMut(u128, u128)) -> Result<Repeats> {
        let State { mut sources, mut repeats, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let packed = !sources.is_empty();
        for mut keys in self.open.into_inner().unwrap_or_else(PoisonError::into_inner) {
            sort(&mut keys, &mut repeats);
            match keys.len() {
                0 => {}
                // Packed it goes as the merge goes on; raw it stays to the end, which matters little for a few.
                many if packed && many > LARGE_COLUMN => sources.push(Source::pack(&keys, None)?.0),
                _ => sources.push(Source::Raw { keys: Arc::new(keys), from: 0 }),
            }
        }
        repeats.add(merge(sources, self.options.thread_count(), self.batch, take)?);
        Ok(repeats)
    }

    fn map_of(&self, class: &IdClass) -> Result<&KeyMap> {
        let map = match self.map.get() {
            Some(map) => map,
            None => {
                let map = self.new_map(class, self.options.key_or_random())?;
                self.map.get_or_init(|| map)
            }
        };
        if map.class() == class { Ok(map) } else { Err(differing(map.class(), class)) }
    }

    fn new_map(&self, class: &IdClass, key: HashKey) -> Result<KeyMap> {
        let map = KeyMap::new(class.clone(), self.options.row_hash, key)?;
        Ok(match self.cut {
            Some(bits) => map.with_cut(bits),
            None => map,
        })
    }

    /// How many keys are sorted at a time, as things are.
    fn batch_size(&self) -> usize {
        if let Some(batch) = self.batch {
            return batch;
        }
        let keys = lock(&self.state).keys / BATCHES;
        let size = usize::try_from(keys).unwrap_or(LARGEST_BATCH).clamp(BATCH, LARGEST_BATCH);
        match self.options.memory_limit {
            // Half of it for batches and what they are packed to, half for packed ones.
            Some(limit) => {
                let each = limit / 2 / self.options.thread_count() as u64 / (2 * size_of::<u128>() as u64);
                size.min(usize::try_from(each).unwrap_or(size)).max(SMALLEST_BATCH)
            }
            None => size,
        }
    }

    /// Sorts a batch and puts it away; it is empty then.
    fn pack(&self, batch: &mut Vec<u128>) -> Result<()> {
        let mut repeats = Repeats::default();
        sort(batch, &mut repeats);
        let held = lock(&self.state).memory;
        let beyond = self.options.memory_limit.is_some_and(|limit| held >= limit / 2);
        let spill = if beyond { Some(self.spill_file()?) } else { None };
        let (source, memory) = Source::pack(batch, spill)?;
        let mut state = lock(&self.state);
        state.sources.push(source);
        state.repeats.add(repeats);
        state.keys = state.keys.saturating_add(batch.len() as u64);
        state.memory += memory;
        batch.clear();
        Ok(())
    }

    fn spill_file(&self) -> Result<&Arc<SpillFile>> {
        if let Some(file) = self.spill.get() {
            return Ok(file);
        }
        let Some(dir) = &self.options.spill_dir else {
            let limit = self.options.memory_limit.unwrap_or_default();
            return Err(Error::invalid_config(format!("the IDs do not fit in the memory limit: limit={limit}"))
                .with_hint("raise the limit, or name a directory to spill to"));
        };
        let file = SpillFile::create(dir)?;
        Ok(self.spill.get_or_init(|| file))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
