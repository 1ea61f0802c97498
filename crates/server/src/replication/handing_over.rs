//! The switchover of a primary to one of its replicas, at the replica's request: the part that runs separately from the
//! connections.
//!
//! ```text
//! asked -> transactions that have not written wait -> those that have end, or are ended -> log held, everything on disk
//! -> offered -> taken, and the next term promised: the life is over (`Node::deposed`)
//!            -> or late, gone: it goes on as a primary, and whoever waits writes
//! ```
//!
//! # Invariants
//! - H1. Nothing is written here again once the lead is given: one lock (`Switchover`) decides whether it is given or
//!   this node goes on, and only in the second case does the log take records again.
//! - H2. Whatever happens to the replica, writers wait no longer than twice the requested time, [`CANCEL_TIME`] and a
//!   flush.

use crate::log_lines;
use std::{sync::Arc, time::Duration};

use collie_base::Lsn;
use collie_env::Env;
use collie_replica::{
    primary::Phase,
    primary::{HandoverAsked, Switchover},
};
use collie_sql::session::Database;
use tokio::{select, time::sleep};

/// How long terminated sessions are given to end.
pub(crate) const CANCEL_TIME: Duration = Duration::from_secs(2);

/// The time between two checks of the transactions, and of the deadline.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Hands over whenever a replica asks for it; never returns, since after a switchover this node is no primary any more.
pub(crate) async fn hand_over(handing: Arc<Switchover>, database: Arc<Database>, env: Env) -> std::convert::Infallible {
    loop {
        let HandoverAsked { slot, wait } = handing.asked().await;
        log_lines::note(&format_args!("handing over to {slot}: transactions have {} ms to end", wait.as_millis()));
        let db = database.engine();
        // Transactions that have not written yet wait from here on.
        db.pause_writes();
        let is_offered = match end_transactions(&handing, &database, wait, &env).await {
            Ok(last) => handing.offer(last, wait, env.clock.now_ns()),
            Err(why) => {
                handing.give_up(&why);
                log_lines::note(&why);
                false
            }
        };
        if is_offered && is_given(&handing, &env).await {
            log_lines::note(&format_args!("handed over to {slot}"));
            std::future::pending::<()>().await;
        }
        // H1: the lock decided that this node goes on.
        db.resume_writes();
        log_lines::note(&format_args!("not handed over to {slot}: this node goes on as primary"));
    }
}

/// Waits until the lead was given to the successor, or the switchover was given up; returns whether it was given.
async fn is_given(handing: &Switchover, env: &Env) -> bool {
    loop {
        select! {
            phase = handing.settled() => return phase == Phase::Given,
            () = sleep(LOOK_EVERY) => {
                _ = handing.give_up_late(env.clock.now_ns());
            }
        }
    }
}

/// Waits up to `wait` for transactions that have written, terminates the sessions that still have one (57P01), and
/// holds the log; returns its end position, below which everything is on disk.
async fn end_transactions(handing: &Switchover, database: &Database, wait: Duration, env: &Env) -> Result<Lsn, String> {
    let db = database.engine();
    let begun_ns = env.clock.now_ns();
    loop {
        let open = db.open_writers();
        if open.is_empty() {
            break;
        }
        if handing.phase() != Phase::Ending {
            return Err("the node that asked for the switchover is gone".to_owned());
        }
        let waited = Duration::from_nanos(env.clock.now_ns().saturating_sub(begun_ns));
        if waited >= wait.saturating_add(CANCEL_TIME) {
            return Err(format!("{} transactions do not end", open.len()));
        }
        if waited >= wait {
            database.terminate_slots(&open);
        }
        sleep(LOOK_EVERY).await;
    }
    let db = db.clone();
    match tokio::task::spawn_blocking(move || db.hold_log()).await {
        Ok(Ok(last)) => Ok(last),
        Ok(Err(error)) => Err(format!("the log cannot be flushed: {error}")),
        Err(_) => Err("the log was not flushed".to_owned()),
    }
}
