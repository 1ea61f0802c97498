//! Pruning a chain between live snapshots (R4), the death of a row that no snapshot sees (R5), and the row's place in
//! the caller's queues of rows with old versions (R7).

use std::ptr;
use std::ptr::NonNull;

use collie_base::{LiveSnapshots, LockStrength, Lsn};
use collie_sync::{mutant, ord};

use super::Row;
use super::chain::{retire, walk};
use super::head::{DEAD, is_shared};
use super::version::Version;
use crate::epoch::{Pin, pin};
use crate::stamp::TxnStatus;
use crate::stamp::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::{row::calls::Kept, row::calls::Pruned, row::calls::Removal};

/// A thread prunes the row (R4).
const PRUNING: u32 = 1;
/// The row is in the queue of rows to be cleaned (R7).
const QUEUED: u32 = 2;
/// The row waits for the end of a snapshot (R7).
const HELD: u32 = 4;
/// The newest state may not be in the levels (L1 of `flush.rs`).
pub(super) const DIRTY: u32 = 8;
/// The levels hold a value (L2 of `flush.rs`).
pub(super) const ON_DISK: u32 = 16;
/// A flush that is not recorded has taken something (L2 of `flush.rs`).
pub(super) const FLUSHING: u32 = 32;

/// Bytes of the row with its two counts, and of a place in the index: a key and a pointer, in nodes that are half full,
/// as rows inserted in order leave them.
const ROW_BYTES: usize = size_of::<Row>() + 16 + 2 * 32;

/// A chain that has grown by less than this since it was pruned is not worth a walk.
const GROWTH_MIN: u16 = 2;

/// The committed content last passed on the way down a chain; its fields tell what may be unlinked below it.
struct Above<'g> {
    /// The last version that stays.
    link: &'g Version,
    /// The last version that determines the row's state: final, committed, not a lock.
    content: &'g Version,
    /// The content below is superseded here at the latest.
    superseded: Lsn,
}

/// Returns whether no snapshot at or above `horizon` looks below a version committed at `csn`.
fn is_settled(csn: Lsn, horizon: Lsn) -> bool {
    if mutant!("FREED_AT_HORIZON") { csn <= horizon } else { csn < horizon }
}

impl Row {
    /// Unlinks the versions that no snapshot in `live` sees, now or later. `None` if another thread is pruning the row.
    ///
    /// Cost: a walk down the chain. Progress: wait-free except for the walk.
    pub fn prune(&self, live: &LiveSnapshots, pin: &Pin) -> Option<Pruned> {
        if !self.take_pruning() {
            return None;
        }
        let mut pruned = Pruned::default();
        let mut above: Option<Above<'_>> = None;
        let mut deleted = None;
        for (pointer, version) in walk(self.head.load(Acquire), pin) {
            let fate = TxnStatus::of_final(&version.stamp);
            let Some(last) = &mut above else {
                // R4: everything down to the newest committed content stays.
                pruned.left += 1;
                match fate {
                    Ok(TxnStatus::Committed(csn)) if !version.is_lock() => {
                        deleted = version.value().is_none().then_some(csn);
                        above = Some(Above { link: version, content: version, superseded: csn });
                    }
                    Err(_) if mutant!("PRUNE_NEWEST_COMMITTED") => {
                        above = Some(Above { link: version, content: version, superseded: Lsn::FIRST });
                    }
                    Ok(_) | Err(_) => {}
                }
                continue;
            };
            let (reader, bytes) = match fate {
                Err(_) => {
                    // R2: its owner has not stamped it yet. The content below was superseded here at the latest.
                    pruned.keep(Kept::Unfinished);
                    pruned.left += 1;
                    last.link = version;
                    continue;
                }
                Ok(TxnStatus::Committed(csn)) if !version.is_lock() => {
                    let superseded = std::mem::replace(&mut last.superseded, csn);
                    if hides_key_change(version) && !ptr::eq(last.link, last.content) {
                        // A note at the content would be missed by a locker that stepped over the content before the
                        // link changed.
                        pruned.keep(Kept::Unfinished);
                        pruned.left += 1;
                        (last.link, last.content) = (version, version);
                        continue;
                    }
                    let reader = lowest_reader(live, csn, superseded).map(|reader| (reader, superseded));
                    (reader, self.old_bytes(version))
                }
                Ok(_) => (None, 0), // rolled back, or a finished lock: never counted as old
            };
            if let Some((reader, superseded)) = reader {
                pruned.keep(if superseded >= live.up() { Kept::Until(superseded) } else { Kept::By(reader) });
                pruned.left += 1;
                (last.link, last.content) = (version, version);
            } else {
                if bytes > 0 && hides_key_change(version) && !mutant!("PRUNE_FORGETS_KEYS") {
                    last.content.hides_key_change.store(true, Relaxed); // published by the link below
                }
                let below = version.next.load(Acquire);
                last.link.next.store(below, ord!("ROW_NEXT_STORE", Release)); // R4
                pruned.bytes += bytes;
                if bytes > 0 {
                    pruned.version_bytes += u64::from(version.counted_bytes());
                }
                self.retire_one(pointer, pin);
            }
        }
        if let Some(csn) = deleted {
            if csn >= live.up() {
                pruned.keep(Kept::Until(csn));
            } else if csn >= live.horizon() {
                pruned.keep(Kept::By(live.horizon()));
            } else if self.is_on_disk() {
                // A flush will take the row, and then has it examined again.
            } else if !mutant!("DELETED_ROW_FORGOTTEN") {
                // A version that is or was above it may be undone by now, and then the row can die: try again.
                pruned.keep(Kept::Unfinished);
            }
        }
        self.growth.reset(pruned.left);
        self.give_pruning();
        Some(pruned)
    }

    fn retire_one(&self, version: NonNull<Version>, pin: &Pin) {
        #[cfg(loom)]
        // SAFETY: nothing is freed under loom.
        assert!(!unsafe { version.as_ref() }.retired.swap(true, std::sync::atomic::Ordering::Relaxed), "R2: twice");
        // SAFETY: R2: we just unlinked it, and no other thread prunes; final; boxed in `new`.
        unsafe { pin.retire(version.as_ptr()) };
    }

    /// Takes the right to prune; `false` if another thread has it.
    pub(super) fn take_pruning(&self) -> bool {
        mutant!("PRUNE_WITHOUT_TAG") || self.flags.fetch_or(PRUNING, ord!("ROW_PRUNE_TAKE", Acquire)) & PRUNING == 0
    }

    pub(super) fn give_pruning(&self) {
        self.flags.fetch_and(!PRUNING, ord!("ROW_PRUNE_GIVE", Release));
    }

    /// Returns whether the chain has grown enough since it was last pruned to be worth another walk. Thus pruning costs
    /// each writer a constant number of steps however many versions old snapshots hold.
    pub fn is_grown(&self) -> bool {
        self.growth.is_enough()
    }

    /// Records that the row was queued to be cleaned; `false` if it already was. Call it after the superseding version
    /// was stamped (R7).
    #[must_use]
    pub fn queue(&self) -> bool {
        self.flags.fetch_or(QUEUED, ord!("ROW_QUEUE", Release)) & QUEUED == 0
    }

    /// Records that the row was taken from the queue. Call it before the row is cleaned (R7).
    pub fn unqueue(&self) {
        // Relaxed: the pruning flag is taken next, by an Acquire of the same word, which sees everything that this saw.
        self.flags.fetch_and(!QUEUED, Relaxed);
    }

    /// Records that the row waits for the end of a snapshot; `false` if it already does.
    #[must_use]
    pub fn hold(&self) -> bool {
        self.flags.fetch_or(HELD, Relaxed) & HELD == 0 // changed under the lock of the list
    }

    /// Records that the row no longer waits for a snapshot.
    pub fn unhold(&self) {
        self.flags.fetch_and(!HELD, Relaxed);
    }

    /// Makes the row dead if it is empty, or deleted below `horizon`.
    pub(crate) fn try_remove(&self, horizon: Lsn, pin: &Pin) -> Removal {
        if !self.take_pruning() {
            return Removal::Busy;
        }
        let head = self.head.load(Acquire);
        let mut gone = true;
        let mut deleted = false;
        let (mut bytes, mut version_bytes) = (0, 0);
        for (_, version) in walk(head, pin) {
            match TxnStatus::of_final(&version.stamp) {
                Err(_) => gone = false,
                Ok(TxnStatus::Committed(csn)) if !version.is_lock() => {
                    if !deleted {
                        deleted = is_settled(csn, horizon) && version.value().is_none();
                        gone &= deleted;
                    }
                    bytes += self.old_bytes(version);
                    version_bytes += u64::from(version.counted_bytes());
                }
                Ok(_) => {}
            }
            if !gone {
                break;
            }
        }
        let removal = if head == DEAD || !gone {
            Removal::Alive
        } else if self.is_on_disk() {
            Removal::OnDisk
        } else if is_shared(head) {
            Removal::Busy // the deleter has not released its own share lock yet
        } else if self.replace_head_by_death(head) {
            retire(head, ptr::null_mut(), pin); // R5: no reader needs this chain
            Removal::Dead { bytes, version_bytes }
        } else {
            Removal::Alive
        };
        self.give_pruning();
        removal
    }

    fn replace_head_by_death(&self, head: *mut Version) -> bool {
        if mutant!("ROW_DEATH_STORED") {
            self.head.store(DEAD, Release);
            return true;
        }
        self.head.compare_exchange(head, DEAD, AcqRel, Acquire).is_ok()
    }

    /// Returns the bytes of the row's old versions.
    pub(crate) fn old_version_bytes(&self, pin: &Pin) -> u64 {
        let committed = |version: &Version| matches!(TxnStatus::of_final(&version.stamp), Ok(TxnStatus::Committed(_)));
        let mut content = walk(self.head.load(Acquire), pin).filter(|(_, v)| !v.is_lock() && committed(v));
        let newest = content.next().filter(|(_, version)| version.value().is_none());
        newest.into_iter().chain(content).map(|(_, version)| self.old_bytes(version)).sum()
    }

    /// Returns the bytes of memory that the row occupies without its versions, including its place in the index.
    pub(crate) fn row_bytes(&self) -> u64 {
        u64::try_from(ROW_BYTES + self.key.heap_bytes() * 2).unwrap_or(u64::MAX)
    }

    /// Returns the bytes of memory that a row just created for loading occupies, including its one version.
    pub(crate) fn loaded_bytes(&self) -> u64 {
        let version = walk(self.head.load(Acquire), &pin()).next().map_or(0, |(_, version)| version.counted_bytes());
        self.row_bytes() + u64::from(version)
    }

    /// Returns the bytes of memory that a committed version of this row occupies once it is old. A deletion is old as
    /// soon as it is committed, and includes the row.
    pub(super) fn old_bytes(&self, version: &Version) -> u64 {
        let row = if version.value().is_none() { size_of::<Self>() + 2 * self.key.len() } else { 0 };
        u64::try_from(version.bytes() + row).unwrap_or(u64::MAX)
    }
}

/// Returns whether the version changed keys or hides a change of keys: a KEY SHARE locker must not step over that.
fn hides_key_change(version: &Version) -> bool {
    version.strength == LockStrength::Update || version.hides_key_change.load(Relaxed)
}

fn lowest_reader(live: &LiveSnapshots, csn: Lsn, superseded: Lsn) -> Option<Lsn> {
    if mutant!("PRUNE_READERS_IGNORED") {
        return None;
    }
    // The planted mistake: `s < superseded` instead of `s <= superseded`.
    let superseded = if mutant!("FREED_AT_HORIZON") { Lsn::new(superseded.get() - 1) } else { superseded };
    live.lowest_reader(csn, superseded)
}

/// The growth of a chain since it was pruned, and the growth at which the next pruning is due. Estimates: a lost update
/// costs one walk more or less.
#[derive(Debug)]
pub(super) struct Growth {
    grown: std::sync::atomic::AtomicU16,
    enough: std::sync::atomic::AtomicU16,
}

impl Growth {
    pub(super) const fn new() -> Self {
        use std::sync::atomic::AtomicU16;
        Self { grown: AtomicU16::new(0), enough: AtomicU16::new(GROWTH_MIN) }
    }

    /// Counts one more version.
    pub(super) fn add(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        self.grown.store(self.grown.load(Relaxed).saturating_add(1), Relaxed);
    }

    fn is_enough(&self) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        self.grown.load(Relaxed) >= self.enough.load(Relaxed)
    }

    fn reset(&self, left: u32) {
        use std::sync::atomic::Ordering::Relaxed;
        self.grown.store(0, Relaxed);
        self.enough.store(u16::try_from(left / 2).unwrap_or(u16::MAX).max(GROWTH_MIN), Relaxed);
    }
}
