//! Leaving the log of a directory that is opened with `wal.enabled = false` from now on (`log/no_log.rs`).

use std::path::Path;

use collie_base::{Lsn, Xid};
use collie_env::Env;
use collie_wal::RecordRef;

use crate::dir::control::Control;
use crate::flush::figures::FlushCause;
use crate::log::no_log::{Reserved, ahead_bytes};
use crate::open::{LogSource, open};
use crate::redo::XID_BLOCK;
use crate::shared::Shared;
use crate::{EngineError, OpenProgress, Options};

/// Flushes everything that only the log has into the levels, and notes that the log is not needed any more (N2).
/// Does nothing where there is no log.
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
    let (shared, _report) = open(dir, logged, env, progress)?;
    let left = flush_and_note(&shared, dir, options);
    let closed = shared.close();
    left.and(closed)
}

fn flush_and_note(shared: &Shared, dir: &Path, options: &Options) -> Result<(), EngineError> {
    if shared.txns.log().wal().is_some_and(collie_wal::Log::has_consumers) {
        let what = "wal.enabled = false while a replication slot or another consumer keeps its place in the log: remove it first";
        return Err(EngineError::InvalidArgument { what });
    }
    shared.flush(&shared.families.ids(), FlushCause::Checkpoint)?;
    let next = shared.txns.log().next().unwrap_or(Lsn::FIRST);
    let reserved = Reserved {
        end: next.plus(ahead_bytes(&options.log)),
        xid_limit: Xid::new(shared.txns.next_xid().get().saturating_add(XID_BLOCK)),
        next_family: shared.families.next_id(),
    };
    // While the log's lock is still held: the next process that opens the directory finds `reserved`.
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
