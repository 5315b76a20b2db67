//! The IDs that count, while it is decided which do.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::{
    CompactIdSet, GrowingIdSet, HashKey, IdClass, IdColumn, IdSet, IdSetBuilder, IdSetOptions, Layers, merge_sets,
};
use crate::runtime::{Runtime, blocking};

/// A set of so few bytes is merged with what came later, whatever that is; sets of ranges always are.
const SMALL: u64 = 256 << 20;
/// A larger one only where what came later is more than one part in so many.
const SHARE: u64 = 8;

/// The IDs that count. Most are pushed, by many threads, and can only be asked for when all are in; then more are
/// inserted one record at a time, each after a look at those that are there.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    options: IdSetOptions,
    /// What is pushed and cannot be asked for yet.
    pushed: Option<Arc<IdSetBuilder>>,
    /// What can.
    set: GrowingIdSet,
}

impl Gathered {
    pub(crate) fn new(options: IdSetOptions, runtime: &dyn Runtime) -> Self {
        let random = || (u128::from(runtime.random()) << 64 | u128::from(runtime.random())).to_le_bytes();
        let hash_key = options.hash_key.unwrap_or_else(|| HashKey::new(random()));
        let options = IdSetOptions { hash_key: Some(hash_key), ..options };
        Self { set: GrowingIdSet::new(options.clone()), pushed: None, options }
    }

    /// As [`Gathered::new`], with a set that was built before and saved.
    pub(crate) fn with_saved(options: IdSetOptions, set: CompactIdSet, runtime: &dyn Runtime) -> Self {
        let hash_key = set.hash_key().or(options.hash_key);
        let mut gathered = Self::new(IdSetOptions { hash_key, ..options }, runtime);
        gathered.set.add_set(set);
        gathered
    }

    /// All of it as one set, which stays here too.
    ///
    /// # Errors
    /// As [`IdSetBuilder::finish`].
    pub(crate) async fn pack(&mut self, runtime: &dyn Runtime) -> Result<CompactIdSet> {
        self.freeze(runtime).await?;
        let set = std::mem::take(&mut self.set);
        let packed = blocking(runtime, move || {
            let (mut sets, options) = set.into_sets()?;
            let one = if sets.len() == 1 { sets.remove(0) } else { merge_sets(&options, sets)? };
            let mut set = GrowingIdSet::new(options);
            set.add_set(one.clone());
            Ok((one, set))
        });
        let (one, set) = packed.await?;
        self.set = set;
        Ok(one)
    }

    /// What IDs are pushed to, until the first look.
    pub(crate) fn builder(&mut self) -> Arc<IdSetBuilder> {
        let options = &self.options;
        self.pushed.get_or_insert_with(|| Arc::new(IdSetBuilder::new(options.clone()))).clone()
    }

    /// The secret of the keys.
    pub(crate) fn hash_key(&self) -> HashKey {
        self.options.key_or_random()
    }

    /// The class of the IDs so far.
    pub(crate) fn class(&self) -> Option<&IdClass> {
        self.pushed.as_ref().and_then(|builder| builder.class()).or_else(|| self.set.class())
    }

    /// Makes what was pushed fit to be asked for.
    ///
    /// # Errors
    /// As [`IdSetBuilder::finish`].
    pub(crate) async fn freeze(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let Some(builder) = self.pushed.take() else { return Ok(()) };
        let Some(builder) = Arc::into_inner(builder) else {
            return Err(Error::bad_data("IDs are looked up while others are still loaded"));
        };
        self.set.add_set(blocking(runtime, move || builder.finish()).await?);
        Ok(())
    }

    /// The first row of a column that is in it, by what is frozen and what was inserted.
    ///
    /// # Errors
    /// `BadData` when the column is of another class.
    pub(crate) fn first_common(&self, ids: &IdColumn) -> Result<Option<usize>> {
        self.set.first_common(ids)
    }

    /// Adds the IDs of a record, none of which is there; the next look finds them.
    ///
    /// # Errors
    /// `BadData` when they are of another class; or as [`IdSetBuilder::finish`].
    pub(crate) async fn insert(&mut self, runtime: &dyn Runtime, ids: &IdColumn) -> Result<()> {
        self.set.add(ids)?;
        if self.set.is_due() {
            let mut set = std::mem::take(&mut self.set);
            let packed = blocking(runtime, move || set.pack().map(|()| set));
            self.set = packed.await?;
        }
        Ok(())
    }

    /// All of it, as one set; unless it is to be flat, a large one and a small one that came later are left as two.
    ///
    /// # Errors
    /// As [`IdSetBuilder::finish`].
    pub(crate) async fn into_set(mut self, runtime: &dyn Runtime, flat: bool) -> Result<Arc<dyn IdSet>> {
        self.freeze(runtime).await?;
        let set = self.set;
        blocking(runtime, move || {
            let (mut sets, options) = set.into_sets()?;
            let later: u64 = sets.iter().skip(1).map(IdSet::len).sum();
            let (first, bytes) = sets.first().map_or((0, 0), |set| (set.len(), set.memory()));
            if !flat && later > 0 && bytes > SMALL && later <= first / SHARE {
                let later = merge_sets(&options, sets.split_off(1))?;
                sets.push(later);
                return Ok(Arc::new(Layers::new(sets)) as Arc<dyn IdSet>);
            }
            Ok(Arc::new(if sets.len() == 1 { sets.remove(0) } else { merge_sets(&options, sets)? }) as Arc<dyn IdSet>)
        })
        .await
    }
}
