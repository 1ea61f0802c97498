//! `Shared`: the state that all handles of one open database share.
//!
//! | file | holds |
//! |---|---|
//! | `mode` | how the database was opened, and the parts that only one mode has |
//! | `collecting` | rounds that collect garbage, bound memory and free dropped families |
//! | `flushing` | rounds that flush families, and the release of log |
//! | `scrubbing` | rounds that look for rot, and its repair |
//! | `threads` | the threads that make these rounds, and the end of all of them |

mod collecting;
pub(crate) mod flushing;
pub(crate) mod mode;
mod scrubbing;
pub(crate) mod threads;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use collie_base::{Lsn, Xid};
use collie_env::Env;
use collie_sync::StripedCounter;
use collie_txn::{CommitLog as _, Txns};
use parking_lot::Mutex;

use crate::dir::control::Control;
use crate::families::Families;
use crate::flush::scrub::Scrub;
use crate::flush::{Base, Parts};
use crate::follow::followed::Followed;
use crate::gc::dropped::DroppedFamilies;
use crate::gc::garbage::Garbage;
use crate::gc::memory::MemoryLimit;
use crate::gc::old_versions::OldVersions;
use crate::live_options::LiveOptions;
use crate::log::EngineLog;
use crate::log::limit::LogLimit;
use crate::log::quorum_notes::QuorumNotes;
use crate::log::room::LogRoom;
use crate::log::write_pause::WritePause;
use crate::serial::serial_writes::SerialWrites;
use crate::shared::mode::Mode;
use crate::shared::threads::Threads;
use crate::{EngineError, Options};

/// Options that do not change while the database is open.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// Largest payload of one piece of a record.
    pub(crate) chunk_bytes: u64,
    /// [`Options::stamped_at_commit_max`].
    pub(crate) stamped_at_commit_max: usize,
    segment_bytes: u64,
    /// [`Options::avoid_flush_at_close`].
    avoid_flush_at_close: bool,
    /// [`Options::allow_replication_holes`].
    allow_replication_holes: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    // Constant after open.
    pub(crate) env: Env,
    pub(crate) fixed: Fixed,
    pub(crate) mode: Mode,
    pub(crate) families: Arc<Families>,
    pub(crate) txns: Arc<Txns<EngineLog>>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) live: LiveOptions,
    // Used by committing sessions.
    /// Keys of validated commits, while a transaction validates in steps.
    pub(crate) serial_writes: SerialWrites,
    /// Transactions that have committed with a record since the database was opened.
    pub(crate) commits: StripedCounter,
    /// Transactions that had an id and were rolled back.
    pub(crate) aborts: StripedCounter,
    /// The quorum configuration, as QUORUM records set it. Grows with the log.
    pub(crate) quorum: QuorumNotes,
    // Used by sessions that are about to write.
    /// Writers wait here while flushes are behind.
    pub(crate) room: LogRoom,
    /// Writers wait here during a switchover.
    pub(crate) pause: WritePause,
    pub(crate) memory: MemoryLimit,
    pub(crate) old: OldVersions,
    // Used by rounds of background work.
    log_limit: LogLimit,
    xid_limit: AtomicU64,
    pub(crate) dropped: DroppedFamilies,
    /// Rot that was found.
    pub(crate) scrub: Scrub,
    pub(crate) threads: Threads,
    /// Held while a copy of the database is made.
    pub(crate) checkpoints: Mutex<()>,
    /// Whether the control file lacks the newest history, which then only the log has.
    owes_control: AtomicBool,
    // Written once.
    /// By close.
    pub(crate) closed: AtomicBool,
    /// When another node leads.
    deposed: AtomicBool,
}

impl Shared {
    /// Returns the state of a database in this mode, with the quorum configuration of its log.
    pub(crate) fn new(
        (families, txns): (Arc<Families>, Arc<Txns<EngineLog>>),
        mode: Mode,
        quorum: QuorumNotes,
        first_xid: Xid,
        options: &Options,
        env: &Env,
    ) -> Self {
        let fixed = Fixed {
            chunk_bytes: options.log.chunk_bytes,
            stamped_at_commit_max: options.stamped_at_commit_max,
            segment_bytes: options.log.segment_bytes,
            avoid_flush_at_close: options.avoid_flush_at_close,
            allow_replication_holes: options.allow_replication_holes,
        };
        let this = Self {
            env: env.clone(),
            fixed,
            mode,
            garbage: Arc::default(),
            live: LiveOptions::new(options),
            serial_writes: SerialWrites::default(),
            commits: StripedCounter::default(),
            aborts: StripedCounter::default(),
            quorum,
            room: LogRoom::new(options.background, options.log.warnings.clone()),
            pause: WritePause::default(),
            memory: MemoryLimit::new(options, env),
            old: OldVersions::new(options.old_version_memory, options.max_snapshot_age),
            log_limit: LogLimit::new(options, txns.log().wal().and_then(collie_wal::Log::disk_bytes)),
            xid_limit: AtomicU64::new(first_xid.get()),
            dropped: DroppedFamilies::default(),
            scrub: Scrub::new(options),
            threads: Threads::default(),
            checkpoints: Mutex::new(()),
            owes_control: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            deposed: AtomicBool::new(false),
            families,
            txns,
        };
        if let Some(base) = this.mode.base() {
            this.note_kept(base.levels().log_start());
        }
        this
    }

    /// Returns whether there is no log, so that only flushed writes survive.
    #[inline]
    pub(crate) const fn has_no_log(&self) -> bool {
        self.mode.numbers().is_some()
    }

    /// Returns the identity of the directory.
    pub(crate) fn control(&self) -> &Control {
        self.mode.control()
    }

    /// Returns the LSM levels; `None` in a database opened read-only.
    #[inline]
    pub(crate) const fn base(&self) -> Option<&Base> {
        self.mode.base()
    }

    /// Returns the LSM levels to write to. A replica has them too, although it takes no writes.
    pub(crate) fn writable_base(&self) -> Result<&Base, EngineError> {
        match self.base() {
            Some(base) => Ok(base),
            None => self.mode.check_writable().and(Err(EngineError::Closed)),
        }
    }

    /// Fails if every write is refused.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        self.mode.check_writable()
    }

    /// Makes every later commit of a transaction that wrote fail.
    pub(crate) fn depose(&self) {
        self.deposed.store(true, Release);
        self.pause.end();
    }

    /// Fails once another node leads.
    #[inline]
    pub(crate) fn check_leads(&self) -> Result<(), EngineError> {
        if self.deposed.load(Acquire) { Err(EngineError::Replica) } else { Ok(()) }
    }

    /// Makes new snapshots begin at the read horizon of the followed log, which may have moved.
    pub(crate) fn shown_moved(&self, followed: &Followed) {
        // The visible position need not be on this node's disk: the primary has it on disk.
        let position = followed.shown.position();
        self.txns.acknowledge(position);
        followed.shown_times.note(position, || self.env.clock.now_ns());
        followed.shown.wake();
    }

    /// Returns the time since a fixed moment.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.env.clock.now_ns())
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            families: &self.families,
            garbage: &self.garbage,
            txns: &self.txns,
            quorum: &self.quorum,
            warnings: self.room.warnings(),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.txns.log().durable()
    }
}
