//! `Shared`: what all handles of one open database share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use collie_base::{CfId, Lsn, Xid};
use collie_txn::{CommitLog as _, Txns};
use parking_lot::Mutex;

use crate::background::Background;
use crate::control::Control;
use crate::families::Families;
use crate::log::EngineLog;
use crate::redo::{encode_integers, tag};
use crate::writes::{Garbage, Writes};
use crate::{EngineError, Options};

/// Transaction ids promised by one XID_LIMIT record.
const XID_BLOCK: u64 = 1 << 20;
/// Rows cleaned in one round at most, so that a round stays short.
const CLEAN_ROWS_MAX: usize = 50_000;

#[derive(Debug)]
pub(crate) struct Shared {
    // Constant after open.
    pub(crate) families: Arc<Families>,
    pub(crate) txns: Arc<Txns<EngineLog>>,
    pub(crate) garbage: Arc<Garbage>,
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
    ) -> Self {
        Self {
            families,
            txns,
            garbage: Arc::default(),
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

    /// Frees the rows of a family.
    pub(crate) fn drop_family(&self, cf: CfId) {
        self.txns.stamp_waiting(); // so that none of its versions is in other hands
        self.families.remove(cf);
    }

    /// One round of background work. Returns how much there was.
    pub(crate) fn tick(&self) -> usize {
        let before = self.txns.horizon();
        let unstamped = self.txns.unstamped();
        let horizon = self.txns.tick();
        // The log refusing is no concern here: the next round tries again, and the ids of commits are in the log anyway.
        let _ = self.log_xid_limit();
        let cleaned = self.garbage.clean(&self.families, horizon, CLEAN_ROWS_MAX);
        cleaned + usize::from(horizon != before) + usize::from(unstamped > 0) + usize::from(self.garbage.len() > 0)
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
