//! `Stamper`: the versions of commits that were too many to stamp before waiters proceed.
//!
//! Such a commit is published and done at once, and its versions carry its xid a little longer: readers ask the map.
//! The next tick stamps them.
//!
//! # Invariants
//! - P1. A transaction in here is done and not finished, so that the map or `sparse` answers for it (M2) until all its
//!   versions are stamped.
//! - P2. Every [`Unstamped`] is stamped exactly once: by a tick, by the committer that finds no room, or when the
//!   transactions are dropped.
//!
//! Progress: a committer takes one short lock and never waits for stamping; a tick blocks on another tick's stamping.
//!
//! Checked by the model of slot reuse with a handed-over version (V8 in `loom_tests.rs`).

use crate::{desc::Desc, xid_map::XidMap};
use collie_base::Lsn;
use collie_sync::{Mutex, mutant};
use std::{collections::VecDeque, fmt, sync::Arc};

/// Approximate number of versions that may wait for a tick: above it a commit stamps its own versions.
const VERSIONS_WAITING_MAX: u64 = 1 << 21;

/// The versions of one published commit, to be stamped once, by any thread.
pub struct Unstamped {
    versions: u64,
    stamp: Box<dyn FnOnce(Lsn) + Send>,
}

impl Unstamped {
    /// Creates one. `stamp` stores the commit's CSN in each of this many versions (Release). It does not wait and calls
    /// no session.
    pub fn new(versions: u64, stamp: impl FnOnce(Lsn) + Send + 'static) -> Self {
        Self { versions, stamp: Box::new(stamp) }
    }
}

impl fmt::Debug for Unstamped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstamped").field("versions", &self.versions).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Commit {
    desc: Arc<Desc>,
    csn: Lsn,
    versions: Unstamped,
}

impl Commit {
    fn stamp(self, map: &XidMap) {
        if mutant!("FINISHED_BEFORE_STAMPED") {
            map.note_stamped(&self.desc);
        }
        (self.versions.stamp)(self.csn);
        map.note_stamped(&self.desc); // P1
    }
}

#[derive(Debug, Default)]
struct Waiting {
    commits: VecDeque<Commit>,
    versions: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Stamper {
    waiting: Mutex<Waiting>,
    /// Held while a thread stamps.
    stamping: Mutex<()>,
}

impl Stamper {
    /// Takes the versions of `desc`, which is done, to be stamped by the next tick; stamps them now if there is no
    /// room.
    pub(crate) fn take(&self, map: &XidMap, desc: &Arc<Desc>, csn: Lsn, versions: Unstamped) {
        let commit = Commit { desc: Arc::clone(desc), csn, versions };
        let mut waiting = self.waiting.lock();
        if waiting.versions >= VERSIONS_WAITING_MAX {
            drop(waiting);
            return commit.stamp(map);
        }
        waiting.versions += commit.versions.versions;
        waiting.commits.push_back(commit);
    }

    /// Stamps all versions taken before the call, and returns how many this thread stamped.
    pub(crate) fn stamp(&self, map: &XidMap) -> u64 {
        let _one = self.stamping.lock();
        let mut stamped = 0;
        loop {
            let next = self.waiting.lock().commits.pop_front();
            let Some(commit) = next else { return stamped };
            let versions = commit.versions.versions;
            commit.stamp(map);
            self.waiting.lock().versions -= versions;
            stamped += versions;
        }
    }

    /// Returns how many versions wait to be stamped.
    pub(crate) fn len(&self) -> u64 {
        self.waiting.lock().versions
    }
}

impl Drop for Stamper {
    fn drop(&mut self) {
        let commits = std::mem::take(&mut self.waiting.lock().commits);
        commits.into_iter().for_each(|commit| (commit.versions.stamp)(commit.csn)); // P2: there are no readers left
    }
}
