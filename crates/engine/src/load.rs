//! Loading the levels into families, at open: each tree by one thread, several trees side by side.
//!
//! # Invariants
//! - A1. Every family of a tree is there afterwards, also without rows.
//! - A2. Nothing else is done to the families meanwhile.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Sender, channel};

use collie_base::{CfId, Lsn, Map};
use collie_store::{Family, Levels, TreeId};

use crate::EngineError;
use crate::families::Families;
use crate::progress::{Meter, OpenPhase, PROGRESS_RECORDS};

/// What the levels had.
#[derive(Debug)]
pub(crate) struct LoadedLevels {
    /// The position of each family's last flush.
    pub(crate) flushed: Map<CfId, Lsn>,
    /// How many rows there are.
    pub(crate) rows: u64,
}

/// Loads every tree into empty families, by up to `threads` threads; with one, the caller's does it.
///
/// # Errors
/// The levels', of one of the trees; a key that came twice.
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
    // The longest first, so that none is left for last.
    trees.sort_by_key(|tree| Reverse(tree.live_keys));
    let live_keys: u64 = trees.iter().map(|tree| tree.live_keys).sum();
    let bytes: u64 = levels.stat().trees.iter().map(|tree| tree.bytes).sum();
    meter.begin(OpenPhase::Levels, bytes);
    let mut rows = 0;
    let mut note = |more: u64| {
        rows += more;
        let done = u128::from(bytes) * u128::from(rows) / u128::from(live_keys.max(1));
        meter.note(u64::try_from(done).unwrap_or(bytes).min(bytes), rows);
    };
    let ids: Vec<TreeId> = trees.iter().map(|tree| tree.id).collect();
    if threads.min(ids.len()) < 2 {
        ids.iter().try_for_each(|tree| load_tree(levels, families, *tree, &mut note))?;
    } else {
        load_side_by_side(levels, families, threads, &ids, &mut note)?;
    }
    // Only now: loading settles which flush was the last.
    let mut flushed = Map::default();
    for tree in levels.trees() {
        flushed.extend(tree.cfs.iter().map(|cf| (*cf, tree.flush_lsn)));
    }
    Ok(LoadedLevels { flushed, rows })
}

/// Loads trees by several threads, of which each takes the next when it is done with one.
fn load_side_by_side(
    levels: &Levels,
    families: &Families,
    threads: usize,
    trees: &[TreeId],
    note: &mut dyn FnMut(u64),
) -> Result<(), EngineError> {
    let next = AtomicUsize::new(0);
    let (tell, told) = channel();
    let load_some = |tell: Sender<Result<u64, EngineError>>| {
        while let Some(tree) = trees.get(next.fetch_add(1, Relaxed)) {
            let loaded = load_tree(levels, families, *tree, &mut |rows| {
                let _ = tell.send(Ok(rows)); // the one who listens stays to the end
            });
            if let Err(error) = loaded {
                next.store(trees.len(), Relaxed); // the others end when they are done with theirs
                let _ = tell.send(Err(error));
            }
        }
    };
    std::thread::scope(|scope| {
        for number in 0..threads.min(trees.len()) {
            let (tell, load_some) = (tell.clone(), &load_some);
            let started = std::thread::Builder::new()
                .name(format!("collie-open-{number}"))
                .spawn_scoped(scope, move || load_some(tell));
            if started.is_err() {
                break;
            }
        }
        drop(tell);
        let mut result = Ok(());
        for event in told {
            match event {
                Ok(rows) => note(rows),
                Err(error) => result = result.and(Err(error)),
            }
        }
        // Where no thread could be had.
        while let Some(tree) = trees.get(next.fetch_add(1, Relaxed)).filter(|_| result.is_ok()) {
            result = load_tree(levels, families, *tree, note);
        }
        result
    })
}

/// Loads one tree. Tells `note` how many rows more there are, now and then.
fn load_tree(levels: &Levels, families: &Families, tree: TreeId, note: &mut dyn FnMut(u64)) -> Result<(), EngineError> {
    let (mut family, mut twice, mut rows) = (None::<Arc<Family>>, None, 0);
    let loaded = levels.load(tree, &mut |entry| {
        let family = match &family {
            Some(family) if family.id() == entry.cf => family,
            _ => family.insert(families.get_or_make(entry.cf)),
        };
        if !family.load_from_levels(entry.key, entry.value, entry.csn) {
            twice.get_or_insert(entry.csn);
        }
        rows += 1;
        if rows == PROGRESS_RECORDS {
            note(std::mem::take(&mut rows));
        }
    });
    loaded.map_err(EngineError::levels)?;
    note(rows);
    match twice {
        Some(lsn) => Err(EngineError::Corruption { lsn, what: "a key that its levels hold twice" }),
        None => Ok(()),
    }
}
