//! Promotion from SQL: `pg_promote`, `collie_promote`, `collie_promote_in` and `collie_switchover`. The server carries
//! it out and returns the outcome as text.

use crate::{
    catalog::system::Promotion,
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// A function that makes this node a primary, and returns what it did, as text.
///
/// # Errors
/// The reason why it was not promoted, with what to do.
pub type Promote = Box<dyn Fn(Promotion) -> std::result::Result<String, String> + Send + Sync>;

impl Database {
    /// Sets the function that promotes, which may block. Only the first call counts.
    pub fn promote_by(&self, promote: Promote) {
        let _already_there = self.promote.set(promote);
    }

    /// Makes this node a primary.
    ///
    /// # Errors
    /// 55000 if it is not a replica, or with the reason why it was not promoted.
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
