//! Which copies take part in a running log, which of them count, and how they are left out and come back.
//!
//! `mirror` defines invariants I2 to I6 and the states of a copy; this module keeps them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

use collie_env::{FileLock, Files};
use parking_lot::{Condvar, Mutex, RwLock};

use super::{catch_up::Changes, files::MirrorFile, lane::Lane};
use crate::{CopyState, Warnings, format::CopyCounts};

/// The rules, from the options.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) quorum: bool,
    pub(super) copies_min: usize,
    pub(super) stall: Duration,
    pub(super) threads: bool,
}

/// One copy while the log runs.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) state: CopyState,
    /// The reason why it is down.
    pub(super) why: String,
    pub(super) lock: Option<Arc<dyn FileLock>>,
    pub(super) lanes: Option<[Arc<Lane>; 2]>,
    /// Changes that a running catch-up has not seen.
    pub(super) changes: Option<Changes>,
}

/// The copies, and what the LINKs say about them.
#[derive(Debug)]
pub(super) struct State {
    pub(super) copies: Vec<Copy>,
    pub(super) change: u32,
    /// The last change that a durable LINK records.
    pub(super) linked: u32,
    pub(super) files: Vec<Weak<MirrorFile>>,
}

/// State shared by the handles of a mirror.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) files: Arc<dyn Files>,
    pub(super) home: PathBuf,
    /// All configured directories, in order.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) rules: Rules,
    pub(super) warnings: Warnings,
    /// Whether the opening is over (I6).
    pub(super) opened: AtomicBool,
    /// The copy that failed the opening, with the error (I6).
    pub(super) failed: Mutex<Option<(usize, io::Error)>>,
    pub(super) state: Mutex<State>,
    /// Notified when a copy goes down or the log closes.
    pub(super) changed: Condvar,
    /// Locked for reading while a call is made and noted, for writing while a copy joins.
    pub(super) gate: RwLock<()>,
    pub(super) stop: AtomicBool,
    pub(super) watch: Mutex<Option<Lane>>,
}

impl Copy {
    pub(super) fn start_lanes(&mut self, index: usize, threads: bool) -> io::Result<()> {
        if self.lanes.is_none() {
            let lane = |name: &str| match threads {
                true => Lane::start(&format!("wal-{name}-{index}"), self.lock.clone()),
                false => Ok(Lane::inline()),
            };
            self.lanes = Some([Arc::new(lane("copy")?), Arc::new(lane("names")?)]);
        }
        Ok(())
    }

    /// Returns whether no call is waiting or running in it.
    pub(super) fn is_idle(&self) -> bool {
        self.lanes.iter().flatten().all(|lane| lane.waiting() == 0)
    }

    pub(super) fn takes_part(&self) -> bool {
        self.state != CopyState::Down
    }
}

impl State {
    pub(super) fn live(&self) -> Vec<usize> {
        let live = |(index, copy): (usize, &Copy)| (copy.state == CopyState::Live).then_some(index);
        self.copies.iter().enumerate().filter_map(live).collect()
    }

    pub(super) fn reference(&self) -> Option<usize> {
        self.copies.iter().position(|copy| copy.state == CopyState::Live)
    }

    /// Returns the files that are open for writing.
    pub(super) fn open_files(&self) -> Vec<Arc<MirrorFile>> {
        self.files.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Shared {
    /// Returns for each copy the number of frame writes and syncs done, if one is running.
    pub(super) fn moves(&self) -> Vec<Option<u64>> {
        let state = self.state.lock();
        let part = |copy: &Copy| copy.lanes.as_ref().filter(|_| copy.takes_part())?[0].moves();
        state.copies.iter().map(part).collect()
    }

    fn majority(&self) -> usize {
        self.dirs.len() / 2 + 1
    }

    /// Returns the number of live copies in which a call must succeed (I3).
    pub(super) fn needed(&self) -> usize {
        if self.rules.quorum { self.majority().max(self.rules.copies_min) } else { self.rules.copies_min }
    }

    pub(super) fn counts(&self, state: &State) -> CopyCounts {
        let count = |n: usize| u16::try_from(n).expect("options bound the copies");
        let live = state.copies.iter().filter(|copy| copy.takes_part()).count();
        let required = if self.rules.quorum { self.majority() } else { live };
        let (required, configured) = (count(required), count(self.dirs.len()));
        CopyCounts { required, configured, quorum: self.rules.quorum, change: state.change }
    }

    /// Leaves a copy out (I2, I4).
    pub(super) fn lose(&self, index: usize, why: &str) {
        let (left, counts) = {
            let mut state = self.state.lock();
            let copy = &mut state.copies[index];
            if copy.state == CopyState::Down {
                return;
            }
            (copy.state, copy.why) = (CopyState::Down, why.to_owned());
            state.change += 1;
            let left = state.copies.iter().filter(|copy| copy.state == CopyState::Live).count();
            (left, self.counts(&state))
        };
        self.warnings.note(format!(
            "wal: the copy in {} is left out ({why}); {left} of {} copies go on",
            self.dirs[index].display(),
            counts.configured
        ));
        self.changed.notify_all();
    }

    /// Lets a copy that has caught up take part again; it counts once [`Mirror::confirm`] is called.
    pub(super) fn join(&self, index: usize) {
        let mut state = self.state.lock();
        let copy = &mut state.copies[index];
        copy.state = CopyState::Joining;
        copy.why.clear();
        copy.changes = None;
        state.change += 1;
    }

    /// Waits until a live copy has made all calls submitted before: under a quorum it may lag behind the durable
    /// position. Returns whether it has, and still takes part.
    pub(super) fn has_all(&self, index: usize) -> bool {
        let lane = {
            let state = self.state.lock();
            let copy = &state.copies[index];
            if !self.rules.quorum || !copy.takes_part() {
                return copy.takes_part();
            }
            copy.lanes.as_ref().map(|lanes| lanes[0].clone())
        };
        lane.is_none_or(|lane| lane.drain(self.rules.stall)) && self.state.lock().copies[index].takes_part()
    }

    pub(super) fn path_in(&self, index: usize, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.home) {
            // Joining an empty path would add a slash.
            Ok(rest) if rest.as_os_str().is_empty() => self.dirs[index].clone(),
            Ok(rest) => self.dirs[index].join(rest),
            Err(_) => path.to_owned(),
        }
    }
}
