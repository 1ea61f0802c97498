//! The progress of a database of the engine, as reported to other nodes.

use collie_base::{HistoryId, Lsn, Term};
use collie_engine::{Db, EngineError, HistoryStart, Replica};

use crate::term::{Reach, Standing};

fn standing(histories: &[HistoryStart], durable: Lsn, leads: bool) -> Standing {
    let (last_term, history) =
        histories.last().map_or((Term::new(0), HistoryId::new(0)), |last| (last.term, last.history));
    Standing { reach: Reach { last_term, durable }, history, leads }
}

/// Returns the progress of a primary.
pub fn leading(db: &Db) -> Standing {
    standing(&db.histories().1, db.durable(), true)
}

/// Flushes everything a replica has received, and returns the replica's progress.
///
/// # Errors
/// The flush of the log failed.
pub fn following(replica: &Replica) -> Result<Standing, EngineError> {
    if let Some(log) = replica.follower() {
        log.flush()?;
    }
    Ok(standing(&replica.histories().1, replica.durable(), false))
}
