//! `Synchronous`: the quorum of a serving primary, shared with the connections that report to it.
//!
//! # Invariants
//! - Y1. A member is connected as long as its newest [`Membership`] exists; an older one that ends late changes
//!   nothing.
//! - Y2. The database is notified of confirmed positions in the order in which they grow, by the task whose report
//!   raised them, before the next report is counted: the lock is held over both.
//! - Y3. A stream is notified when the position that readers may see has grown ([`Synchronous::shows`]).
//! - Y4. The lists change in this order: both lists count, a record notes the change in the log, and the change
//!   completes when both lists have that record and another record states the end. A change that cannot be noted
//!   has not begun, and one whose end cannot be noted is not complete.
//! - Y5. The leader counts for itself only bytes that were on its disk before it promised a higher term (A4 of
//!   `quorum_config.rs`): the promise is read after the position.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use collie_base::Lsn;
use collie_sync::mutant;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Change, Degrade, Quorum, QuorumConfig, Sent, Source};

/// A primary's quorum.
#[derive(Debug)]
pub struct Synchronous {
    quorum: Mutex<Quorum>,
    /// Whether the change in progress existed when the node began to lead (A5 of `quorum_config.rs`). Written under
    /// `quorum`.
    found: AtomicBool,
    shows: watch::Sender<Lsn>,
}

/// The state of a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStat {
    /// The lists in force.
    pub asked: QuorumConfig,
    /// The number of connected nodes in them.
    pub connected: usize,
    /// Whether replies do without replicas.
    pub degraded: bool,
    /// The positions that at least the needed nodes have.
    pub confirmed: Sent,
    /// A change is complete once both lists have everything below; `Lsn::MAX` before its record is written.
    pub until: Lsn,
    /// The name of the leader, if it counts for a list in force.
    pub counts_itself: Option<String>,
}

/// A connection of a member; when it is dropped, the member is away (Y1).
#[derive(Debug)]
pub(super) struct Membership {
    synchronous: Arc<Synchronous>,
    slot: String,
    connection: u64,
}

impl Synchronous {
    /// Creates a quorum without reports.
    pub fn new(asked: impl Into<QuorumConfig>, degrade: Degrade) -> Arc<Self> {
        Self::of(Quorum::new(asked, degrade))
    }

    /// Creates the quorum of a node that has this name in lists, without a list in force yet.
    pub fn led_by(name: &str, degrade: Degrade) -> Arc<Self> {
        Self::of(Quorum::new(QuorumConfig::default(), degrade).led_by(name))
    }

    fn of(quorum: Quorum) -> Arc<Self> {
        let (found, shows) = (AtomicBool::new(false), watch::Sender::new(Lsn::ZERO));
        Arc::new(Self { quorum: Mutex::new(quorum), found, shows })
    }

    /// Puts the lists in force that `choose` makes of the present ones, for the database `source`; if `choose`
    /// returns `None`, nothing changes. `note` records the lists in the log, with whether the primary is degraded,
    /// and returns the end of its record, which this returns.
    ///
    /// # Errors
    /// Those of `note`: the lists before stay in force.
    pub fn ask<E>(
        &self,
        source: &impl Source,
        choose: impl FnOnce(&QuorumConfig) -> Option<QuorumConfig>,
        note: impl FnOnce(&QuorumConfig, bool) -> Result<Lsn, E>,
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

    /// Puts the lists in force with which a database begins to lead, even if `note` cannot record them; `note` is
    /// as for [`Synchronous::ask`]. May be called again.
    ///
    /// # Errors
    /// Those of `note`. A change between the lists cannot complete before another call.
    pub fn begin<E>(
        &self,
        source: &impl Source,
        asked: QuorumConfig,
        note: impl FnOnce(&QuorumConfig) -> Result<Lsn, E>,
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

    /// Returns whether the node found a change when it began to lead that is not complete: no other change may
    /// begin (A5 of `quorum_config.rs`).
    pub fn found_change(&self) -> bool {
        let _whole = self.quorum.lock();
        self.found.load(Ordering::Relaxed)
    }

    /// Returns whether commits wait for any node other than the leader.
    pub fn asks_others(&self) -> bool {
        self.quorum.lock().asks_others()
    }

    /// Returns the state of the quorum.
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

    /// Restarts the time for which replicas were waited for: this process stood still.
    pub fn begin_time(&self) {
        self.quorum.lock().begin_time();
    }

    /// Advances the time for the database `source`; returns a change, which the database was notified of, and the
    /// result of recording it with `note`, as for [`Synchronous::ask`]. `may_degrade` is as for [`Quorum::tick`].
    /// To be called a few times per second.
    pub fn tick<E>(
        &self,
        source: &impl Source,
        now_ns: u64,
        may_degrade: impl FnOnce(u64) -> bool,
        note: impl FnOnce(&QuorumConfig, bool) -> Result<Lsn, E>,
    ) -> Option<(Change, Result<Lsn, E>)> {
        let mut quorum = self.quorum.lock();
        let durable = source.durable();
        if !source.leads() {
            return None; // Y5: in a term that is over, nothing completes and nothing degrades
        }
        if quorum.on_own(durable) {
            source.confirm(quorum.confirmed()); // Y2
            self.shows.send_replace(source.show());
        }
        let (before, until) = (quorum.asked().clone(), quorum.over_at());
        let may_degrade = |since_ns| may_degrade(since_ns) || mutant!("LEAVE_NOT_AWAITED");
        let change = quorum.tick(durable, now_ns, may_degrade)?;
        // Noted before the database is notified: the newest record is the one in force.
        let noted = note(quorum.asked(), quorum.is_degraded());
        if change == Change::Changed && noted.is_ok() {
            self.found.store(false, Ordering::Relaxed);
        }
        match change {
            Change::Degraded | Change::Restored => source.count_replicas(change == Change::Restored),
            Change::Changed if noted.is_err() => {
                quorum.ask(before); // Y4: it completes at the next tick that can note it
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

    /// Returns whether a list in force names `slot`.
    pub(super) fn has(&self, slot: &str) -> bool {
        self.quorum.lock().has(slot)
    }

    /// Records that a slot's replica has connected.
    pub(super) fn connected(self: &Arc<Self>, slot: &str) -> Membership {
        let connection = self.quorum.lock().connected(slot);
        Membership { synchronous: self.clone(), slot: slot.to_owned(), connection }
    }

    /// Returns a receiver of the position that readers may see, for each time that it grows (Y3).
    pub(super) fn shows(&self) -> watch::Receiver<Lsn> {
        self.shows.subscribe()
    }
}

impl Membership {
    /// Records the positions of the member.
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
