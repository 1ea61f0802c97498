//! `Txns`: the transaction state of one database.

use crate::{
    error::TxnError,
    locks::picture::LockPicture,
    locks::share_table::RowShares,
    locks::waits::Locks,
    log::CommitLog,
    snapshots::{HeldSnapshot, Holder, Origin, Place, Placed, Snapshots},
    stamp::{Resolution, Stamp},
    stamper::Stamper,
    xid_map::XidMap,
};
use collie_base::{CfId, LiveSnapshots, Lsn, Xid};
use collie_sync::{Mutex, atomic::AtomicU64, mutant, ord};
use std::{sync::Arc, time::Duration};

/// Sizes that are fixed when a database opens.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of words in the ring of xids, a power of two. Default 2^20: 8 MiB, and as many descriptor slots of 16
    /// bytes. With a smaller ring, transactions that stay open move to the slower sparse map sooner.
    pub xid_slots: usize,
    /// Maximum number of concurrent sessions and other holders of snapshots. Default 16,384, at 128 bytes each.
    pub sessions_max: usize,
    /// The first xid to assign: above every xid of earlier incarnations. Default 1.
    pub first_xid: Xid,
}

impl Default for Options {
    fn default() -> Self {
        Self { xid_slots: 1 << 20, sessions_max: 16_384, first_xid: Xid::new(1) }
    }
}

/// The positions that must be reached before a reply leaves ([`Txns::is_open`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    /// The boundary must have reached this.
    pub boundary: Lsn,
    /// max(settled, acknowledged floor) must have reached this.
    pub settled: Option<Lsn>,
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
    /// Creates the state without open transactions, over a log that is ready to append.
    ///
    /// # Panics
    /// If `xid_slots` is not a power of two, `sessions_max` is above 2^20 or `first_xid` is 0.
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

    /// Holds a snapshot of everything committed, outside any session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn hold_newest(&self) -> Result<Holder, TxnError> {
        Holder::new(&self.snapshots, Origin::Boundary, &self.log)
    }

    /// Holds a snapshot at the settled position, or at the acknowledged floor if that is higher, outside any session.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn hold_settled(&self) -> Result<Holder, TxnError> {
        Holder::new(&self.snapshots, Origin::Settled, &self.log)
    }

    /// Reserves a slot for successive snapshots of one holder. It counts towards `sessions_max`, but errors about the
    /// limit leave it out.
    ///
    /// # Errors
    /// [`TxnError::TooManySessions`].
    pub fn keep_place(&self) -> Result<Place, TxnError> {
        Place::new(&self.snapshots)
    }

    /// Holds a snapshot of what no crash takes back, and with a quorum no failover, outside any session: it starts at
    /// the log's settled position, as loaded by this call.
    ///
    /// `place` must be of this database.
    pub fn hold_durable<'p>(&self, place: &'p mut Place) -> Placed<'p> {
        place.hold(Origin::Durable, &self.log)
    }

    /// Returns the outcome of the writer of a version with this stamp word.
    ///
    /// Cost: one load if the version is stamped, else three. Progress: wait-free; one short read lock for a transaction
    /// that was open while as many xids were assigned as the ring has words.
    ///
    /// # Panics
    /// If the writer is unknown: a bug that must not be answered with a guess.
    #[inline]
    #[must_use]
    pub fn resolve(&self, stamp: &AtomicU64) -> Resolution {
        self.map.resolve(|| Stamp::from_raw(stamp.load(ord!("STAMP_LOAD", Acquire))))
    }

    /// Returns the last computed horizon: at or below every present and future snapshot. A version that was superseded
    /// at `c` can be freed if `c <` this, strictly. One load.
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.snapshots.horizon()
    }

    /// Calls `look` with the last list of live snapshots, by which versions between two of them are freed. `look` runs
    /// under a pin: it must not wait. One load.
    pub fn with_live<R>(&self, look: impl FnOnce(&LiveSnapshots) -> R) -> R {
        self.snapshots.with_live(look)
    }

    /// Does the periodic work of every few milliseconds: stamps what large commits left, retires finished xids, makes a
    /// new list of live snapshots, and records their ages at `now` (time since any fixed moment). Returns the horizon.
    pub fn tick(&self, now: Duration) -> Lsn {
        self.stamp_waiting();
        self.map.retire(false);
        self.snapshots.advance(&self.log, now)
    }

    /// Returns the snapshots in force, lowest first, with their ages at `now` as far as ticks have seen them. One that
    /// begins during the call may be missing.
    #[must_use]
    pub fn snapshots(&self, now: Duration) -> Vec<HeldSnapshot> {
        self.snapshots.all(now)
    }

    /// Cancels a snapshot, if it is still in force and its holder is a session: from the next [`Txns::tick`] on nothing
    /// is kept for it. Its session gets [`TxnError::SnapshotCancelled`], with these bytes, before it uses another
    /// result. Returns whether it was cancelled. Does not wait, in particular not for the session.
    pub fn cancel_snapshot(&self, held: &HeldSnapshot, old_version_bytes: u64) -> bool {
        self.snapshots.cancel(held, old_version_bytes)
    }

    /// Returns whether the snapshot of the session in `slot`, which calls this, was cancelled: the same as
    /// [`Session::check_snapshot`], for callers to which the session is lent.
    #[must_use]
    pub fn is_cancelled(&self, slot: usize) -> bool {
        self.snapshots.is_cancelled(slot)
    }

    /// Stamps the versions that earlier commits have left unstamped; returns how many this thread stamped. Part of each
    /// tick.
    pub fn stamp_waiting(&self) -> u64 {
        self.stamper.stamp(&self.map)
    }

    /// Returns how many versions of commits wait to be stamped.
    #[must_use]
    pub fn unstamped(&self) -> u64 {
        self.stamper.len()
    }

    /// Records that a commit ending at `end` was acknowledged without waiting for the disk. The boundary must already
    /// be at or above `end`: wait for that first.
    pub fn acknowledge(&self, end: Lsn) {
        debug_assert!(self.log.boundary() >= end, "acknowledged {end} before the boundary reached it");
        self.snapshots.raise_ack_floor(end);
    }

    /// Returns max(the log's settled position, acknowledged floor): where read-only snapshots start.
    #[must_use]
    pub fn settled(&self) -> Lsn {
        self.snapshots.settled(&self.log)
    }

    /// Returns whether a reply that needs `gate` may leave.
    #[must_use]
    pub fn is_open(&self, gate: Gate) -> bool {
        self.log.boundary() >= gate.boundary && gate.settled.is_none_or(|settled| self.settled() >= settled)
    }

    /// Returns the next xid to be assigned. Log a limit above it before it gets there.
    #[must_use]
    pub fn next_xid(&self) -> Xid {
        self.map.next_xid()
    }

    /// Assigns no xid below `first` from now on: for a log that was read further. Returns `false` and changes nothing
    /// if a transaction has an xid.
    #[must_use]
    pub fn begin_xids_at(&self, first: Xid) -> bool {
        self.map.begin_at(first)
    }

    /// Returns the xid below which every transaction is finished or in the sparse map.
    #[must_use]
    pub fn floor_xid(&self) -> Xid {
        self.map.floor_xid()
    }

    /// Returns how many times [`Txns::resolve`] looked up a transaction that the ring of xids has lapped.
    #[must_use]
    pub fn lapped_lookups(&self) -> u64 {
        self.map.lapped_lookups()
    }

    /// Returns the time at which the transaction `xid` got its id, with its first write or row lock, as passed to
    /// [`Session::assign_xid_at`]; `None` if there is none, and once the transaction has ended.
    ///
    /// # Progress
    /// Blocks on one short lock, which otherwise only the next transaction with the ring slot of `xid`, `retire` and
    /// other lookups take.
    #[must_use]
    pub fn first_write(&self, xid: Xid) -> Option<u64> {
        let desc = self.map.desc(xid)?;
        // The order matters: a later transaction of the session records its time only once this one is done.
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

    /// Runs `act` with the holders of a row in shared strength, while no other thread can change or read them. An entry
    /// means that its transaction holds the row until it removes the entry, at its end before it is marked done (with
    /// [`WriteSet`](crate::WriteSet)) or at a rollback to a savepoint.
    ///
    /// # Progress
    /// Blocks on other threads' calls for rows of the same of 256 shards; `act` neither waits nor calls a session.
    pub fn with_row_shares<R>(&self, cf: CfId, key: &[u8], act: impl FnOnce(&mut RowShares) -> R) -> R {
        self.locks.shares.with_row(cf, key, act)
    }

    /// Returns how many locks of shared strength are held. Reads every shard.
    #[must_use]
    pub fn row_shares(&self) -> usize {
        self.locks.shares.len()
    }

    /// Returns how many snapshots are held, and the lowest one.
    #[must_use]
    pub fn snapshots_held(&self) -> (usize, Option<Lsn>) {
        self.snapshots.held()
    }

    /// Returns every lock that is held or waited for.
    ///
    /// Cost: one access to each lock, and one to each xid from the oldest open transaction on, at most the size of the
    /// ring.
    ///
    /// # Progress
    /// Blocks on each shard's mutex in turn, and on the mutex of all waits; holds each only for its own part
    /// (blocking).
    #[must_use]
    pub fn lock_picture(&self) -> LockPicture {
        self.locks.picture()
    }

    /// Returns the slots of the sessions that the session in `slot` waits for: holders, and earlier waiters of its
    /// queue.
    ///
    /// Cost: one access to each waiting session.
    ///
    /// # Progress
    /// Blocks on the mutex of all waits and on one shard's.
    #[must_use]
    pub fn slots_in_the_way(&self, slot: usize) -> Vec<usize> {
        self.locks.slots_in_the_way(slot)
    }
}
