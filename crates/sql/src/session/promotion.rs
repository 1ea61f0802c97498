//! Promotion asked for in SQL: `pg_promote`, `collie_promote`, `collie_promote_in` and `collie_switchover`. Whoever runs the server does it, and says how it went.

use crate::{
    catalog::system::Promotion,
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// Makes the database a primary's; returns what was done, in words.
///
/// # Errors
/// Why not, with what to do.
pub type Promote = Box<dyn Fn(Promotion) -> std::result::Result<String, String> + Send + Sync>;

impl Database {
    /// Has promotion done by `promote`, which may block. Only the first call counts.
    pub fn promote_by(&self, promote: Promote) {
        let _already_there = self.promote.set(promote);
    }

    /// Makes the database a primary's.
    ///
    /// # Errors
    /// 55000: it is no replica, or why it was not promoted.
    pub(super) fn promote(&self, how: Promotion) -> Result<String> {
        let refused = |text: String| SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
        if !self.db.is_replica() {
            let error = refused("recovery is not in progress".to_owned());
            return Err(error.hint("Recovery control functions can only be executed during recovery."));
        }
        let Some(promote) = self.promote.get() else {
            return Err(refused("nobody can promote this database: it is not a server's".to_owned()));
        };
        let mut outcome = None;
        self.block(&mut || outcome = Some(promote(how)));
        outcome.unwrap_or_else(|| Err("it was not tried".to_owned())).map_err(refused)
    }
}
