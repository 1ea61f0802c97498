//! `RowQueue`: who waits for a row, first come first served, and how a freed row is handed on.
//!
//! When the holder ends, only the first waiter is woken. It keeps its place while it looks at the row again; then it
//! waits on (another took the row meanwhile), or took the row (the rest wait for it from then on), or leaves (the next
//! is woken). A newcomer that finds the row free between two waiters may take it; nobody loses its place by that.

use crate::{
    desc::{Desc, OwnerId},
    wait::{Waiter, Wakes},
    waits::{Locks, RowKey, Waits},
};
use collie_base::Xid;
use collie_sync::mutant;
use std::{collections::VecDeque, sync::Arc};

#[derive(Debug, Default)]
pub(crate) struct RowQueue {
    /// Who has the row; `None` while the first entry tries to take it.
    pub(crate) holder: Option<Xid>,
    pub(crate) entries: VecDeque<RowEntry>,
}

#[derive(Clone, Debug)]
pub(crate) struct RowEntry {
    pub(crate) owner: OwnerId,
    /// `None`: woken, and trying to take the row.
    pub(crate) waiter: Option<Arc<Waiter>>,
}

impl Locks {
    /// Joins the queue of `row`, or takes up the old place in it; `false` when `holder` has ended, or `still_held`
    /// says that it gave the row up, and there is nothing to wait for.
    pub(crate) fn join_row(
        &self,
        waits: &mut Waits,
        id: OwnerId,
        row: &RowKey,
        holder: Xid,
        waiter: &Arc<Waiter>,
        still_held: impl FnOnce() -> bool,
    ) -> bool {
        let announced = self.map.desc(holder).is_some_and(|desc| desc.announce_waiter());
        // The look comes after the announcement: a partial rollback either sees that or is seen by this.
        if !(announced && still_held() || mutant!("PARK_AFTER_THE_END")) {
            return false;
        }
        let queue = waits.rows.entry(row.clone()).or_default();
        match queue.entries.iter_mut().find(|entry| entry.owner == id) {
            Some(entry) => entry.waiter = Some(Arc::clone(waiter)),
            None => queue.entries.push_back(RowEntry { owner: id, waiter: Some(Arc::clone(waiter)) }),
        }
        let old = queue.holder.replace(holder);
        waits.places.insert(id, row.clone());
        Self::relink(waits, row, old, holder);
        true
    }

    fn relink(waits: &mut Waits, row: &RowKey, old: Option<Xid>, new: Xid) {
        if old == Some(new) {
            return;
        }
        if let Some(rows) = old.and_then(|old| waits.rows_held.get_mut(&old)) {
            rows.retain(|held| held != row);
        }
        waits.rows_held.entry(new).or_default().push(row.clone());
    }

    /// Takes `id` out of the row queue it is in. Wakes the next when the row has no holder.
    pub(crate) fn leave_place(&self, waits: &mut Waits, id: OwnerId, wakes: &mut Wakes) {
        let Some(row) = waits.places.remove(&id) else { return };
        waits.waiting.remove(&id);
        let queue = waits.rows.get_mut(&row).expect("a place is in a queue that exists (Q2)");
        queue.entries.retain(|entry| entry.owner != id);
        if mutant!("LEAVE_WITHOUT_HANDING_ON") {
            return;
        }
        Self::settle(waits, &row, wakes);
    }

    /// Takes `id`, which now has the row as `holder`, out of its queue; the rest wait for it.
    pub(crate) fn hand_place_to(&self, waits: &mut Waits, id: OwnerId, holder: &Desc, wakes: &mut Wakes) {
        let Some(row) = waits.places.remove(&id) else { return };
        let queue = waits.rows.get_mut(&row).expect("a place is in a queue that exists (Q2)");
        queue.entries.retain(|entry| entry.owner != id);
        if !queue.entries.is_empty() && holder.announce_waiter() {
            let old = queue.holder.replace(holder.xid);
            Self::relink(waits, &row, old, holder.xid);
        }
        Self::settle(waits, &row, wakes);
    }

    /// Wakes the first waiter of every row whose holder is `holder`.
    pub(crate) fn wake_rows_of(&self, waits: &mut Waits, holder: Xid, wakes: &mut Wakes) {
        for row in waits.rows_held.remove(&holder).unwrap_or_default() {
            if let Some(queue) = waits.rows.get_mut(&row) {
                queue.holder = None;
            }
            Self::settle(waits, &row, wakes);
        }
    }

    /// Restores Q2 for one queue: without a holder its first entry is woken; an empty queue goes.
    fn settle(waits: &mut Waits, row: &RowKey, wakes: &mut Wakes) {
        let Some(queue) = waits.rows.get_mut(row) else { return };
        while queue.holder.is_none() {
            let Some(first) = queue.entries.front_mut() else { break };
            let Some(waiter) = first.waiter.take() else { return };
            let owner = first.owner;
            waits.waiting.remove(&owner);
            if waiter.complete(Ok(()), wakes) {
                return;
            }
            // Cancelled or timed out; it finds its place gone when it comes to leave.
            queue.entries.pop_front();
            waits.places.remove(&owner);
        }
        if queue.entries.is_empty() {
            let holder = queue.holder;
            waits.rows.remove(row);
            if let Some(rows) = holder.and_then(|holder| waits.rows_held.get_mut(&holder)) {
                rows.retain(|held| held != row);
            }
        }
    }
}
