//! Flushes tables while the server stops in order, so that the next start has no log to replay (`store.flush_at_stop`).
//!
//! Only the duration of the next start depends on it: the log has every commit.
//!
//! # Invariants
//! - S1. A second request to stop ends it: flushes in progress are finished, and no further one begins.
//! - S2. A failure is logged and never fails the stop.
//!
//! Checked by `tests/clients/tests/restart.rs`.

use crate::log_lines;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use collie_engine::Db;
use collie_sql::session::Database;
use tokio::runtime::Runtime;

/// The number of tables that are flushed between two checks for a second request; the engine flushes about this many in
/// parallel.
const TABLES_AT_ONCE: usize = 4;

/// Flushes every table of `database`, until done or until `again` completes.
pub(crate) fn flush_tables(runtime: &Runtime, database: &Arc<Database>, again: impl Future<Output = ()>) {
    let db = database.engine().clone();
    if db.is_read_only() {
        return;
    }
    let given_up = Arc::new(AtomicBool::new(false));
    let seen = given_up.clone();
    runtime.block_on(async {
        let mut flushing = tokio::task::spawn_blocking(move || flush(&db, &seen));
        tokio::select! {
            _done = &mut flushing => return,
            () = again => given_up.store(true, Relaxed),
        }
        let _done = flushing.await;
    });
}

fn flush(db: &Db, given_up: &AtomicBool) {
    for families in db.families().chunks(TABLES_AT_ONCE) {
        if given_up.load(Relaxed) {
            return;
        }
        if let Err(error) = db.flush_cf(families) {
            log_lines::warn(&format_args!("tables are not flushed, and the next start replays the log: {error}"));
            return;
        }
    }
}
