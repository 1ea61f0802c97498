//! `CALL collie_set_option(name, value)`: an option of the running server, by its name in the configuration.
//!
//! Unlike a setting of the session (`SET`), it holds for all sessions, at once, and until the server stops.
//! `replication.quorum` is a record of the log instead, and holds for every later primary.

use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::Session,
};

/// Sections whose settings belong to the server, not to the engine.
const SERVERS: [&str; 2] = ["training.", "replication."];

impl Session {
    /// Changes an option. Every user may, since Collie has no privileges.
    pub(super) fn set_option(&mut self, option: &ast::SetOption) -> Result<()> {
        if ["replication.quorum", "synchronous_standby_names"].contains(&option.name.as_str()) {
            return self.database.set_quorum(&option.value);
        }
        let ast::SetOption { name, value } = option;
        let mut of_engine = || self.database.db.set_option(name, value).map_err(|error| error.to_string());
        let changed = match self.database.training() {
            Some(training) if SERVERS.iter().any(|section| name.starts_with(section)) => {
                training.set_option(name, value)
            }
            Some(training) => training.set_by_hand(name, &mut of_engine),
            None => of_engine(),
        };
        changed.map_err(|error| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error))
    }
}
