//! `Synchronous`: the quorum of a primary that serves, beside the connections that report to it.
//!
//! # Invariants
//! - Y1. A member is connected as long as its newest [`Membership`] lives; an older one that ends late changes nothing.
//! - Y2. What is confirmed is told to the database in the order in which it grows, by whoever's report made it grow, before the next
//!   report is looked at: the lock is held over both.
//! - Y3. Whoever streams hears of it when what readers may see has grown ([`Synchronous::shows`]).
//! - Y4. Who is asked changes in this order: counted by both lists, noted in the log, and over when both have the note and another one
//!   says so. A change that cannot be noted has not begun, and one whose end cannot be is not over.
//! - Y5. What the leader counts for itself was on its disk before it promised a higher term (A4 of `asked.rs`): the promise is looked at
//!   behind the position.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use collie_base::Lsn;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Asked, Change, Degrade, Quorum, Sent, Source};

/// A primary's quorum.
#[derive(Debug)]
pub struct Synchronous {
    quorum: Mutex<Quorum>,
    /// Whether the change that goes on was there when the node began to lead (A5 of `asked.rs`). Written under `quorum`.
    found: AtomicBool,
    shows: watch::Sender<Lsn>,
}

/// How a quorum stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStat {
    /// Which replicas are asked for.
    pub asked: Asked,
    /// How many of them are connected.
    pub connected: usize,
    /// Whether replies do without them.
    pub degraded: bool,
    /// What so many as are needed have, at the least.
    pub confirmed: Sent,
    /// A change is over once both lists have everything below; `Lsn::MAX` before its record is written.
    pub until: Lsn,
    /// The name of the leader, where it counts for a list that is asked.
    pub counts_itself: Option<String>,
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
    pub fn new(asked: impl Into<Asked>, degrade: Degrade) -> Arc<Self> {
        Self::of(Quorum::new(asked, degrade))
    }

    /// Of the node that has this name in lists, which asks nobody yet.
    pub fn led_by(name: &str, degrade: Degrade) -> Arc<Self> {
        Self::of(Quorum::new(Asked::default(), degrade).led_by(name))
    }

    fn of(quorum: Quorum) -> Arc<Self> {
        let (found, shows) = (AtomicBool::new(false), watch::Sender::new(Lsn::ZERO));
        Arc::new(Self { quorum: Mutex::new(quorum), found, shows })
    }

    /// Has those asked that `choose` makes of who is asked now, for the database that it counts for; `None` leaves it as it is. `note` writes
    /// that down, with whether replicas are made do without, and returns where its record ends: it is returned.
    ///
    /// # Errors
    /// `note`'s: those are asked who were before.
    pub fn ask<E>(
        &self,
        source: &impl Source,
        choose: impl FnOnce(&Asked) -> Option<Asked>,
        note: impl FnOnce(&Asked, bool) -> Result<Lsn, E>,
    ) -> Result<Option<Lsn>, E> {
        let mut quorum = self.quorum.lock();
        let Some(asked) = choose(quorum.asked()) else { return Ok(None) };
        let (before, until) = (quorum.asked().clone(), quorum.over_at());
        let grew = quorum.ask(asked);
        if quorum.asks_others() {
            source.count_replicas(!quorum.is_degraded());
            source.ask_replicas(true);
        }
        if grew {
            source.confirm(quorum.confirmed()); // Y2
        }
        let noted = note(quorum.asked(), quorum.is_degraded()); // Y4
        if noted.is_err() {
            quorum.ask(before);
        }
        quorum.until(noted.as_ref().map_or(until, |end| *end));
        if !quorum.asks_others() {
            source.ask_replicas(false);
            source.count_replicas(false);
        }
        drop(quorum);
        self.shows.send_replace(source.show());
        noted.map(Some)
    }

    /// Has those asked whom a database that begins to lead goes by, whether `note` can write that down or not: as for
    /// [`Synchronous::ask`]. May be called again.
    ///
    /// # Errors
    /// `note`'s. A change among them is not over before another call.
    pub fn begin<E>(
        &self,
        source: &impl Source,
        asked: Asked,
        note: impl FnOnce(&Asked) -> Result<Lsn, E>,
    ) -> Result<(), E> {
        let mut quorum = self.quorum.lock();
        self.found.store(asked.lists().count() > 1, Ordering::Relaxed);
        quorum.ask(asked);
        let asks = quorum.asks_others();
        source.count_replicas(asks);
        source.ask_replicas(asks);
        source.confirm(quorum.confirmed()); // Y2
        let end = note(quorum.asked())?;
        quorum.until(end);
        drop(quorum);
        self.shows.send_replace(source.show());
        Ok(())
    }

    /// Returns whether the node found a change when it began to lead that is not over: no other one may begin (A5 of `asked.rs`).
    pub fn found_change(&self) -> bool {
        let _whole = self.quorum.lock();
        self.found.load(Ordering::Relaxed)
    }

    /// Returns whether commits wait for any node but the leader.
    pub fn asks_others(&self) -> bool {
        self.quorum.lock().asks_others()
    }

    /// Returns how it stands.
    pub fn stat(&self) -> QuorumStat {
        let quorum = self.quorum.lock();
        QuorumStat {
            asked: quorum.asked().clone(),
            connected: quorum.connected_len(),
            degraded: quorum.is_degraded(),
            confirmed: quorum.confirmed(),
            until: quorum.over_at(),
            counts_itself: quorum.own_member().map(str::to_owned),
        }
    }

    /// The time for which replicas were waited for starts again: this process stood still.
    pub fn begin_time(&self) {
        self.quorum.lock().begin_time();
    }

    /// Looks at the time for the database that it counts for; returns what has changed, which the database knows then, and what came of
    /// writing it down by `note`, as for [`Synchronous::ask`]. `may_degrade` is as for [`Quorum::tick`]. Call it a few times in a second.
    pub fn tick<E>(
        &self,
        source: &impl Source,
        now_ns: u64,
        may_degrade: impl FnOnce(u64) -> bool,
        note: impl FnOnce(&Asked, bool) -> Result<Lsn, E>,
    ) -> Option<(Change, Result<Lsn, E>)> {
        let mut quorum = self.quorum.lock();
        let durable = source.durable();
        if !source.leads() {
            return None; // Y5: nothing is over, and nothing made do without, in a term that is
        }
        if quorum.on_own(durable) {
            source.confirm(quorum.confirmed()); // Y2
            self.shows.send_replace(source.show());
        }
        let (before, until) = (quorum.asked().clone(), quorum.over_at());
        let change = quorum.tick(durable, now_ns, may_degrade)?;
        // Before anybody is asked anew: the newest record is the one in force.
        let noted = note(quorum.asked(), quorum.is_degraded());
        if change == Change::Changed && noted.is_ok() {
            self.found.store(false, Ordering::Relaxed);
        }
        match change {
            Change::Degraded | Change::Restored => source.count_replicas(change == Change::Restored),
            Change::Changed if noted.is_err() => {
                quorum.ask(before); // Y4: it is over with the next look that can note it
                quorum.until(until);
            }
            Change::Changed if quorum.asks_others() => source.confirm(quorum.confirmed()), // Y2
            Change::Changed => {
                source.ask_replicas(false);
                source.count_replicas(false);
            }
        }
        drop(quorum);
        self.shows.send_replace(source.show());
        Some((change, noted))
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
        let durable = source.durable();
        let own_grew = source.leads() && quorum.on_own(durable); // Y5
        if quorum.on_ack(&self.slot, self.connection, reported) || own_grew {
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
