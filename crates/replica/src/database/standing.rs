//! How far a database of the engine has come, as other nodes are told.

use collie_base::{HistoryId, Lsn, Term};
use collie_engine::{Db, EngineError, HistoryStart, Replica};

use crate::term::{Reach, Standing};

fn standing(histories: &[HistoryStart], durable: Lsn, leads: bool) -> Standing {
    let (last_term, history) =
        histories.last().map_or((Term::new(0), HistoryId::new(0)), |last| (last.term, last.history));
    Standing { reach: Reach { last_term, durable }, history, leads }
}

/// Returns how far a primary has come.
pub fn leading(db: &Db) -> Standing {
    standing(&db.histories().1, db.durable(), true)
}

/// Flushes what a replica has received, and returns how far it has come.
///
/// # Errors
/// The log's.
pub fn following(replica: &Replica) -> Result<Standing, EngineError> {
    if let Some(log) = replica.follower() {
        log.flush()?;
    }
    Ok(standing(&replica.histories().1, replica.durable(), false))
}
