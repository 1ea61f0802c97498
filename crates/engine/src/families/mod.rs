//! `Families`: the column families in memory, by id. It hands out ids that were never used.
//!
//! | file | holds |
//! |---|---|
//! | `key_range` | a range of keys |
//! | `names` | the names of families, as rows of the catalog family |
//! | `groups` | families that are flushed together |

pub(crate) mod groups;
pub(crate) mod key_range;
pub(crate) mod names;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use collie_base::{CfId, Map};
use collie_store::Family;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::families::groups::Groups;

/// The column families of a database.
#[derive(Debug)]
pub(crate) struct Families {
    by_id: RwLock<Map<CfId, Arc<Family>>>,
    /// Families that were removed and whose rows are not freed yet: their memory counts until then.
    leaving: Mutex<Vec<Arc<Family>>>,
    /// The atomic groups, whose families are flushed together.
    groups: RwLock<Groups>,
    next_id: AtomicU32,
    /// Dropped families of which the log has no more rows: their catalog rows may be deleted (`names` F4). A
    /// thread that creates or drops a named family holds the lock.
    forgotten: Mutex<Vec<CfId>>,
    /// Whether the families have LSM levels, and so list their unflushed rows.
    have_levels: bool,
}

impl Families {
    /// Creates an empty map for families that are only in memory. The first id given out is 1, since 0 is the
    /// catalog.
    pub(crate) fn new() -> Self {
        Self {
            by_id: RwLock::default(),
            leaving: Mutex::default(),
            groups: RwLock::default(),
            next_id: AtomicU32::new(CfId::CATALOG.get() + 1),
            forgotten: Mutex::default(),
            have_levels: false,
        }
    }

    /// Like [`Families::new`], for families with LSM levels.
    pub(crate) fn with_levels() -> Self {
        Self { have_levels: true, ..Self::new() }
    }

    fn make(&self, cf: CfId) -> Arc<Family> {
        Arc::new(if self.have_levels { Family::with_levels(cf) } else { Family::new(cf) })
    }

    /// Returns the family; creates it empty if it does not exist. Its id is used from now on.
    pub(crate) fn get_or_make(&self, cf: CfId) -> Arc<Family> {
        if let Some(family) = self.get(cf) {
            return family;
        }
        self.note_used(cf);
        Arc::clone(self.by_id.write().entry(cf).or_insert_with(|| self.make(cf)))
    }

    /// Returns the family if it is in memory.
    pub(crate) fn get(&self, cf: CfId) -> Option<Arc<Family>> {
        self.by_id.read().get(&cf).map(Arc::clone)
    }

    /// Creates a family under an id that was never used before.
    pub(crate) fn create(&self) -> CfId {
        self.create_in("")
    }

    /// Like [`Families::create`], in an atomic group; the empty name stands for none.
    pub(crate) fn create_in(&self, group: &str) -> CfId {
        let id = CfId::new(self.next_id.fetch_add(1, Relaxed));
        assert!(id.get() < u32::MAX, "2^32 column families were made");
        self.join(id, group); // G1: before the family exists
        self.by_id.write().insert(id, self.make(id));
        id
    }

    /// Puts a family into its atomic group before any session can write to it; the empty name stands for none.
    pub(crate) fn join(&self, cf: CfId, group: &str) {
        self.groups.write().join(cf, group);
    }

    /// Returns the families that are flushed with this one, including itself, by id; none if it is not in memory.
    pub(crate) fn together_with(&self, cf: CfId) -> Vec<Arc<Family>> {
        let members = self.groups.read().members(cf);
        let by_id = self.by_id.read();
        members.iter().filter_map(|member| by_id.get(member).map(Arc::clone)).collect()
    }

    /// Returns the ids of the families in the group of this one, including itself.
    pub(crate) fn members_with(&self, cf: CfId) -> Vec<CfId> {
        self.groups.read().members(cf)
    }

    /// Returns whether these families are flushed together. Families that are no longer in memory are ignored.
    pub(crate) fn are_together(&self, cfs: &[CfId]) -> bool {
        // The groups are locked first: a family leaves memory before it leaves its group.
        let groups = self.groups.read();
        let there: Vec<CfId> = cfs.iter().copied().filter(|cf| self.get(*cf).is_some()).collect();
        there.iter().all(|cf| groups.are_together(there[0], *cf))
    }

    /// Excludes `cf` from the ids that are given out.
    pub(crate) fn note_used(&self, cf: CfId) {
        self.next_id.fetch_max(cf.get().saturating_add(1), Relaxed);
    }

    /// Notes dropped families whose catalog rows may be deleted.
    pub(crate) fn note_forgotten(&self, forgotten: Vec<CfId>) {
        *self.forgotten.lock() = forgotten;
    }

    /// Lets one thread at a time create and drop named families; the guard has the families that
    /// [`Families::note_forgotten`] noted.
    pub(crate) fn naming(&self) -> MutexGuard<'_, Vec<CfId>> {
        self.forgotten.lock()
    }

    /// Returns an id above every one that was used.
    pub(crate) fn next_id(&self) -> CfId {
        CfId::new(self.next_id.load(Relaxed))
    }

    /// Returns the families in memory.
    pub(crate) fn all(&self) -> Vec<Arc<Family>> {
        self.by_id.read().values().map(Arc::clone).collect()
    }

    /// Removes a family.
    pub(crate) fn remove(&self, cf: CfId) -> Option<Arc<Family>> {
        let family = self.by_id.write().remove(&cf);
        self.groups.write().leave(cf);
        family
    }

    /// Like [`Families::remove`], but the memory of its rows counts until [`Families::freed`].
    pub(crate) fn remove_counted(&self, cf: CfId) -> Option<Arc<Family>> {
        let mut leaving = self.leaving.lock();
        let family = self.remove(cf)?;
        leaving.push(Arc::clone(&family));
        Some(family)
    }

    /// The rows of a removed family are freed.
    pub(crate) fn freed(&self, family: &Arc<Family>) {
        self.leaving.lock().retain(|other| !Arc::ptr_eq(other, family));
    }

    /// Returns the ids in memory, in order.
    pub(crate) fn ids(&self) -> Vec<CfId> {
        let mut ids: Vec<CfId> = self.by_id.read().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Returns the number of families.
    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.by_id.read().len()).unwrap_or(u64::MAX)
    }

    /// Returns the approximate bytes of memory that the rows of all families occupy, also of those that are being
    /// freed.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let leaving = self.leaving.lock();
        let by_id = self.by_id.read();
        by_id.values().chain(leaving.iter()).map(|family| family.memory_bytes()).sum()
    }

    /// Returns the number of families and of their rows.
    pub(crate) fn count(&self) -> (u64, u64) {
        let families = self.by_id.read();
        let rows = families.values().map(|family| family.stat().rows).sum();
        (u64::try_from(families.len()).unwrap_or(u64::MAX), rows)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
#[allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
mod tests {
    use collie_base::Lsn;

    use super::*;

    /// Goal: memory of a dropped family counts until its rows are freed, so that writers do not use the room of rows
    /// that are still there (T302). Method: a family with a row, removed and then freed.
    #[test]
    fn memory_of_a_removed_family_counts_until_it_is_freed() {
        let families = Families::new();
        let cf = families.create();
        families.get_or_make(cf).load(b"key", Some(b"value"), Lsn::FIRST);
        let bytes = families.memory_bytes();
        let family = families.remove_counted(cf).unwrap();
        assert!(bytes > 0 && families.get(cf).is_none());
        assert_eq!(families.memory_bytes(), bytes, "its rows are still there");
        assert_eq!(family.clear(), 0);
        families.freed(&family);
        assert_eq!(families.memory_bytes(), 0);
    }
}
