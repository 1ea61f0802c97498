//! Loads the levels into families at an opening: one thread reads each tree, several trees in parallel; all threads
//! build rows from the entries and put them into their families.
//!
//! # Invariants
//! - A1. Every family of a tree exists afterwards, even without rows.
//! - A2. The families are used for nothing else during the load.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};

use collie_base::{CfId, Lsn, Map};
use collie_obs::{LevelOpen, word};
use collie_store::{Family, Levels, TreeId};
use parking_lot::Mutex;

use crate::EngineError;
use crate::families::Families;
use crate::open::progress::{Meter, OpenPhase, PROGRESS_RECORDS};

/// Result of loading the levels.
#[derive(Debug)]
pub(crate) struct LoadedLevels {
    /// The position of each family's last flush.
    pub(crate) flushed: Map<CfId, Lsn>,
    /// Number of rows loaded.
    pub(crate) rows: u64,
}

/// Loads every tree into empty families with up to `threads` threads; with one, the calling thread does the work.
///
/// # Errors
/// An error of the levels for one of the trees; a key that occurs twice.
pub(crate) fn load(
    levels: &Levels,
    families: &Families,
    threads: usize,
    meter: &mut Meter<'_>,
) -> Result<LoadedLevels, EngineError> {
    let mut trees = levels.trees();
    for cf in trees.iter().flat_map(|tree| &tree.cfs) {
        families.get_or_make(*cf); // A1
    }
    // The largest first, so that no large tree is read alone at the end.
    trees.sort_by_key(|tree| Reverse(tree.live_keys));
    let live_keys: u64 = trees.iter().map(|tree| tree.live_keys).sum();
    let bytes: u64 = levels.stat().trees.iter().map(|tree| tree.bytes).sum();
    meter.begin(OpenPhase::Levels, bytes);
    let span = collie_obs::start::<LevelOpen>();
    let mut rows = 0;
    let mut note = |more: u64| {
        rows += more;
        let done = u128::from(bytes) * u128::from(rows) / u128::from(live_keys.max(1));
        meter.note(u64::try_from(done).unwrap_or(bytes).min(bytes), rows);
    };
    let ids: Vec<TreeId> = trees.iter().map(|tree| tree.id).collect();
    load_side_by_side(levels, families, threads, &ids, &mut note)?;
    if let Some(span) = span {
        let loaded = LevelOpen { rows: word(rows), bytes: word(bytes), trees: word(ids.len()) };
        span.stop_with(levels.log_start(), loaded, [bytes]);
    }
    // Not before: loading decides which flush was the last.
    let mut flushed = Map::default();
    for tree in levels.trees() {
        flushed.extend(tree.cfs.iter().map(|cf| (*cf, tree.flush_lsn)));
    }
    Ok(LoadedLevels { flushed, rows })
}

/// Bytes of keys and values, and rows, of one [`Run`]: enough to make the cost of copying an index's directory for
/// each run negligible.
const RUN_BYTES: usize = 4 << 20;
const RUN_ROWS: usize = 32_768;

/// Rows of one family, in the order of their keys, that are to be put into memory.
#[derive(Debug)]
struct Run {
    family: Arc<Family>,
    bytes: Vec<u8>,
    /// For each row: where its key and its value end in `bytes`, and its commit position.
    rows: Vec<(usize, usize, Lsn)>,
}

impl Run {
    fn new(family: Arc<Family>) -> Self {
        Self { family, bytes: Vec::new(), rows: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= RUN_BYTES || self.rows.len() >= RUN_ROWS
    }

    fn push(&mut self, key: &[u8], value: &[u8], csn: Lsn) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.rows.push((key_end, self.bytes.len(), csn));
    }

    /// Puts the rows into their family.
    fn load(&self) -> Result<(), EngineError> {
        let Some((.., first)) = self.rows.first() else { return Ok(()) };
        let mut start = 0;
        let entries = self.rows.iter().map(|(key_end, value_end, csn)| {
            let entry = (&self.bytes[start..*key_end], &self.bytes[*key_end..*value_end], *csn);
            start = *value_end;
            entry
        });
        let is_new = self.family.load_all_from_levels(entries);
        let twice = EngineError::Corruption { lsn: *first, what: "keys that their levels hold twice" };
        is_new.then_some(()).ok_or(twice)
    }
}

/// State that all loading threads share.
struct Work<'a> {
    levels: &'a Levels,
    families: &'a Families,
    trees: &'a [TreeId],
    /// The tree to be read next.
    next: AtomicUsize,
    /// Runs that were read. A thread that has no tree left to read takes them; when the channel is full, the
    /// reading thread loads its run itself.
    runs: Mutex<Receiver<Run>>,
}

impl Work<'_> {
    /// Reads trees while there are any, then loads runs until no thread reads any more. Reports to `note` how many
    /// rows were read.
    fn go(&self, read: SyncSender<Run>, note: &mut dyn FnMut(u64)) -> Result<(), EngineError> {
        let done = self.read_and_load(read, note);
        if done.is_err() {
            self.next.store(self.trees.len(), Relaxed); // the other threads end after the tree that they read
        }
        done
    }

    fn read_and_load(&self, read: SyncSender<Run>, note: &mut dyn FnMut(u64)) -> Result<(), EngineError> {
        while let Some(tree) = self.trees.get(self.next.fetch_add(1, Relaxed)) {
            self.read_tree(*tree, &read, note)?;
        }
        drop(read);
        loop {
            // A statement of its own, so that the lock is released before the work begins.
            let run = self.runs.lock().recv();
            let Ok(run) = run else { return Ok(()) };
            run.load()?;
        }
    }

    fn read_tree(&self, tree: TreeId, read: &SyncSender<Run>, note: &mut dyn FnMut(u64)) -> Result<(), EngineError> {
        let (mut run, mut rows, mut failed) = (None::<Run>, 0, Ok(()));
        let loaded = self.levels.load(tree, &mut |entry| {
            if run.as_ref().is_some_and(|run| run.is_full() || run.family.id() != entry.cf)
                && let Some(full) = run.take()
                && failed.is_ok()
            {
                failed = give(full, read);
            }
            run.get_or_insert_with(|| Run::new(self.families.get_or_make(entry.cf))).push(
                entry.key,
                entry.value,
                entry.csn,
            );
            rows += 1;
            if rows == PROGRESS_RECORDS {
                note(std::mem::take(&mut rows));
            }
        });
        loaded.map_err(EngineError::levels)?;
        note(rows);
        failed.and_then(|()| run.map_or(Ok(()), |run| run.load()))
    }
}

/// Hands a run to another thread for loading, or loads it if too many runs wait already.
fn give(run: Run, read: &SyncSender<Run>) -> Result<(), EngineError> {
    match read.try_send(run) {
        Ok(()) => Ok(()),
        Err(TrySendError::Full(run) | TrySendError::Disconnected(run)) => run.load(),
    }
}

/// Loads trees with several threads: each reads the next tree when it is done with one, and when none is left loads
/// runs for the threads that still read. The calling thread only collects the reports; with `threads` below 2, or
/// if no thread can be started, it does all the work.
fn load_side_by_side(
    levels: &Levels,
    families: &Families,
    threads: usize,
    trees: &[TreeId],
    note: &mut dyn FnMut(u64),
) -> Result<(), EngineError> {
    let (read, runs) = sync_channel(threads);
    let (tell, told) = channel();
    let work = Work { levels, families, trees, next: AtomicUsize::new(0), runs: Mutex::new(runs) };
    std::thread::scope(|scope| {
        let mut started = 0;
        for number in 0..if threads < 2 { 0 } else { threads } {
            let (tell, read, work) = (tell.clone(), read.clone(), &work);
            let start =
                std::thread::Builder::new().name(format!("collie-open-{number}")).spawn_scoped(scope, move || {
                    let done = work.go(read, &mut |rows| {
                        let _ = tell.send(Ok(rows)); // the receiver lives to the end
                    });
                    if let Err(error) = done {
                        let _ = tell.send(Err(error));
                    }
                });
            if start.is_err() {
                break;
            }
            started += 1;
        }
        drop(tell);
        if started == 0 {
            return work.go(read, note);
        }
        drop(read);
        let mut result = Ok(());
        for event in told {
            match event {
                Ok(rows) => note(rows),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    })
}
