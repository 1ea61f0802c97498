//! `Txns`: everything about transactions that a database has once.

use crate::{
    error::TxnError,
    log::CommitLog,
    session::{Gate, Session},
    share_table::RowShares,
    snapshots::{HeldSnapshot, Holder, Origin, Place, Placed, Snapshots},
    stamp::{Resolution, Stamp},
    stamper::Stamper,
    waits::Locks,
    xid_map::XidMap,
};
use collie_base::{CfId, LiveSnapshots, Lsn, Xid};
use collie_sync::{Mutex, atomic::AtomicU64, mutant, ord};
use std::{sync::Arc, time::Duration};

/// Sizes that are fixed when a database opens.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Words in the ring of xids, a power of two. Default 2^20: 8 MiB, and as many descriptor slots of 16 bytes.
    /// Smaller rings move transactions that stay open to the slower sparse map sooner.
    pub xid_slots: usize,
    /// Sessions and other holders of snapshots at one time. Default 16,384, at 128 bytes each.
    pub sessions_max: usize,
    /// The first xid to give out: above every xid of earlier incarnations. Default 1.
    pub first_xid: Xid,
}

impl Default for Options {
    fn default() -> Self {
        Self { xid_slots: 1 << 20, sessions_max: 16_384, first_xid: Xid::new(1) }
    }
}

/// The transactions of one database.
#[derive(Debug)]
pub struct Txns<L> {
    pub(crate) log: L,
    pub(crate) map: Arc<XidMap>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) locks: Arc<Locks>,
    pub(crate) stamper: Stamper,
    /// Held by a SERIALIZABLE commit while it validates, appends and publishes (V1 of `serial.rs`).
    pub(crate) serial: Mutex<()>,
}

impl<L: CommitLog> Txns<L> {
    /// Starts with no transaction open, over a log that is ready to append.
    ///
    /// # Panics
    /// When `xid_slots` is not a power of two, `sessions_max` is above 2^20 or `first_xid` is 0.
    #[must_use]
    pub fn new(log: L, options: Options) -> Arc<Self> {
        assert!(options.sessions_max <= 1 << 20, "{} sessions: at most 2^20", options.sessions_max);
        let map = Arc::new(XidMap::new(options.xid_slots, options.first_xid));
        Arc::new(Self {
            log,
            snapshots: Arc::new(Snapshots::new(options.sessions_max)),
            locks: Arc::new(Locks::new(Arc::clone(&map))),
            map,
            stamper: Stamper::default(),
            serial: Mutex::new(()),
        })
    }

    /// Returns the log that was given to [`Txns::new`].
    pub fn log(&self) -> &L {
        &self.log
    }

    /// Opens a session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn session(self: &Arc<Self>) -> Result<Session<L>, TxnError> {
        Session::new(Arc::clone(self))
    }

    /// Holds a snapshot of everything committed, outside any session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn hold_newest(&self) -> Result<Holder, TxnError> {
        Holder::new(&self.snapshots, Origin::Boundary, &self.log)
    }

    /// Holds a snapshot of what no crash takes back (or was acknowledged without that promise), outside any session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn hold_settled(&self) -> Result<Holder, TxnError> {
        Holder::new(&self.snapshots, Origin::Settled, &self.log)
    }

    /// Takes a place for the snapshots of one holder, to keep: it is one of `sessions_max`, and named by no error about them.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn keep_place(&self) -> Result<Place, TxnError> {
        Place::new(&self.snapshots)
    }

    /// Holds a snapshot of what no crash takes back, and where replicas are counted no failover, outside any session: it starts at
    /// what the log has settled, as loaded by this call.
    ///
    /// `place` must be of this database.
    pub fn hold_durable<'p>(&self, place: &'p mut Place) -> Placed<'p> {
        place.hold(Origin::Durable, &self.log)
    }

    /// Returns how the writer of a version with this stamp word ended.
    ///
    /// Cost: one load when the version is stamped, else three. Progress: wait-free; one short read lock for a
    /// transaction that was open while as many xids as the ring has were given out.
    ///
    /// # Panics
    /// When the writer is unknown: a bug that must not be answered with a guess.
    #[inline]
    #[must_use]
    pub fn resolve(&self, stamp: &AtomicU64) -> Resolution {
        self.map.resolve(|| Stamp::from_raw(stamp.load(ord!("STAMP_LOAD", Acquire))))
    }

    /// Returns the horizon as last computed: at or below every present and future snapshot. A version that was
    /// superseded at `c` is free when `c <` this, strictly. One load.
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.snapshots.horizon()
    }

    /// Calls `look` with the live snapshots as last listed: by them versions are freed that lie between two of them.
    /// `look` runs under a pin: it must not wait. One load.
    pub fn with_live<R>(&self, look: impl FnOnce(&LiveSnapshots) -> R) -> R {
        self.snapshots.with_live(look)
    }

    /// Does what must be done every few milliseconds: stamps what large commits left, retires finished xids, lists the live
    /// snapshots anew, and notes how old they are at `now` (time since any fixed moment). Returns the horizon.
    pub fn tick(&self, now: Duration) -> Lsn {
        self.stamp_waiting();
        self.map.retire(false);
        self.snapshots.advance(&self.log, now)
    }

    /// Returns the snapshots in force, lowest first, with their ages at `now` as far as ticks have seen them. One that
    /// begins meanwhile may be missing.
    #[must_use]
    pub fn snapshots(&self, now: Duration) -> Vec<HeldSnapshot> {
        self.snapshots.all(now)
    }

    /// Takes a snapshot out of force, if it still is and its holder is a session: from the next [`Txns::tick`] on nothing is
    /// kept for it. Its session gets [`TxnError::SnapshotCancelled`], with these bytes, before it uses another answer.
    /// Returns whether it was done. Waits for nobody, least of all for the session.
    pub fn cancel_snapshot(&self, held: &HeldSnapshot, old_version_bytes: u64) -> bool {
        self.snapshots.cancel(held, old_version_bytes)
    }

    /// Returns whether the snapshot of the session in `slot`, which calls, was cancelled: what [`Session::check_snapshot`] says,
    /// for where the session is lent out.
    #[must_use]
    pub fn is_cancelled(&self, slot: usize) -> bool {
        self.snapshots.is_cancelled(slot)
    }

    /// Stamps the versions that commits up to now have left unstamped; returns how many this thread stamped. Part of each tick.
    pub fn stamp_waiting(&self) -> u64 {
        self.stamper.stamp(&self.map)
    }

    /// Returns how many versions of commits wait to be stamped.
    #[must_use]
    pub fn unstamped(&self) -> u64 {
        self.stamper.len()
    }

    /// Notes that a commit ending at `end` was acknowledged without waiting for the disk. The boundary is at or above
    /// `end` already: wait for that first.
    pub fn acknowledge(&self, end: Lsn) {
        debug_assert!(self.log.boundary() >= end, "acknowledged {end} before the boundary reached it");
        self.snapshots.raise_ack_floor(end);
    }

    /// Returns max(what the log has settled, acknowledged floor): where read-only snapshots start.
    #[must_use]
    pub fn settled(&self) -> Lsn {
        self.snapshots.settled(&self.log)
    }

    /// Returns whether a reply that needs `gate` may leave.
    #[must_use]
    pub fn is_open(&self, gate: Gate) -> bool {
        self.log.boundary() >= gate.boundary && gate.settled.is_none_or(|settled| self.settled() >= settled)
    }

    /// Returns the xid that will be given out next. Log a limit above it before it gets there.
    #[must_use]
    pub fn next_xid(&self) -> Xid {
        self.map.next_xid()
    }

    /// Gives out no xid below `first` from now on: for a log that was read further. Returns whether that was possible: while a
    /// transaction has an xid it is not, and nothing changes.
    #[must_use]
    pub fn begin_xids_at(&self, first: Xid) -> bool {
        self.map.begin_at(first)
    }

    /// Returns the xid below which every transaction is finished or in the sparse map.
    #[must_use]
    pub fn floor_xid(&self) -> Xid {
        self.map.floor_xid()
    }

    /// Returns how many times [`Txns::resolve`] had to ask for a transaction that the ring of xids has lapped.
    #[must_use]
    pub fn lapped_lookups(&self) -> u64 {
        self.map.lapped_lookups()
    }

    /// Returns the moment at which the transaction `xid` got its id, with its first write or row lock, as
    /// [`Session::assign_xid_at`] was told; `None` when none was told, and once the transaction has ended.
    ///
    /// # Progress
    /// One short lock, which only the transaction that has the place of `xid` in the ring next takes too.
    #[must_use]
    pub fn first_write(&self, xid: Xid) -> Option<u64> {
        let desc = self.map.desc(xid)?;
        // In this order: what a later transaction of the session notes, it notes once this one is done.
        let was_done = mutant!("DONE_BEFORE_FIRST_WRITE").then(|| desc.is_done());
        let moment = self.snapshots.first_write(desc.owner.slot());
        let is_done = was_done.unwrap_or_else(|| desc.is_done());
        (moment != 0 && !is_done).then_some(moment)
    }

    /// Returns how many sessions wait for a lock.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.locks.waiting_len()
    }

    /// Runs `act` with the holders of a row in shared strength, while nobody else can change or read them. An entry means
    /// that its transaction holds the row until it takes the entry out, at its end before it is marked done (with
    /// [`WriteSet`](crate::WriteSet)) or at a rollback to a savepoint.
    ///
    /// # Progress
    /// Waits for other threads' calls for rows of the same of 256 shards; `act` neither waits nor calls a session.
    pub fn with_row_shares<R>(&self, cf: CfId, key: &[u8], act: impl FnOnce(&mut RowShares) -> R) -> R {
        self.locks.shares.with_row(cf, key, act)
    }

    /// Returns how many locks of shared strength are held. Looks at every shard.
    #[must_use]
    pub fn row_shares(&self) -> usize {
        self.locks.shares.len()
    }

    /// Returns how many snapshots are held, and the lowest.
    #[must_use]
    pub fn snapshots_held(&self) -> (usize, Option<Lsn>) {
        self.snapshots.held()
    }
}
