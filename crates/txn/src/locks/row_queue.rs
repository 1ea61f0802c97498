//! `RowQueue`: the waiters for a row, served in order of arrival, and how a freed row is handed on.
//!
//! Each waiter waits for one holder at a time: the one that it found in its way. When that holder ends, the waiter is
//! woken if it is the first of its queue. It keeps its place while it looks at the row again. Then it waits on (for
//! another holder, or for a transaction that took the row in between), or has taken the row (waiters that conflict with
//! it wait for it from then on), or leaves (the next one is woken). Those behind the first wait for their turn. A
//! newcomer that meets no conflict may take the row; no waiter loses its place by that.

use crate::{
    desc::{Desc, OwnerId},
    locks::wait::{Waiter, Wakes},
    locks::waits::{Locks, RowKey, RowLockRequest, Waits},
};
use collie_base::{LockStrength, Xid};
use collie_sync::mutant;
use std::{collections::VecDeque, sync::Arc};

#[derive(Debug, Default)]
pub(crate) struct RowQueue {
    pub(crate) entries: VecDeque<RowEntry>,
}

#[derive(Clone, Debug)]
pub(crate) struct RowEntry {
    pub(crate) owner: OwnerId,
    /// The strength in which the row is wanted.
    pub(crate) strength: LockStrength,
    /// The holder in the way at the last look; `None` if it has ended, and it is the turn of this waiter or of an
    /// earlier one.
    pub(crate) holder: Option<Xid>,
    /// `None`: woken, and trying to take the row.
    pub(crate) waiter: Option<Arc<Waiter>>,
}

impl Locks {
    /// Joins the queue of the row, or resumes the old place in it; `false` if there is nothing to wait for, because the
    /// holder has ended or `still_held` says that it is no longer in the way.
    pub(crate) fn join_row(
        &self,
        waits: &mut Waits,
        id: OwnerId,
        wish: &RowLockRequest,
        waiter: &Arc<Waiter>,
        still_held: impl FnOnce() -> bool,
    ) -> bool {
        let RowLockRequest { row, holder, strength } = wish;
        let announced = self.map.desc(*holder).is_some_and(|desc| desc.announce_waiter());
        // The look follows the announcement: either a partial rollback sees the announcement, or this look sees the
        // rollback.
        let held = announced && if mutant!("NO_SECOND_LOOK") { true } else { still_held() };
        let parks = if mutant!("PARK_AFTER_THE_END") { true } else { held };
        let entry = match (waits.rows.get_mut(row), parks) {
            (None, false) => return false,
            (Some(queue), false) => queue.entries.iter_mut().find(|entry| entry.owner == id),
            (_, true) => {
                let entries = &mut waits.rows.entry(row.clone()).or_default().entries;
                let at = entries.iter().position(|entry| entry.owner == id).unwrap_or_else(|| {
                    entries.push_back(RowEntry { owner: id, strength: *strength, holder: None, waiter: None });
                    entries.len() - 1
                });
                waits.places.insert(id, row.clone());
                entries.get_mut(at)
            }
        };
        let Some(entry) = entry else { return false };
        entry.strength = *strength;
        entry.waiter = parks.then(|| Arc::clone(waiter));
        let old = std::mem::replace(&mut entry.holder, parks.then_some(*holder));
        Self::relink(waits, row, old, parks.then_some(*holder));
        parks
    }

    /// Updates `rows_held`: an entry of the queue of `row` waits for `new` and no longer for `old`.
    fn relink(waits: &mut Waits, row: &RowKey, old: Option<Xid>, new: Option<Xid>) {
        if old == new {
            return;
        }
        let held = |holder| waits.rows.get(row).is_some_and(|queue| queue.entries.iter().any(|e| e.holder == holder));
        if let Some(gone) = old.filter(|_| !held(old))
            && let Some(rows) = waits.rows_held.get_mut(&gone)
        {
            rows.retain(|held| held != row);
            if rows.is_empty() {
                waits.rows_held.remove(&gone);
            }
        }
        if let Some(new) = new {
            let rows = waits.rows_held.entry(new).or_default();
            if !rows.contains(row) {
                rows.push(row.clone());
            }
        }
    }

    /// Takes `id` out of its row queue. Wakes the next waiter if it is its turn.
    pub(crate) fn leave_place(&self, waits: &mut Waits, id: OwnerId, wakes: &mut Wakes) {
        let Some(row) = Self::take_place(waits, id) else { return };
        if mutant!("LEAVE_WITHOUT_HANDING_ON") {
            return;
        }
        Self::settle(waits, &row, wakes);
    }

    fn take_place(waits: &mut Waits, id: OwnerId) -> Option<RowKey> {
        let row = waits.places.remove(&id)?;
        waits.waiting.remove(&id);
        let entries = &mut waits.rows.get_mut(&row).expect("a place is in a queue that exists (Q2)").entries;
        let at = entries.iter().position(|entry| entry.owner == id).expect("a place is an entry (Q2)");
        let holder = entries.remove(at).and_then(|entry| entry.holder);
        Self::relink(waits, &row, holder, None);
        Some(row)
    }

    /// Takes `id`, which as `holder` now has `row` in this strength, out of its queue. If that is the queue of `row`,
    /// waiters that conflict with it now wait for it.
    pub(crate) fn hand_place_to(
        &self,
        waits: &mut Waits,
        id: OwnerId,
        row: &RowKey,
        holder: &Desc,
        strength: LockStrength,
        wakes: &mut Wakes,
    ) {
        let Some(place) = Self::take_place(waits, id) else { return };
        if place == *row {
            let entries = &mut waits.rows.get_mut(row).expect("it is settled below, not before").entries;
            let idle =
                |e: &&mut RowEntry| e.holder.is_none() && e.waiter.is_some() && e.strength.conflicts_with(strength);
            let mut waiting = entries.iter_mut().filter(idle).peekable();
            if waiting.peek().is_some() && holder.announce_waiter() {
                waiting.for_each(|entry| entry.holder = Some(holder.xid));
                Self::relink(waits, row, None, Some(holder.xid));
            }
        }
        Self::settle(waits, &place, wakes);
    }

    /// Wakes the first waiter of every row for which a waiter waits for `holder`, if it is its turn.
    pub(crate) fn wake_rows_of(&self, waits: &mut Waits, holder: Xid, wakes: &mut Wakes) {
        for row in waits.rows_held.remove(&holder).unwrap_or_default() {
            if let Some(queue) = waits.rows.get_mut(&row) {
                let freed = queue.entries.iter_mut().filter(|entry| entry.holder == Some(holder));
                freed.for_each(|entry| entry.holder = None);
            }
            Self::settle(waits, &row, wakes);
        }
    }

    /// Restores Q2 for one queue: wakes its first entry if no holder is in its way; removes an empty queue.
    pub(crate) fn settle(waits: &mut Waits, row: &RowKey, wakes: &mut Wakes) {
        let Some(queue) = waits.rows.get_mut(row) else { return };
        while let Some(first) = queue.entries.front_mut() {
            if first.holder.is_some() {
                return;
            }
            let Some(waiter) = first.waiter.take() else { return };
            let owner = first.owner;
            waits.waiting.remove(&owner);
            if waiter.complete(Ok(()), wakes) {
                return;
            }
            // Cancelled or timed out; it will find its place gone when it leaves.
            queue.entries.pop_front();
            waits.places.remove(&owner);
        }
        waits.rows.remove(row);
    }
}
