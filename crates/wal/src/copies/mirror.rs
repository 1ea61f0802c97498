//! `Mirror`: several copies of a log directory as one directory for writing. Each call on the log directory is made in
//! every live copy, at the same time.
//!
//! A call fails only if it succeeded in too few copies; the log then handles it as a failed file. Otherwise a copy that
//! failed, or took longer than `wal.copy_stall` after the others were done, is left out: it no longer counts, a warning
//! names it, and the frame writer records the change in the next segment before anything more is acknowledged
//! (`settle`).
//!
//! # Invariants
//! - I1. A call that returned success succeeded in every live copy. A write or sync of frames under
//!   `wal.copies_required = quorum` succeeded in a majority of the configured ones, and the others get it too, in
//!   order.
//! - I2. A copy that was left out is not touched again except by its catch-up: its waiting calls are dropped. So a copy
//!   holds a segment's first frame only if everything before was synced in it.
//! - I3. Fewer than `wal.copies_min` copies, or fewer than a majority under `quorum`, never count as success.
//! - I4. Every change of the copies that take part raises `change`; nothing is acknowledged before a LINK with the new
//!   number is durable in all that are live then.
//! - I5. A copy that comes back counts for I3 only once a LINK that counts it is durable in all that were live before:
//!   otherwise one of those could be absent later without a record that the copy had joined.
//! - I6. While the log is being opened, a failing copy fails the opening. If it has no room, the next try
//!   (`recover::open`) leaves it out and counts it as absent.
//!
//! # States of a copy
//! live -> (failure, stall) -> down -> (caught up) -> joining -> (LINK durable) -> live; joining -> (failure) -> down.
//!
//! `members` decides which copies take part (I2 to I6), `round` makes one call in all of them (I1 to I3), `files`
//! implements the directory, `lane` the threads, `catch_up` the return of a copy.
//!
//! Checked by `mirror_tests`: each failing call, stalls, loss of all but one, power cuts while degraded and joining.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use collie_env::{FileLock, Files};
use parking_lot::{Condvar, Mutex, RwLock};

use super::{
    Census,
    lane::Lane,
    members::{Copy, Rules, Shared, State},
    repair::unmark,
};
use crate::{CopiesRequired, CopyStat, CopyState, Options, format::CopyCounts};

/// Several directories, written as one; paths are those in the log directory. Clones are handles of the same mirror.
#[derive(Clone, Debug)]
pub(crate) struct Mirror(pub(super) Arc<Shared>);

impl Mirror {
    /// Mirrors the log directory in the usable copies of `census`, which are equal already. `dirs` are all configured
    /// directories, and `locks` has the lock of each that could be locked.
    ///
    /// # Errors
    /// An I/O error if a thread cannot be started.
    pub(crate) fn new(
        files: Arc<dyn Files>,
        dirs: Vec<PathBuf>,
        locks: &[Option<Arc<dyn FileLock>>],
        census: &Census,
        options: &Options,
    ) -> io::Result<Self> {
        let rules = Rules {
            // Fewer than a majority cannot hold a quorum: a log opened with them needs all live copies.
            quorum: options.copies_required == CopiesRequired::Quorum
                && options.open_with.is_none_or(|copies| copies as usize > dirs.len() / 2),
            copies_min: options.copies_min as usize,
            stall: options.copy_stall,
            threads: options.threads,
        };
        let away = |(index, lock): (usize, &Option<Arc<dyn FileLock>>)| Copy {
            state: CopyState::Down,
            why: census.why_left_out_by(index).unwrap_or("not there when the log was opened").to_owned(),
            lock: lock.clone(),
            lanes: None,
            changes: None,
        };
        let mut copies: Vec<Copy> = locks.iter().enumerate().map(away).collect();
        for copy in census.usable() {
            let slot = &mut copies[copy.index];
            slot.state = CopyState::Live;
            slot.why.clear();
            slot.start_lanes(copy.index, rules.threads)?;
        }
        Ok(Self(Arc::new(Shared {
            files,
            home: dirs[0].clone(),
            dirs,
            rules,
            warnings: options.warnings.clone(),
            opened: AtomicBool::new(false),
            failed: Mutex::default(),
            state: Mutex::new(State { copies, change: 0, linked: 0, files: Vec::new() }),
            changed: Condvar::new(),
            gate: RwLock::new(()),
            stop: AtomicBool::new(false),
            watch: Mutex::new(None),
        })))
    }

    /// Takes the copy that failed the opening, with its error, if one did (I6).
    pub(crate) fn failed(&self) -> Option<(usize, io::Error)> {
        self.0.failed.lock().take()
    }

    /// Ends the opening: from here on a copy may fail without failing the log (I6).
    pub(crate) fn opened(&self) {
        self.0.opened.store(true, Ordering::Relaxed);
    }

    /// Returns whether a durable LINK records the current live copies (I4).
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.0.state.lock();
        state.change == state.linked
    }

    /// Returns the counts that a LINK written now would have.
    pub(crate) fn counts(&self) -> CopyCounts {
        self.0.counts(&self.0.state.lock())
    }

    /// Confirms that a LINK with these `counts` is durable in all copies that take part: joining copies become live
    /// (I5).
    pub(crate) fn confirm(&self, counts: CopyCounts) {
        let mut state = self.0.state.lock();
        if state.change != counts.change {
            return;
        }
        state.linked = counts.change;
        let mut joined = Vec::new();
        for (index, copy) in state.copies.iter_mut().enumerate() {
            if copy.state == CopyState::Joining {
                copy.state = CopyState::Live;
                if let Some(lanes) = &copy.lanes {
                    joined.push((index, lanes[1].clone()));
                }
            }
        }
        drop(state);
        for (index, lane) in joined {
            let shared = self.0.clone();
            lane.submit(Box::new(move || {
                if let Err(error) = unmark(&*shared.files, &shared.dirs[index]) {
                    shared.lose(index, &error.to_string());
                }
            }));
            let dir = self.0.dirs[index].display();
            self.0.warnings.note(format!("wal: the copy in {dir} is up to date again and counts"));
        }
    }

    /// Returns the state of each copy, and the reason if it is down.
    pub(crate) fn standing(&self) -> Vec<CopyStat> {
        let state = self.0.state.lock();
        let stat =
            |(dir, copy): (&PathBuf, &Copy)| CopyStat { dir: dir.clone(), state: copy.state, why: copy.why.clone() };
        self.0.dirs.iter().zip(&state.copies).map(stat).collect()
    }

    /// Starts the thread that brings copies back; it calls `settle` so that the frame writer records copies that joined
    /// or left.
    ///
    /// # Errors
    /// An I/O error if the thread cannot be started.
    pub(crate) fn start_watch(&self, settle: impl Fn() + Send + 'static) -> io::Result<()> {
        let lane = Lane::start("wal-copies", None)?;
        let mirror = self.clone();
        lane.submit(Box::new(move || {
            while mirror.watch() {
                mirror.catch_up();
                settle();
            }
        }));
        *self.0.watch.lock() = Some(lane);
        Ok(())
    }

    /// Ends the threads. The thread of a copy that hangs stays, with its lock (`lane` N2).
    pub(crate) fn stop(&self) {
        {
            let _state = self.0.state.lock();
            self.0.stop.store(true, Ordering::Relaxed);
            self.0.changed.notify_all();
        }
        if let Some(watch) = self.0.watch.lock().take() {
            watch.stop(self.0.rules.stall);
        }
        let lanes: Vec<Arc<Lane>> = {
            let mut state = self.0.state.lock();
            state.copies.iter_mut().for_each(|copy| copy.lock = None);
            state.copies.iter_mut().filter_map(|copy| copy.lanes.take()).flatten().collect()
        };
        lanes.iter().for_each(|lane| lane.stop(self.0.rules.stall));
    }
}
