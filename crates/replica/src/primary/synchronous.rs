//! `Synchronous`: the quorum of a primary that serves, beside the connections that report to it.
//!
//! # Invariants
//! - Y1. A member is connected as long as its newest [`Membership`] lives; an older one that ends late changes nothing.
//! - Y2. What is confirmed is told to the database in the order in which it grows, by whoever's report made it grow, before the next
//!   report is looked at: the lock is held over both.
//! - Y3. Whoever streams hears of it when what readers may see has grown ([`Synchronous::shows`]).

use std::sync::Arc;

use collie_base::Lsn;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Change, Degrade, Quorum, QuorumList, Sent, Source};

/// A primary's quorum.
#[derive(Debug)]
pub struct Synchronous {
    quorum: Mutex<Quorum>,
    shows: watch::Sender<Lsn>,
}

/// How a quorum stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStat {
    /// Which replicas are asked for.
    pub list: QuorumList,
    /// How many of them are connected.
    pub connected: usize,
    /// Whether replies do without them.
    pub degraded: bool,
    /// What so many as are needed have, at the least.
    pub confirmed: Sent,
}

/// A connection of a member; dropped, the member is away (Y1).
#[derive(Debug)]
pub(super) struct Membership {
    synchronous: Arc<Synchronous>,
    slot: String,
    connection: u64,
}

impl Synchronous {
    /// Nobody has reported yet.
    pub fn new(list: QuorumList, degrade: Degrade) -> Arc<Self> {
        Arc::new(Self { quorum: Mutex::new(Quorum::new(list, degrade)), shows: watch::Sender::new(Lsn::ZERO) })
    }

    /// Returns how it stands.
    pub fn stat(&self) -> QuorumStat {
        let quorum = self.quorum.lock();
        QuorumStat {
            list: quorum.list().clone(),
            connected: quorum.connected_len(),
            degraded: quorum.is_degraded(),
            confirmed: quorum.confirmed(),
        }
    }

    /// Looks at the time for the database that it counts for; returns what has changed, which the database knows then. Call it a few
    /// times in a second.
    pub fn tick(&self, source: &impl Source, now_ns: u64) -> Option<Change> {
        let mut quorum = self.quorum.lock();
        let change = quorum.tick(source.durable(), now_ns)?;
        source.count_replicas(change == Change::Restored);
        drop(quorum);
        self.shows.send_replace(source.show());
        Some(change)
    }

    /// Returns whether a slot is one of the quorum's.
    pub(super) fn has(&self, slot: &str) -> bool {
        self.quorum.lock().has(slot)
    }

    /// A slot's replica has connected.
    pub(super) fn connected(self: &Arc<Self>, slot: &str) -> Membership {
        let connection = self.quorum.lock().connected(slot);
        Membership { synchronous: self.clone(), slot: slot.to_owned(), connection }
    }

    /// Hears what readers may see, each time that it grows (Y3).
    pub(super) fn shows(&self) -> watch::Receiver<Lsn> {
        self.shows.subscribe()
    }
}

impl Membership {
    /// Takes note of what the member has.
    pub(super) fn report(&self, source: &impl Source, reported: Sent) {
        let mut quorum = self.synchronous.quorum.lock();
        if quorum.on_ack(&self.slot, self.connection, reported) {
            source.confirm(quorum.confirmed()); // Y2
            drop(quorum);
            let show = source.show();
            self.synchronous.shows.send_if_modified(|before| std::mem::replace(before, show) != show);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.synchronous.quorum.lock().gone(&self.slot, self.connection);
    }
}
