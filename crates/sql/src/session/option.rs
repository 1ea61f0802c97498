//! `CALL collie_set_option(name, value)`: an option of the running server, by the name that its configuration has for it.
//!
//! Not a setting of the session (`SET`): it holds for all, at once, and until the server stops.

use collie_engine::kv;

use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::Session,
};

impl Session {
    /// Changes an option. Everybody may, as everybody may do everything.
    pub(super) fn set_option(&mut self, option: &ast::SetOption) -> Result<()> {
        let changed = kv::Db::over(&self.database.db).set_option(&option.name, &option.value);
        changed.map_err(|error| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string()))
    }
}
