//! Finds a cycle of waits before it closes, and breaks it by reordering a queue if that suffices.
//!
//! An edge leads from a waiter to each holder in its way (hard) or to an earlier waiter of its queue (soft). A cycle of
//! hard edges ends with a deadlock error for the requester. A cycle with a soft edge disappears if the waiter behind
//! that edge moves ahead of the other; the soft edge farthest from the requester is tried first.

use crate::{
    desc::OwnerId,
    locks::wait::Wakes,
    locks::waits::{Locks, WaitFor, Waits},
};
use collie_base::Set;

/// Maximum number of queues that are reordered for one requester before it gets the error.
const REORDERINGS_MAX: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Edge {
    from: OwnerId,
    pub(crate) to: OwnerId,
    pub(crate) soft: bool,
}

/// Ensures that `requester`, which has just joined a queue, is in no cycle.
///
/// # Errors
/// The number of transactions in the cycle, if no order of the queues breaks it.
pub(crate) fn prevent(locks: &Locks, waits: &mut Waits, requester: OwnerId, wakes: &mut Wakes) -> Result<(), usize> {
    if waits.waiting.len() < 2 {
        return Ok(());
    }
    let mut moved = Vec::new();
    let outcome = soften(locks, waits, &mut vec![requester], &mut moved);
    if outcome.is_ok() {
        for for_what in moved {
            match for_what {
                WaitFor::Table(target, _) => locks.grant_table(waits, target, wakes),
                WaitFor::Row(row) => Locks::settle(waits, &row, wakes), // it may be the moved waiter's turn
            }
        }
    }
    outcome
}

/// Breaks every cycle through one of `starts`. A move adds only edges that end at the moved waiter, so a new cycle must
/// pass through it.
fn soften(locks: &Locks, waits: &mut Waits, starts: &mut Vec<OwnerId>, moved: &mut Vec<WaitFor>) -> Result<(), usize> {
    let Some(cycle) = starts.iter().find_map(|start| find_cycle(locks, waits, *start)) else { return Ok(()) };
    if moved.len() < REORDERINGS_MAX {
        for edge in cycle.iter().rev().filter(|edge| edge.soft) {
            let Some(for_what) = waits.waiting.get(&edge.from).map(|parked| parked.for_what.clone()) else { continue };
            let Some(undo) = move_ahead(locks, waits, &for_what, edge.from, edge.to) else { continue };
            moved.push(for_what.clone());
            starts.push(edge.from);
            if soften(locks, waits, starts, moved).is_ok() {
                return Ok(());
            }
            starts.pop();
            moved.pop();
            restore(locks, waits, &for_what, edge.from, undo);
        }
    }
    Err(cycle.len())
}

/// Moves `from` directly ahead of `to` in the queue; returns its previous index.
fn move_ahead(locks: &Locks, waits: &mut Waits, queue: &WaitFor, from: OwnerId, to: OwnerId) -> Option<usize> {
    match queue {
        WaitFor::Row(row) => {
            let entries = &mut waits.rows.get_mut(row)?.entries;
            let old = entries.iter().position(|entry| entry.owner == from)?;
            let new = entries.iter().position(|entry| entry.owner == to && entry.waiter.is_some())?;
            let entry = entries.remove(old)?;
            entries.insert(new, entry);
            Some(old)
        }
        WaitFor::Table(target, _) => locks.tables.move_in_queue(*target, from, to),
    }
}

fn restore(locks: &Locks, waits: &mut Waits, queue: &WaitFor, owner: OwnerId, index: usize) {
    match queue {
        WaitFor::Row(row) => {
            let entries = &mut waits.rows.get_mut(row).expect("the queue was there a moment ago").entries;
            let at = entries.iter().position(|entry| entry.owner == owner).expect("it was moved, not removed");
            let entry = entries.remove(at).expect("just found");
            entries.insert(index, entry);
        }
        WaitFor::Table(target, _) => locks.tables.move_to_index(*target, owner, index),
    }
}

#[cfg(test)]
#[cfg(not(loom))]
pub(crate) fn is_in_cycle(locks: &Locks, waits: &Waits, owner: OwnerId) -> bool {
    find_cycle(locks, waits, owner).is_some()
}

/// Returns the edges of a cycle through `requester`, starting with its own edge.
fn find_cycle(locks: &Locks, waits: &Waits, requester: OwnerId) -> Option<Vec<Edge>> {
    let mut seen = Set::default();
    let mut path: Vec<Edge> = Vec::new();
    // One list of untried edges for each step of `path`, and one for the requester.
    let mut untried = vec![edges(locks, waits, requester)];
    seen.insert(requester);
    while let Some(edge) = untried.last_mut().map(Vec::pop) {
        match edge {
            None => {
                untried.pop();
                path.pop();
            }
            Some(edge) if edge.to == requester => {
                path.push(edge);
                return Some(path);
            }
            Some(edge) if seen.insert(edge.to) => {
                untried.push(edges(locks, waits, edge.to));
                path.push(edge);
            }
            Some(_) => {}
        }
    }
    None
}

/// Returns the edges to the owners for which `from` waits; none if it does not wait.
pub(crate) fn edges(locks: &Locks, waits: &Waits, from: OwnerId) -> Vec<Edge> {
    let edge = |to: OwnerId, soft: bool| Edge { from, to, soft };
    // A waiter whose wait was cancelled is about to leave its queue and closes no cycle.
    let parked = waits.waiting.get(&from).filter(|parked| parked.waiter.is_open());
    match parked.map(|parked| &parked.for_what) {
        None => Vec::new(),
        Some(WaitFor::Row(row)) => {
            let entries = waits.rows.get(row).map(|queue| &queue.entries).into_iter().flatten();
            let Some(own) = entries.clone().find(|entry| entry.owner == from) else { return Vec::new() };
            let owner = |xid| locks.map.desc(xid).map(|desc| desc.owner).filter(|owner| *owner != from);
            // It waits for one holder after the other, and thus for all of them.
            let shares = locks.shares.holders(row, Some(own.strength)).into_iter().rev();
            let holders = shares.filter(|xid| Some(*xid) != own.holder).chain(own.holder).filter_map(owner);
            let ahead = entries.map(|entry| entry.owner).take_while(|owner| *owner != from);
            // The holders are last in the list, and thus tried first.
            ahead.map(|owner| edge(owner, true)).chain(holders.map(|owner| edge(owner, false))).collect()
        }
        Some(WaitFor::Table(target, mode)) => {
            let blockers = locks.tables.blockers(*target, from, *mode);
            let ahead = blockers.ahead.into_iter().map(|owner| edge(owner, true));
            let holders = blockers.holders.into_iter().map(|holder| waiting_of(waits, holder));
            ahead.chain(holders.map(|owner| edge(owner, false))).collect()
        }
    }
}

/// Returns the transaction in which the holder of a lock waits; if a session does not wait, the session itself.
fn waiting_of(waits: &Waits, holder: OwnerId) -> OwnerId {
    if !holder.is_session() {
        return holder;
    }
    waits.waiting.keys().copied().filter(|owner| owner.has_slot_of(holder)).max().unwrap_or(holder)
}
