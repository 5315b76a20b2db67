//! Files whose turn has not come yet, looked at meanwhile: the reader does not wait for one request after the
//! other.

use std::collections::VecDeque;
use std::sync::Arc;

use checkpoint_store::{ExactIdSet, IdSet};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::probe::FirstLook;
use super::rows::Rows;
use super::scout::{Closeness, Scout};
use super::stretches::{Stretch, send_stretches};
use crate::error::{Error, Result};
use crate::input::{FileAccess, SourceFile};

/// Files that are looked at while another is read.
const FILES_AHEAD: usize = 8;
/// Stretches of a file that wait to be read.
const STRETCHES_AHEAD: usize = 4;

/// Looks at the files of a job, in order.
pub(super) struct Lanes {
    rows: Arc<Rows>,
    done: Arc<dyn IdSet>,
    with_ids: bool,
    handle: Handle,
    halt: CancellationToken,
    look: FirstLook,
    started: usize,
    ahead: VecDeque<Lane>,
}

/// One file: the stretches of its rows, as they become known.
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) file: Arc<SourceFile>,
    pub(super) access: Arc<FileAccess>,
    stretches: mpsc::Receiver<Result<Stretch>>,
    looking: JoinHandle<()>,
}

impl Lanes {
    /// Looks at nothing yet. `with_ids` asks for the IDs of done rows.
    pub(super) fn new(
        rows: Arc<Rows>,
        done: Arc<dyn IdSet>,
        with_ids: bool,
        halt: CancellationToken,
        look: FirstLook,
    ) -> Self {
        rows.read_ahead().set_turn(0);
        Self {
            rows,
            done,
            with_ids,
            handle: Handle::current(),
            halt,
            look,
            started: 0,
            ahead: VecDeque::with_capacity(FILES_AHEAD + 1),
        }
    }

    /// The next file, whose turn it is now; `None` after the last.
    pub(super) fn next(&mut self) -> Option<Lane> {
        while self.ahead.len() <= FILES_AHEAD && self.start_one() {}
        let lane = self.ahead.pop_front()?;
        self.rows.read_ahead().set_turn(lane.index);
        Some(lane)
    }

    fn start_one(&mut self) -> bool {
        let Some(file) = self.rows.files.get(self.started).cloned() else { return false };
        let index = self.started;
        self.started += 1;
        let access = self.look.first.take().unwrap_or_else(|| self.rows.access(index, &file));
        // Nothing is done in the first files, which were looked at already: none of their rows can be left out.
        let done: Arc<dyn IdSet> =
            if index < self.look.untouched { Arc::new(ExactIdSet::new()) } else { self.done.clone() };
        let (sender, stretches) = mpsc::channel(STRETCHES_AHEAD);
        let look = LookAt {
            rows: self.rows.clone(),
            index,
            file: file.clone(),
            access: access.clone(),
            done,
            with_ids: self.with_ids,
            halt: self.halt.clone(),
        };
        let looking = self.handle.spawn_blocking(move || {
            if let Err(error) = look.run(&sender) {
                // Nobody listens any more when the run is over.
                let _ = sender.blocking_send(Err(error));
            }
        });
        self.ahead.push_back(Lane { index, file, access, stretches, looking });
        true
    }
}

impl Lane {
    /// The next stretch; `None` at the end of the file. Blocks.
    ///
    /// # Errors
    /// As looking at the file gives.
    pub(super) fn next(&mut self) -> Result<Option<Stretch>> {
        match self.stretches.blocking_recv() {
            Some(stretch) => stretch.map(Some),
            None => match Handle::current().block_on(&mut self.looking) {
                Ok(()) => Ok(None),
                Err(died) => Err(Error::bad_data(format!("looking at an input file failed: {died}"))
                    .with_hint("the file may be damaged in a way that is not known; please report this")),
            },
        }
    }
}

/// What one file is looked at with.
struct LookAt {
    rows: Arc<Rows>,
    index: usize,
    file: Arc<SourceFile>,
    access: Arc<FileAccess>,
    done: Arc<dyn IdSet>,
    with_ids: bool,
    halt: CancellationToken,
}

impl LookAt {
    fn run(&self, sender: &mpsc::Sender<Result<Stretch>>) -> Result<()> {
        let total = self.rows.totals.get(self.index).copied().flatten();
        let closeness = Closeness { exact: false, with_ids: self.with_ids };
        let mut scout = Scout::new(&self.rows, &self.file, &self.access, total, &self.done, closeness)?;
        let _end = self.access.end();
        for part in scout.parts(total) {
            let mut sink = |stretch| !self.halt.is_cancelled() && sender.blocking_send(Ok(stretch)).is_ok();
            if !send_stretches(&mut scout, &part, &self.access, &mut sink)? {
                break;
            }
        }
        Ok(())
    }
}
