//! `CALL collie_set_option(name, value)`: an option of the running server, by the name that its configuration has for it.
//!
//! Not a setting of the session (`SET`): it holds for all, at once, and until the server stops; that of `replication.quorum`, which
//! is a record of the log, for whoever leads from then on.

use collie_engine::kv;

use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::Session,
};

/// Sections whose settings are the server's, not the engine's.
const SERVERS: [&str; 2] = ["training.", "replication."];

impl Session {
    /// Changes an option. Everybody may, as everybody may do everything.
    pub(super) fn set_option(&mut self, option: &ast::SetOption) -> Result<()> {
        if ["replication.quorum", "synchronous_standby_names"].contains(&option.name.as_str()) {
            return self.database.set_quorum(&option.value);
        }
        let ast::SetOption { name, value } = option;
        let mut of_engine =
            || kv::Db::over(&self.database.db).set_option(name, value).map_err(|error| error.to_string());
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
