//! `wal.enabled = false`: a database without a log. Only flushed writes survive the process.
//!
//! The code of the log runs all the same: it hands out the positions by which commits are numbered, and reports
//! when they are complete; only its files keep nothing ([`sink`]). So a write is acknowledged, ordered and read as
//! with a log, but it is not on disk before its family is flushed: by `flush_cf`, by the flusher, or at `close`
//! unless `store.avoid_flush_at_close`.
//!
//! | directory, as found | opened with a log | opened without a log |
//! |---|---|---|
//! | new | a log is created | `reserved` is written, and no log |
//! | with a log | as usual | [`leave_log`](crate::open::leave_log): everything is flushed, `reserved` is written, log files are removed |
//! | with `reserved` | log files are removed, a log begins above all numbers, `reserved` is removed | continues |
//!
//! # Invariants
//! - N1. Every position, transaction id and family id that was handed out without a log is below the bounds in
//!   `reserved` on disk: the numbers after a crash are new (S12 of the design).
//! - N2. While `reserved` exists the levels have everything that can be recovered: log files next to it hold
//!   nothing that the levels lack, and the holder of the log's lock may remove them.
//! - N3. Every write is an unlogged one: to one family, or to those of one atomic group, so that no
//!   flush writes only half of it. Name rows are flushed before the call that creates or drops a family returns,
//!   and before the rows of a dropped family are freed.
//! - N4. A family that has a tree and no name was never permanently given to a caller: the next opening drops it.
//!
//! Checked by `crates/kv/tests/no_log.rs`.

mod reserved;
mod sink;

use std::io;
use std::path::Path;

use collie_base::CfId;
use collie_env::{Env, Files};
use collie_wal::{RecoveryMode, RingKind};

pub(crate) use self::reserved::Reserved;
pub(crate) use self::sink::{Numbers, ahead_bytes};
use crate::dir::control::Control;
use crate::families::Families;
use crate::families::names::{self, NameRow};
use crate::{EngineError, Options};

/// Error of a call that waits for the disk.
pub(crate) const NOTHING_TO_SYNC: EngineError = EngineError::InvalidArgument {
    what: "writes that wait for the disk, flush_wal and sync_wal need the log that wal.enabled = false leaves out: flush the family \
           (flush_cf)",
};

/// Error of a call that copies the database.
pub(crate) const NOTHING_TO_COPY: EngineError = EngineError::InvalidArgument {
    what: "a backup or checkpoint copies the log, and wal.enabled = false leaves it out: open with wal.enabled first",
};

/// Error of a setting that limits the log.
pub(crate) const NO_LOG_TO_BOUND: EngineError =
    EngineError::InvalidArgument { what: "wal.max_total_wal_size and wal.enabled = false: there is no log to bound" };

/// Error of an opening that would read the log of a directory without one.
const LEFT_WITHOUT_LOG: EngineError = EngineError::InvalidArgument {
    what: "read_only and wal.recovery_mode = skip_any_corrupted_records read the log, and this directory was used with \
           wal.enabled = false: open it to write first",
};

/// Refuses settings that concern a log, which is not kept; the error names both settings.
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

/// Fails in a directory that was used without a log.
pub(crate) fn check_has_log(env: &Env, dir: &Path) -> Result<(), EngineError> {
    let Some(control) = Control::read(env, dir)? else { return Ok(()) };
    Reserved::read(env, dir, control.cluster)?.map_or(Ok(()), |_| Err(LEFT_WITHOUT_LOG))
}

/// Removes the files of a log that `reserved` makes void (N2), under the log's lock; `false`: there is no
/// `reserved` any more.
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

/// Takes families without a name out of memory (N4). Returns the bytes of old versions that were freed with them.
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
