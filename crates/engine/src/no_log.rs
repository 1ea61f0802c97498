//! `wal.enabled = false`: a database without a log. What survives the process is what was flushed.
//!
//! The log's own machine runs all the same: it hands out the positions that commits are numbered by and says when they are complete;
//! only its files keep nothing ([`sink`]). So a write is acknowledged, ordered and read as with a log, and nothing of it is on disk
//! before its family is flushed: by `flush_cf`, by the flusher, at `close` unless `store.avoid_flush_at_close`.
//!
//! | directory, as it is found | opened with a log | opened without |
//! |---|---|---|
//! | new | a log is made | `reserved` is written, no log is |
//! | with a log | as ever | [`leave_log`]: opened with its log, everything flushed, `reserved` written; its files go |
//! | with `reserved` | files of a log are void and go, a new log begins above all numbers, then `reserved` goes | goes on |
//!
//! # Invariants
//! - N1. Every position, transaction id and family id that was handed out without a log is below what `reserved` says on disk: the
//!   numbers after a crash are new (S12 of the design).
//! - N2. While `reserved` is there the levels have all that is there to have: files of a log beside it hold nothing that they lack,
//!   and whoever holds the log's lock may remove them.
//! - N3. Every write is an unlogged one (`disable_wal`): to one family, or to those of one atomic group, so that no flush brings half
//!   of it. Names of families are flushed before the call that makes or drops one returns, and before a dropped one's rows go.
//! - N4. A family that has a tree and no name was never given to anybody for good: it goes at the next open.
//!
//! Checked by `tests/no_log.rs`.

mod reserved;
mod sink;

use std::io;
use std::path::Path;

use collie_base::{CfId, Lsn, Xid};
use collie_env::{Env, Files};
use collie_wal::{RecordRef, RecoveryMode, RingKind};

pub(crate) use self::reserved::Reserved;
pub(crate) use self::sink::Numbers;
use crate::control::Control;
use crate::families::Families;
use crate::names::{self, NameRow};
use crate::open::LogSource;
use crate::shared::XID_BLOCK;
use crate::{Db, EngineError, OpenProgress, Options};

/// What a call that waits for the disk is told.
pub(crate) const NOTHING_TO_SYNC: EngineError = EngineError::InvalidArgument {
    what: "sync, flush_wal and sync_wal ask for the log that wal.enabled = false leaves out: flush the family (flush_cf)",
};

/// What a call that copies the database is told.
pub(crate) const NOTHING_TO_COPY: EngineError = EngineError::InvalidArgument {
    what: "a backup or checkpoint copies the log, and wal.enabled = false leaves it out: open with wal.enabled first",
};

/// What is told of a limit of it.
pub(crate) const NO_LOG_TO_BOUND: EngineError =
    EngineError::InvalidArgument { what: "wal.max_total_wal_size and wal.enabled = false: there is no log to bound" };

/// What is told of a directory without a log to somebody who would read that.
const LEFT_WITHOUT_LOG: EngineError = EngineError::InvalidArgument {
    what: "read_only and wal.recovery_mode = skip_any_corrupted_records read the log, and this directory was used with \
           wal.enabled = false: open it to write first",
};

/// Refuses settings that speak of a log that is not kept, and names both.
pub(crate) fn check(options: &Options) -> Result<(), EngineError> {
    let log = &options.log;
    let conflicts = [
        (options.read_only, "read_only and wal.enabled = false: leave one of them out"),
        (options.wal_dir.is_some(), "wal.wal_dir and wal.enabled = false: there is no log to put there"),
        (!log.copies.is_empty(), "wal.copies and wal.enabled = false: there is no log to copy"),
        (log.ring == RingKind::Shared, "wal.ring = shared and wal.enabled = false: nothing is recovered from a ring"),
        (log.manual_wal_flush, "wal.manual_wal_flush and wal.enabled = false: there is no log to flush"),
        (log.sync_every > 0, "wal.sync_every and wal.enabled = false: there is no log to sync"),
        (
            log.recovery_mode != RecoveryMode::default(),
            "wal.recovery_mode and wal.enabled = false: there is no log to recover from",
        ),
    ];
    if options.max_total_wal_size > 0 {
        return Err(NO_LOG_TO_BOUND);
    }
    match conflicts.into_iter().find(|(given, _)| *given) {
        Some((_, what)) => Err(EngineError::InvalidArgument { what }),
        None => Ok(()),
    }
}

/// Fails in a directory without a log.
pub(crate) fn check_has_log(env: &Env, dir: &Path) -> Result<(), EngineError> {
    let Some(control) = Control::read(env, dir)? else { return Ok(()) };
    Reserved::read(env, dir, control.cluster)?.map_or(Ok(()), |_| Err(LEFT_WITHOUT_LOG))
}

/// Brings what only a log has into the levels, and notes that it is needed no more (N2). Nothing to do where there is none.
pub(crate) fn leave_log(
    env: &Env,
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(&OpenProgress),
) -> Result<(), EngineError> {
    let Some(control) = Control::read(env, dir)? else { return Ok(()) };
    if Reserved::read(env, dir, control.cluster)?.is_some() {
        return Ok(());
    }
    let logged = Options { wal_enabled: true, background: false, ..options.clone() };
    let (db, _report) = Db::open(dir, logged, env.clone(), progress)?;
    let left = flush_and_note(&db, dir, options);
    let closed = db.close();
    left.and(closed)
}

fn flush_and_note(db: &Db, dir: &Path, options: &Options) -> Result<(), EngineError> {
    let shared = &db.shared;
    if shared.txns.log().wal().is_some_and(collie_wal::Log::has_consumers) {
        let what = "wal.enabled = false while a replication slot or another consumer keeps its place in the log: remove it first";
        return Err(EngineError::InvalidArgument { what });
    }
    db.flush_all()?;
    let next = shared.txns.log().next().unwrap_or(Lsn::FIRST);
    let reserved = Reserved {
        end: next.plus(sink::ahead_bytes(&options.log)),
        xid_limit: Xid::new(shared.txns.next_xid().get().saturating_add(XID_BLOCK)),
        next_family: shared.families.next_id(),
    };
    // Before the lock goes with the log: who opens the directory next knows.
    reserved.write(&shared.env, dir, shared.control().cluster)
}

/// A log that begins here and has no record.
pub(crate) struct NoRecords(pub(crate) Lsn);

impl LogSource for NoRecords {
    fn end(&self) -> Lsn {
        self.0
    }

    fn visit(&self, _: Lsn, _: impl FnMut(RecordRef<'_>) -> Result<(), EngineError>) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Removes the files of a log that `reserved` makes void (N2), under the log's lock; `false`: there is no `reserved` any more.
pub(crate) fn void_log(env: &Env, dir: &Path, log_dir: &Path, cluster: u128) -> Result<bool, EngineError> {
    env.files.create_dir_all(log_dir).map_err(|error| EngineError::io("create", log_dir.to_owned(), error))?;
    let path = log_dir.join("LOCK");
    let _lock = env.files.lock(&path).map_err(|error| sink::lock_error(path, error))?;
    if Reserved::read(env, dir, cluster)?.is_none() {
        return Ok(false);
    }
    remove_log_files(&*env.files, log_dir).map_err(|error| EngineError::io("remove", log_dir.to_owned(), error))?;
    Ok(true)
}

fn remove_log_files(files: &dyn Files, log_dir: &Path) -> io::Result<()> {
    let names = files.list(log_dir)?;
    let names: Vec<&String> =
        names.iter().filter(|name| name.ends_with(".wal") || name.ends_with(".wal.tmp")).collect();
    names.iter().try_for_each(|name| files.remove(&log_dir.join(name)))?;
    if names.is_empty() { Ok(()) } else { files.sync_dir(log_dir) }
}

/// Takes families out of memory that have no name (N4). Returns the bytes of old versions that went with them.
///
/// # Errors
/// [`EngineError::BadName`] for a name row that cannot be read.
pub(crate) fn drop_unnamed(families: &Families) -> Result<u64, EngineError> {
    let rows = names::rows_in(families)?;
    let named = |id: CfId| rows.iter().any(|row| matches!(row, NameRow::Named { cf, .. } if *cf == id));
    let mut bytes = 0_u64;
    for id in families.ids().into_iter().filter(|id| *id != CfId::CATALOG && !named(*id)) {
        bytes = bytes.saturating_add(families.remove(id).map_or(0, |family| family.clear()));
    }
    Ok(bytes)
}
