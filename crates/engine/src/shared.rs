//! `Shared`: what all handles of one open database share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use collie_base::{CfId, Lsn, Xid};
use collie_env::{Clock, Env};
use collie_store::{Row, pin};
use collie_txn::{CommitLog as _, Txns};
use parking_lot::Mutex;

use crate::background::Background;
use crate::control::Control;
use crate::families::Families;
use crate::garbage::{Garbage, Reach};
use crate::log::EngineLog;
use crate::old_versions::OldVersions;
use crate::redo::{encode_integers, tag};
use crate::writes::Writes;
use crate::{EngineError, Options};

/// Transaction ids promised by one XID_LIMIT record.
const XID_BLOCK: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Shared {
    // Constant after open.
    pub(crate) families: Arc<Families>,
    pub(crate) txns: Arc<Txns<EngineLog>>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) old: OldVersions,
    clock: Arc<dyn Clock>,
    pub(crate) control: Control,
    /// Largest payload of one piece of the log.
    pub(crate) chunk_bytes: u64,
    /// [`Options::stamped_at_commit_max`].
    stamped_at_commit_max: usize,
    // Written by whoever ticks.
    xid_limit: AtomicU64,
    // Written once, by close.
    pub(crate) closed: AtomicBool,
    pub(crate) background: Mutex<Option<Background>>,
}

impl Shared {
    pub(crate) fn new(
        families: Arc<Families>,
        txns: Arc<Txns<EngineLog>>,
        control: Control,
        chunk_bytes: u64,
        first_xid: Xid,
        options: &Options,
        env: &Env,
    ) -> Self {
        let old = OldVersions::new(options.old_version_memory, options.max_snapshot_age);
        Self {
            families,
            txns,
            garbage: Arc::default(),
            old,
            clock: Arc::clone(&env.clock),
            control,
            chunk_bytes,
            stamped_at_commit_max: options.stamped_at_commit_max,
            xid_limit: AtomicU64::new(first_xid.get()),
            closed: AtomicBool::new(false),
            background: Mutex::new(None),
        }
    }

    /// Makes the write set of a session.
    pub(crate) fn writes(&self) -> Writes {
        Writes::new(&self.families, &self.garbage, &self.txns, self.stamped_at_commit_max)
    }

    /// Frees the rows of a family, and forgets what they kept.
    pub(crate) fn drop_family(&self, cf: CfId) {
        self.txns.stamp_waiting(); // so that none of its versions is in other hands
        self.garbage.while_nobody_cleans(|| {
            if let Some(family) = self.families.remove(cf) {
                self.garbage.freed(family.clear());
            }
        });
    }

    /// One round of background work. Returns how much there was.
    pub(crate) fn tick(&self) -> usize {
        let before = self.txns.horizon();
        let unstamped = self.txns.unstamped();
        let horizon = self.txns.tick(self.now());
        // The log refusing is no concern here: the next round tries again, and the ids of commits are in the log anyway.
        let _ = self.log_xid_limit();
        let cleaned = self.clean(Reach::Due);
        self.limit_old_versions();
        cleaned + usize::from(horizon != before) + usize::from(unstamped > 0) + self.garbage.len().0
    }

    /// Returns the time since some fixed moment.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns())
    }

    fn clean(&self, reach: Reach) -> usize {
        // A copy: the list is read under a pin, which must not last as long as cleaning does.
        let live = self.txns.with_live(Clone::clone);
        self.garbage.clean(&self.families, &live, reach)
    }

    /// Frees what nobody sees of a row that somebody just wrote, when that is worth it.
    pub(crate) fn prune(&self, row: &Row) {
        if row.is_grown() {
            let pruned = self.txns.with_live(|live| row.prune(live, &pin()));
            self.garbage.freed(pruned.map_or(0, |pruned| pruned.bytes));
        }
    }

    /// Keeps the limits of old versions (O1).
    fn limit_old_versions(&self) {
        if self.old.has_age_limit() {
            let held = self.txns.snapshots(self.now());
            for held in held.iter().filter(|held| self.old.is_too_old(held.age)) {
                self.txns.cancel_snapshot(held, self.garbage.bytes());
            }
        }
        if !self.old.is_above_limit(self.garbage.bytes()) {
            return self.old.refuse_writers(false);
        }
        self.txns.tick(self.now());
        self.clean(Reach::All);
        if !self.old.is_above_limit(self.garbage.bytes()) {
            return self.old.refuse_writers(false);
        }
        let held = self.txns.snapshots(self.now());
        let mut keeping = held.iter().filter(|held| held.can_be_cancelled).peekable();
        self.old.refuse_writers(keeping.peek().is_none());
        if keeping.peek().is_none() {
            self.txns.log().flush_soon(); // what is not durable yet is all that is left
        }
        keeping.find(|held| self.txns.cancel_snapshot(held, self.garbage.bytes()));
    }

    /// Logs a bound of transaction ids, half a block before the last one is reached.
    pub(crate) fn log_xid_limit(&self) -> Result<(), EngineError> {
        if self.txns.log().is_read_only() {
            return Ok(());
        }
        let next = self.txns.next_xid().get();
        let limit = self.xid_limit.load(Relaxed);
        if next.saturating_add(XID_BLOCK / 2) <= limit {
            return Ok(());
        }
        let limit = next.saturating_add(XID_BLOCK);
        self.txns.log().with_writer(|writer| writer.append(tag::XID_LIMIT, &[&encode_integers(&[limit])]))?;
        self.xid_limit.fetch_max(limit, Relaxed);
        Ok(())
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.txns.log().durable()
    }
}
