//! Re-logging: the few unflushed rows of families that need old log are written to the log a second time, so that
//! the log can be cut without a flush for a few rows of each family.
//!
//! # Invariants
//! - R1. A re-log begins with a record of its own, which is durable before `f` is loaded, the position below which
//!   rows are taken. So a deletion that is not among the taken rows was committed above that record, and a reader
//!   that starts at the record meets it.
//! - R2. The rows need the log from this first record on, instead of from their old position, once every record of
//!   the re-log is durable.
//! - R3. An entry carries the commit position of its row: at replay every later commit wins, wherever its record
//!   is.
//! - R4. No other job flushes or re-logs one of the families during a re-log (F1).
//! - R5. The bytes with which families were re-logged stay within an eighth of the log limit, and each family is
//!   below [`FLUSH_FLOOR_BYTES`]. Beyond that, the largest family is flushed.
//! - R6. A family with unlogged rows is flushed instead: a re-log that is cut short would restore only a part of
//!   them.
//!
//! Checked by `relog/tests.rs`, which also makes each mistake, and by `tests/model.rs`.

use std::sync::Arc;

use collie_base::{CfId, Lsn, Map};
use collie_store::{FLUSH_FLOOR_BYTES, Family, FlushAt, FlushEntry, Unflushed};
use collie_txn::CommitLog as _;
use collie_wal::WalError;

use crate::EngineError;
use crate::families::Families;
use crate::flush::figures::FlushCause;
use crate::flush::{Base, Parts};
use crate::log::EngineLog;
use crate::log::txn_statuses::TxnStatuses;
use crate::planted::{is_planted, passes};
use crate::redo::{Op, Relogged, encode_relog, tag};

/// Bytes of entries after which a record ends.
const RECORD_BYTES: usize = 32 << 10;

/// The way in which the oldest log becomes releasable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// These families are re-logged together.
    Relog(Vec<CfId>),
    /// This family is flushed.
    Flush(CfId),
}

/// Families that were re-logged and not flushed since.
#[derive(Debug, Default)]
pub(crate) struct Relogs(Map<CfId, Done>);

#[derive(Clone, Copy, Debug)]
struct Done {
    /// Commits below this position do not need log from before the re-log.
    position: Lsn,
    bytes: u64,
}

impl Relogs {
    /// Returns the position below which commits to the family are in a re-log.
    pub(crate) fn position(&self, cf: CfId) -> Lsn {
        self.0.get(&cf).map_or(Lsn::ZERO, |done| done.position)
    }

    /// Notes that the family was flushed.
    pub(crate) fn flushed(&mut self, cf: CfId) {
        self.0.remove(&cf);
    }

    /// Decides what to do about `old`, the families that need old log, oldest first, with their bytes of unflushed
    /// rows (R5).
    pub(crate) fn way(&mut self, old: &[(CfId, u64)], limit_bytes: u64, families: &Families) -> Option<Way> {
        self.0.retain(|cf, _| families.get(*cf).is_some());
        let (first, first_bytes) = *old.first()?;
        let is_small = |bytes: u64| bytes < FLUSH_FLOOR_BYTES;
        let has_unlogged = |cf| families.get(cf).is_some_and(|family| family.has_unlogged());
        if has_unlogged(first) {
            return Some(Way::Flush(first)); // R6
        }
        let others = self.0.iter().filter(|(cf, _)| old.iter().all(|(old, _)| old != *cf));
        let mut bytes: u64 = others.map(|(_, done)| done.bytes).sum();
        let mut chosen = Vec::new();
        for (cf, more) in old.iter().filter(|(cf, more)| is_small(*more) && !has_unlogged(*cf)) {
            if bytes.saturating_add(*more) <= limit_bytes / 8 {
                bytes = bytes.saturating_add(*more);
                chosen.push(*cf);
            }
        }
        if chosen.contains(&first) {
            return Some(Way::Relog(chosen));
        }
        // Too much in total: flush the largest family, or the oldest one if it is too large by itself.
        let before = self.0.iter().map(|(cf, done)| (*cf, done.bytes));
        let largest = old.iter().copied().take(1).chain(before).max_by_key(|(_, bytes)| *bytes);
        Some(Way::Flush(if is_small(first_bytes) { largest.map_or(first, |(cf, _)| cf) } else { first }))
    }
}

/// A family and the rows that were taken from its lists.
struct Taken {
    family: Arc<Family>,
    rows: Unflushed,
    entries: usize,
    bytes: u64,
}

impl Base {
    /// Makes the families that need the oldest log need newer log only, by a re-log or flushes. `old` lists all
    /// families that need log from the older half of the retained log, oldest first.
    ///
    /// # Errors
    /// Those of the log and the LSM tree. Nothing is lost then.
    pub(crate) fn advance(&self, old: &[(CfId, u64)], limit_bytes: u64, parts: &Parts<'_>) -> Result<(), EngineError> {
        if parts.txns.log().followed().is_some() {
            // A replica appends nothing to the log that it follows, so it flushes, even a few rows.
            return old.first().map_or(Ok(()), |(cf, _)| self.flush(&[*cf], FlushCause::LogLimit, parts));
        }
        let way = self.relogs.lock().way(old, limit_bytes, parts.families);
        match way {
            None => Ok(()),
            Some(Way::Flush(cf)) => self.flush(&[cf], FlushCause::LogLimit, parts),
            Some(Way::Relog(cfs)) => match self.relog(&cfs, limit_bytes / 8, parts) {
                Ok(true) => Ok(()),
                // The re-log was refused or failed, perhaps because values grew or the log is full: a flush may
                // still succeed.
                Ok(false) | Err(_) => self.flush(&cfs[..1], FlushCause::LogLimit, parts),
            },
        }
    }

    /// Re-logs families. Returns `false`, without a re-logged row, if that took more than `bytes_max`, if there are
    /// unlogged rows (R6), or if the beginning is not yet quorum-durable (R1).
    ///
    /// # Durability
    /// Durable on return; after `false` or an error the rows need the log from their old position.
    pub(crate) fn relog(&self, cfs: &[CfId], bytes_max: u64, parts: &Parts<'_>) -> Result<bool, EngineError> {
        let mut claim = self.jobs.claim(|| cfs.to_vec()); // R4
        let log = parts.txns.log();
        let begin = log.with_writer(|writer| writer.append(tag::RELOG, &[&encode_relog(Lsn::ZERO, false)]))?;
        log.wait_durable(begin.end)?; // R1
        let held = parts.txns.hold_durable(claim.place());
        let position = held.snapshot();
        if position < begin.end {
            return Ok(false); // R1: replicas have not confirmed it yet
        }
        let (mut taken, mut entries) = (Vec::new(), Vec::new());
        for family in cfs.iter().filter_map(|cf| parts.families.get(*cf)) {
            let tree = self.levels().tree_of(family.id());
            let flushed = tree.map_or(Lsn::ZERO, |tree| self.tree(tree).flush_lsn);
            let at = FlushAt { position, flushed, uncertain: tree.is_some_and(|tree| self.is_uncertain(tree)) };
            let rows = family.take_unflushed();
            let new = family.relog_entries(&rows, at, &TxnStatuses(parts.txns));
            let (count, bytes) = (new.len(), new.iter().map(entry_bytes).sum());
            entries.extend(new.into_iter().map(|entry| (family.id(), entry)));
            taken.push(Taken { family, rows, entries: count, bytes });
        }
        passes("re-log has taken its rows");
        // R6: a transaction with unlogged rows below the position has reported them to the family before its
        // commit.
        let fits = taken.iter().map(|taken| taken.bytes).sum::<u64>() <= bytes_max
            && taken.iter().all(|taken| !taken.family.has_unlogged());
        let done = if fits { append(log, begin.start, &entries) } else { Ok(()) };
        let since = (fits && done.is_ok()).then_some(begin.start); // R2
        let mut relogs = self.relogs.lock();
        for Taken { family, rows, entries, bytes } in taken {
            if since.is_some() {
                self.figures.lock().relogged(family.id(), u64::try_from(entries).unwrap_or(0), bytes);
                relogs.0.insert(family.id(), Done { position, bytes });
            }
            family.give_back(rows, since);
        }
        drop(relogs);
        done?;
        if fits {
            self.note_relog(entries.len());
        }
        Ok(fits)
    }
}

fn entry_bytes(entry: &FlushEntry) -> u64 {
    let bytes = entry.row.key().len() + entry.value.as_ref().map_or(0, |value| value.len());
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Appends the entries of a re-log and waits until they are durable.
fn append(log: &EngineLog, begin: Lsn, entries: &[(CfId, FlushEntry)]) -> Result<(), WalError> {
    let mut entries = entries.iter().peekable();
    let end = loop {
        let mut body = Vec::new();
        while let Some((cf, entry)) = entries.next_if(|_| body.len() < RECORD_BYTES) {
            let csn = if is_planted("re-log under a new position") { log.boundary() } else { entry.csn }; // R3
            let op = Op { cf: *cf, key: entry.row.key(), value: entry.value.as_deref() };
            Relogged { csn, op }.encode(&mut body);
        }
        let last = entries.peek().is_none();
        let at = log.with_writer(|writer| writer.append(tag::RELOG, &[&encode_relog(begin, last), &body]))?;
        if last {
            break at.end;
        }
    };
    if is_planted("re-log is not waited for") {
        return Ok(());
    }
    log.wait_durable(end)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
