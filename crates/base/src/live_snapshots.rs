//! `LiveSnapshots`: the snapshots at which transactions may read now and later, as one scan of all snapshot slots
//! found them.
//!
//! A plain value: `txn` makes one every few milliseconds, and `store` uses it to free versions that no snapshot
//! sees. An old value stays correct for ever, it only frees less: every snapshot in use either was in it, or began
//! at or above its `up`.

use crate::Lsn;

/// The snapshots in use, and the position from which new ones start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSnapshots {
    /// No new snapshot begins below this position.
    up: Lsn,
    /// The snapshots in use below `up`, lowest first, without duplicates.
    below: Box<[Lsn]>,
}

impl LiveSnapshots {
    /// Makes the value from the snapshots in use, in any order; no snapshot will begin below `up`.
    #[must_use]
    pub fn new(up: Lsn, mut held: Vec<Lsn>) -> Self {
        held.retain(|snapshot| *snapshot < up);
        held.sort_unstable();
        held.dedup();
        Self { up, below: held.into_boxed_slice() }
    }

    /// Makes the value for which no transaction reads below `up`, now or later.
    #[must_use]
    pub fn none_below(up: Lsn) -> Self {
        Self::new(up, Vec::new())
    }

    /// Returns the position from which new snapshots start.
    #[must_use]
    pub const fn up(&self) -> Lsn {
        self.up
    }

    /// Returns the snapshots in use below [`LiveSnapshots::up`], lowest first.
    #[must_use]
    pub fn below_up(&self) -> &[Lsn] {
        &self.below
    }

    /// Returns the lowest position at which any transaction reads, now or later.
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.below.first().copied().unwrap_or(self.up)
    }

    /// Returns the lowest snapshot that sees a version committed at `csn` and superseded at `superseded` (a
    /// snapshot sees commits strictly below it); `up` represents future snapshots. `None`: no transaction will
    /// ever read the version.
    #[must_use]
    pub fn lowest_reader(&self, csn: Lsn, superseded: Lsn) -> Option<Lsn> {
        let next = self.below.get(self.below.partition_point(|snapshot| *snapshot <= csn)).copied();
        next.filter(|snapshot| *snapshot <= superseded)
            .or((superseded >= self.up && superseded > csn).then_some(self.up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: exactly the readers of a version keep it. Method: every interval against every small set of
    /// snapshots, compared with the definition: a snapshot sees a version committed strictly below it and not
    /// superseded strictly below it.
    #[test]
    fn version_has_a_reader_exactly_when_a_snapshot_sees_it() {
        const UP: u64 = 6;
        for set in 0_u64..1 << UP {
            let held: Vec<u64> = (0..UP).filter(|snapshot| set >> snapshot & 1 == 1).rev().collect();
            let live = LiveSnapshots::new(Lsn::new(UP), held.iter().map(|snapshot| Lsn::new(*snapshot)).collect());
            for csn in 0..10 {
                for superseded in csn..10 {
                    let sees = |snapshot: u64| csn < snapshot && superseded >= snapshot;
                    let now = held.iter().copied().filter(|snapshot| sees(*snapshot)).min();
                    let later = (UP..12).any(sees).then_some(UP);
                    let found = live.lowest_reader(Lsn::new(csn), Lsn::new(superseded));
                    assert_eq!(found.map(Lsn::get), now.or(later), "{csn}..{superseded} among {held:?}");
                }
            }
            let lowest = held.iter().copied().min().unwrap_or(UP);
            assert_eq!(live.horizon(), Lsn::new(lowest));
        }
    }
}
