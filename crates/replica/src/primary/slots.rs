//! `Slots`: who follows, by name.
//!
//! A slot's place in the log is the log's own (a consumer of that name, which a crash does not forget); here is what a
//! connection adds to it: which node it is, how far it says it has come, and since when nothing was heard.
//!
//! # Invariants
//! - S1. One connection has a slot at a time, and one node id is connected once: a copied directory is refused.
//! - S2. A slot's figures stay when its connection ends, until it is dropped.

use std::{collections::BTreeMap, sync::Arc};

use collie_base::Lsn;
use parking_lot::Mutex;

use super::{
    delay::{Delay, Marks},
    progress::{Progress, Sent},
};
use crate::packet::Ack;

/// What a slot's replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It has what is durable here, or nearly.
    Streaming,
    /// It is sent what it missed.
    CatchingUp,
    /// It is being filled.
    Backup,
    /// It is not connected.
    Away,
}

impl SlotState {
    /// Returns the word that views show, PostgreSQL's where there is one.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::CatchingUp => "catchup",
            Self::Backup => "backup",
            Self::Away => "away",
        }
    }
}

/// A slot, as views show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotStat {
    /// Its name.
    pub name: String,
    /// The directory of its replica.
    pub node: u64,
    /// Where its replica connected from.
    pub address: String,
    /// What its replica is doing.
    pub state: SlotState,
    /// How far it has come.
    pub positions: Sent,
    /// Its shortest round trip, in nanoseconds; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// Bytes that wait on it to be applied.
    pub queue_bytes: u32,
    /// When it was last heard of, on this node's clock.
    pub heard_ns: u64,
    /// How far its readers are behind, as of the call, in nanoseconds.
    pub delay_ns: u64,
    /// The longest delay of its connection.
    pub delay_max_ns: u64,
}

#[derive(Debug)]
struct Slot {
    stat: SlotStat,
    delay: Delay,
    connection: Option<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    slots: BTreeMap<String, Slot>,
    connections: u64,
}

/// The slots of a primary.
#[derive(Debug, Default)]
pub struct Slots {
    inner: Mutex<Inner>,
    /// When this node passed positions.
    marks: Mutex<Marks>,
}

/// A connection's hold on its slot: dropped, the slot is away.
#[derive(Debug)]
pub(super) struct Attached {
    slots: Arc<Slots>,
    name: String,
    connection: u64,
}

/// Why a slot cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// This node is connected already, as that slot.
    Node(String),
    /// Another node has the slot.
    Slot,
    /// There are too many.
    TooMany,
}

impl Slots {
    /// Makes a list without any.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all, by name, at `now_ns`, when this node has everything below `durable` on disk.
    pub fn stat(&self, durable: Lsn, now_ns: u64) -> Vec<SlotStat> {
        let (inner, marks) = (self.inner.lock(), self.marks.lock());
        let stat = |slot: &Slot| SlotStat {
            delay_ns: slot.delay.now_ns(&marks, durable, now_ns),
            delay_max_ns: slot.delay.max_ns(),
            ..slot.stat.clone()
        };
        inner.slots.values().map(stat).collect()
    }

    /// Notes that everything below `durable` is on this node's disk. Whoever serves replicas calls this every
    /// [`StreamOptions::heartbeat`](super::StreamOptions::heartbeat) or oftener, also while none is connected: what an absent one owes
    /// is counted from here.
    pub fn pass(&self, durable: Lsn, now_ns: u64) {
        self.marks.lock().pass(durable, now_ns);
    }

    /// Gives a slot to a connection (S1).
    pub(super) fn attach(
        self: &Arc<Self>,
        name: &str,
        node: u64,
        address: &str,
        slots_max: usize,
        now_ns: u64,
    ) -> Result<Attached, Busy> {
        let mut inner = self.inner.lock();
        let connected = |slot: &&Slot| slot.connection.is_some();
        if let Some(slot) = inner.slots.values().filter(connected).find(|slot| slot.stat.node == node) {
            return Err(Busy::Node(slot.stat.name.clone()));
        }
        if inner.slots.get(name).as_ref().is_some_and(connected) {
            return Err(Busy::Slot);
        }
        if !inner.slots.contains_key(name) && inner.slots.len() >= slots_max {
            return Err(Busy::TooMany);
        }
        inner.connections += 1;
        let connection = inner.connections;
        let before = inner.slots.get(name).map(|slot| slot.stat.positions);
        let stat = SlotStat {
            name: name.to_owned(),
            node,
            address: address.to_owned(),
            state: SlotState::CatchingUp,
            positions: before.unwrap_or_default(),
            rtt_min_ns: u64::MAX,
            queue_bytes: 0,
            heard_ns: now_ns,
            delay_ns: 0,
            delay_max_ns: 0,
        };
        let slot = Slot { stat, delay: Delay::default(), connection: Some(connection) };
        inner.slots.insert(name.to_owned(), slot);
        Ok(Attached { slots: self.clone(), name: name.to_owned(), connection })
    }

    /// Forgets a slot that no connection has; returns whether there was one.
    pub fn forget(&self, name: &str) -> bool {
        let mut inner = self.inner.lock();
        let away = inner.slots.get(name).is_some_and(|slot| slot.connection.is_none());
        away && inner.slots.remove(name).is_some()
    }
}

impl Attached {
    /// Takes note of positions that the replica's readers see, as an ack that came at `now_ns` says.
    pub(super) fn applied(&self, ack: &Ack, rtt_min_ns: u64, now_ns: u64) {
        let mut inner = self.slots.inner.lock();
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        let Some(slot) = slot else { return };
        let marks = self.slots.marks.lock();
        for mark in &ack.marks {
            let age_ns = u64::from(mark.age_us) * 1000;
            slot.delay.on_mark(&marks, mark.lsn, age_ns, rtt_min_ns, now_ns);
        }
    }

    /// Returns how far the replica is behind, in nanoseconds.
    pub(super) fn delay_ns(&self, durable: Lsn, now_ns: u64) -> u64 {
        let inner = self.slots.inner.lock();
        let slot = inner.slots.get(&self.name).filter(|slot| slot.connection == Some(self.connection));
        slot.map_or(0, |slot| slot.delay.now_ns(&self.slots.marks.lock(), durable, now_ns))
    }

    fn change(&self, change: impl FnOnce(&mut SlotStat)) {
        let mut inner = self.slots.inner.lock();
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        if let Some(slot) = slot {
            change(&mut slot.stat);
        }
    }

    /// Says what the replica is doing.
    pub(super) fn state(&self, state: SlotState) {
        self.change(|stat| stat.state = state);
    }

    /// Shows how far it has come.
    pub(super) fn show(&self, progress: &Progress) {
        self.change(|stat| {
            stat.positions = progress.positions();
            (stat.rtt_min_ns, stat.queue_bytes) = (progress.rtt_min_ns(), progress.queue_bytes());
            stat.heard_ns = progress.heard_ns();
        });
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.state(SlotState::Away);
        let mut inner = self.slots.inner.lock();
        let slot = inner.slots.get_mut(&self.name).filter(|slot| slot.connection == Some(self.connection));
        if let Some(slot) = slot {
            slot.connection = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: S1 and S2. Method: two nodes and two names in every combination that must be refused, then after one left.
    #[test]
    fn one_connection_has_a_slot_and_a_node_connects_once() {
        let slots = Arc::new(Slots::new());
        let attach = |name: &str, node: u64| slots.attach(name, node, "127.0.0.1", 2, 5);
        let north = attach("north", 1).unwrap();
        assert_eq!(attach("north", 2).unwrap_err(), Busy::Slot);
        assert_eq!(attach("south", 1).unwrap_err(), Busy::Node("north".to_owned()));
        let _south = attach("south", 2).unwrap();
        assert_eq!(attach("east", 3).unwrap_err(), Busy::TooMany);
        assert!(!slots.forget("north"), "it is connected");
        north.state(SlotState::Streaming);
        drop(north);
        let states: Vec<_> = slots.stat(Lsn::ZERO, 9).into_iter().map(|stat| (stat.name, stat.state)).collect();
        assert_eq!(states, [("north".to_owned(), SlotState::Away), ("south".to_owned(), SlotState::CatchingUp)]);
        let _again = attach("north", 1).unwrap();
        assert!(!slots.forget("west"));
    }
}
