//! A row while its directory is being opened: no thread reads it, and one thread at a time changes it.
//!
//! # Invariants
//! - D1. Of the commits applied to a row the one with the highest position stays, in whatever order they arrive; of one
//!   commit, the last write.
//! - D2. A deletion leaves a tombstone while the levels hold a value (L3 of `row/flush.rs`) and while an older commit
//!   may still arrive; otherwise a dead row.
//!
//! Checked by the family's tests, and by the engine's replay against a map.

use std::ptr;
use std::sync::Arc;

use collie_base::Lsn;

use super::Row;
use super::chain::{retire, walk};
use super::head::DEAD;
use super::version::Version;
use crate::epoch::Pin;
use crate::key::Key;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The growth of versions, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grown {
    /// Of old versions, which are deletions.
    pub(crate) old: i64,
    /// Of all versions.
    pub(crate) all: i64,
}

impl Row {
    /// Returns a row that was deleted at `csn`, in no index yet.
    pub(crate) fn deleted(key: Key, csn: Lsn) -> Arc<Self> {
        Arc::new(Self::over(key, Box::into_raw(Version::deleted(csn))))
    }

    /// Replaces the content with that of a commit at `csn`. Returns `None` and changes nothing if the row has that of a
    /// later commit (D1), from an interrupted flush or from a write applied ahead of its place in the log. With
    /// `is_settled` no older commit will arrive (D2).
    pub(crate) fn load(&self, value: Option<&[u8]>, csn: Lsn, is_settled: bool, pin: &Pin) -> Option<Grown> {
        let head = self.head.load(Acquire);
        let newest = walk(head, pin).next().map(|(_, version)| version);
        if newest.is_some_and(|version| version.stamp.load(Acquire) > csn.get()) {
            return None;
        }
        let before = newest.map_or(Grown::default(), |version| self.counted(version));
        let new = match value {
            Some(value) => Some(Version::committed(value, csn)),
            None if self.is_on_disk() || !is_settled => Some(Version::deleted(csn)),
            None => None,
        };
        let after = new.as_ref().map_or(Grown::default(), |version| self.counted(version));
        let new = new.map_or(DEAD, Box::into_raw);
        retire(self.head.swap(new, AcqRel), ptr::null_mut(), pin);
        Some(Grown { old: after.old - before.old, all: after.all - before.all })
    }

    /// Returns the stamp of the newest version; 0 if there is none.
    pub(crate) fn newest_stamp(&self, pin: &Pin) -> u64 {
        walk(self.head.load(Acquire), pin).next().map_or(0, |(_, version)| version.stamp.load(Relaxed))
    }

    /// Makes the row dead if its newest state is still the deletion at `csn`, kept only because older commits might
    /// have arrived (D2).
    pub(crate) fn settle(&self, csn: Lsn, pin: &Pin) -> Grown {
        let newest = walk(self.head.load(Acquire), pin).next().map(|(_, version)| version);
        let deletion = newest.filter(|version| version.value().is_none() && version.stamp.load(Acquire) == csn.get());
        let Some(deletion) = deletion.filter(|_| !self.is_on_disk()) else { return Grown::default() };
        let counted = self.counted(deletion);
        retire(self.head.swap(DEAD, AcqRel), ptr::null_mut(), pin);
        Grown { old: -counted.old, all: -counted.all }
    }

    /// Returns the version's bytes; a deletion counts as old too.
    fn counted(&self, version: &Version) -> Grown {
        let old = if version.value().is_some() { 0 } else { self.old_bytes(version) };
        Grown { old: i64::try_from(old).unwrap_or(i64::MAX), all: i64::from(version.counted_bytes()) }
    }
}
