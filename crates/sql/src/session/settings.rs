//! `Settings`: the settings that SET, SHOW and RESET read and write in one session.
//!
//! It is not the server's configuration file. There are three kinds of settings (docs/settings.md): effective ones;
//! fixed ones (another value is 22023); accepted ones, which are kept and shown but change nothing. A name that is in
//! no table is 42704.
//!
//! # Invariants
//! - S1. Every value stored for an effective setting has passed its check, so reading one never fails.
//! - S2. SET LOCAL and SET inside a transaction end with it as PostgreSQL says: the caller keeps a copy of all settings
//!   from BEGIN and from each savepoint, and restores it.
//! - S3. `effective` agrees with the values: every function that changes a value in it reads the values again.

pub(in crate::session) mod date_style;

use std::sync::Arc;

use collie_base::Map;

use crate::{
    error::{Result, SqlError, SqlState},
    session::{custom_settings::CustomSettings, effective::Effective, position::Position, time},
    types::datetime::{Zone, ZoneError},
};

/// The values that a setting may have, and whether it has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// on or off.
    Bool,
    /// An integer within bounds.
    Integer(i64, i64),
    /// A time in whole milliseconds, as PostgreSQL reads and shows it: `100`, `2s`, `1.5min`.
    Time,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// Its default only.
    Fixed,
    /// on or off, set by the client when it connects, and not later.
    AtConnect,
    /// Any text; kept and shown, without effect.
    Accepted,
}

/// A row of the table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name as SHOW ALL prints it.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The default.
    pub default: &'static str,
    /// One line of description for SHOW ALL and pg_settings.
    pub description: &'static str,
    /// Whether each change is reported to the client.
    pub reported: bool,
}

const fn setting(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Setting {
    Setting { name, kind, default, description, reported: false }
}

const fn reported(name: &'static str, kind: Kind, default: &'static str, description: &'static str) -> Setting {
    Setting { name, kind, default, description, reported: true }
}

const ISOLATION: &[&str] = &["read uncommitted", "read committed", "repeatable read", "serializable"];
const SYNC: &[&str] = &["on", "off", "local", "remote_write", "remote_flush", "remote_apply"];
const PLAN_CACHE_MODES: &[&str] = &["auto", "force_generic_plan", "force_custom_plan"];
const INTERVAL_STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];
const MESSAGES: &[&str] = &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

/// The version of PostgreSQL whose dialect is spoken; clients choose their catalog queries by it.
pub const SERVER_VERSION: &str = concat!("15.0 (Collie ", env!("CARGO_PKG_VERSION"), ")");

/// The default search path.
pub(in crate::session) const USUAL_SEARCH_PATH: &str = "\"$user\", public";

/// The setting by which a connecting client asks for a session beyond those that every client may have.
pub const RESERVED_CONNECTION: &str = "collie.use_reserved_connection";

/// Every setting, sorted by name.
pub const SETTINGS: &[Setting] = &[
    reported("application_name", Kind::Text, "", "Name of the application, shown in views."),
    setting("bytea_output", Kind::Word(&["hex", "escape"]), "hex", "How bytea is written as text."),
    setting("check_function_bodies", Kind::Accepted, "on", "No effect: there are no functions to check."),
    reported("client_encoding", Kind::Word(&["utf8", "sql_ascii"]), "UTF8", "Encoding of the client; only UTF8."),
    setting("client_min_messages", Kind::Word(MESSAGES), "notice", "Least severity of messages sent to the client."),
    setting(
        "collie.report_commit",
        Kind::Bool,
        "off",
        "Whether the client is told the token of each commit: parameter collie.last_commit, before ReadyForQuery.",
    ),
    setting(
        RESERVED_CONNECTION,
        Kind::AtConnect,
        "off",
        "Whether the client may take one of server.reserved_connections if all others are taken: said as it connects.",
    ),
    setting(
        "collie.wait_for_lsn",
        Kind::Text,
        "",
        "What new snapshots show, here or on a replica: the token of a commit, or an LSN; empty: nothing is waited for.",
    ),
    setting(
        "collie.wait_timeout",
        Kind::Time,
        "5s",
        "How long a statement waits for collie.wait_for_lsn (57014 then); 0 is no limit.",
    ),
    setting("cpu_index_tuple_cost", Kind::Accepted, "0.005", "No effect: the planner has its own costs."),
    setting("cpu_operator_cost", Kind::Accepted, "0.0025", "No effect: the planner has its own costs."),
    setting("cpu_tuple_cost", Kind::Accepted, "0.01", "No effect: the planner has its own costs."),
    reported("datestyle", Kind::Text, "ISO, MDY", "How dates are written, and read when ambiguous."),
    setting("deadlock_timeout", Kind::Accepted, "1s", "No effect: deadlocks are found when a wait begins."),
    setting("default_table_access_method", Kind::Accepted, "heap", "No effect: there is one."),
    setting("default_tablespace", Kind::Accepted, "", "No effect: there are no tablespaces."),
    setting("default_text_search_config", Kind::Accepted, "pg_catalog.simple", "No effect: no text search."),
    setting("default_toast_compression", Kind::Accepted, "pglz", "No effect: rows are not compressed."),
    setting("default_transaction_deferrable", Kind::Bool, "off", "Default of DEFERRABLE."),
    setting("default_transaction_isolation", Kind::Word(ISOLATION), "read committed", "Isolation of new transactions."),
    reported("default_transaction_read_only", Kind::Bool, "off", "Whether new transactions are read-only."),
    setting("default_with_oids", Kind::Fixed, "off", "Rows have no OIDs."),
    setting("effective_cache_size", Kind::Accepted, "4GB", "No effect: all rows are in memory."),
    setting("enable_hashjoin", Kind::Accepted, "on", "No effect."),
    setting("enable_indexscan", Kind::Accepted, "on", "No effect."),
    setting("enable_mergejoin", Kind::Accepted, "on", "No effect."),
    setting("enable_nestloop", Kind::Accepted, "on", "No effect."),
    setting("enable_seqscan", Kind::Accepted, "on", "No effect."),
    setting("escape_string_warning", Kind::Accepted, "on", "No effect."),
    setting(
        "extra_float_digits",
        Kind::Integer(-15, 3),
        "1",
        "Digits of floats: above 0 the shortest exact form, else so many beside the 15 or 6 that are always good.",
    ),
    setting("from_collapse_limit", Kind::Accepted, "8", "No effect."),
    setting("geqo", Kind::Accepted, "on", "No effect."),
    setting(
        "idle_in_transaction_session_timeout",
        Kind::Time,
        "0",
        "Ends a session whose client is idle in a transaction for so long; 0 is no limit.",
    ),
    setting(
        "idle_session_timeout",
        Kind::Time,
        "0",
        "Ends a session whose client is idle outside a transaction for so long; 0 is no limit.",
    ),
    reported("in_hot_standby", Kind::Fixed, "off", "Whether this is a replica."),
    reported("integer_datetimes", Kind::Fixed, "on", "Timestamps are 64-bit integers."),
    reported("intervalstyle", Kind::Word(INTERVAL_STYLES), "postgres", "How intervals are written."),
    reported("is_superuser", Kind::Fixed, "on", "Every user may do everything until roles exist."),
    setting("jit", Kind::Accepted, "off", "No effect: nothing is compiled."),
    setting("join_collapse_limit", Kind::Accepted, "8", "No effect."),
    setting("lc_collate", Kind::Fixed, "C", "Order of text."),
    setting("lc_ctype", Kind::Fixed, "C", "Classes of characters."),
    setting("lc_messages", Kind::Accepted, "C", "No effect: messages are English."),
    setting("lc_monetary", Kind::Accepted, "C", "No effect."),
    setting("lc_numeric", Kind::Accepted, "C", "No effect."),
    setting("lc_time", Kind::Accepted, "C", "No effect."),
    setting("lock_timeout", Kind::Time, "0", "Cancels a statement that waits so long for a lock; 0 is no limit."),
    setting("log_min_messages", Kind::Accepted, "warning", "No effect."),
    setting("log_statement", Kind::Accepted, "none", "No effect."),
    setting("maintenance_work_mem", Kind::Accepted, "64MB", "No effect."),
    setting("max_connections", Kind::Fixed, "1000", "Connections accepted."),
    setting("max_identifier_length", Kind::Fixed, "63", "Bytes of a name that are kept."),
    setting("max_index_keys", Kind::Fixed, "32", "Columns of an index."),
    setting("max_parallel_workers_per_gather", Kind::Accepted, "0", "No effect."),
    setting(
        "plan_cache_mode",
        Kind::Word(PLAN_CACHE_MODES),
        "auto",
        "Plans of simple text: auto shares them from the second sight, the others always or never.",
    ),
    setting("quote_all_identifiers", Kind::Accepted, "off", "No effect."),
    setting("random_page_cost", Kind::Accepted, "4", "No effect: the planner has its own costs."),
    setting("row_security", Kind::Accepted, "on", "No effect: there are no row policies."),
    setting("search_path", Kind::Text, USUAL_SEARCH_PATH, "Schemas in which names are looked for."),
    setting("seq_page_cost", Kind::Accepted, "1", "No effect: the planner has its own costs."),
    reported("server_encoding", Kind::Fixed, "UTF8", "Encoding of the database."),
    reported("server_version", Kind::Fixed, SERVER_VERSION, "Dialect and version."),
    setting("server_version_num", Kind::Fixed, "150000", "Dialect as a number."),
    reported("session_authorization", Kind::Fixed, "collie", "Who connected."),
    setting("shared_buffers", Kind::Accepted, "128MB", "No effect: all rows are in memory."),
    reported("standard_conforming_strings", Kind::Fixed, "on", "Backslashes in plain strings are themselves."),
    setting("statement_timeout", Kind::Time, "0", "Cancels a statement that runs so long; 0 is no limit."),
    setting("synchronize_seqscans", Kind::Accepted, "on", "No effect."),
    setting(
        "synchronous_commit",
        Kind::Word(SYNC),
        "on",
        "When a commit is answered. off: once it is in order in memory; local: on disk here; remote_write: also received by replicas; on or remote_flush: on their disks; remote_apply: shown to their readers. How many, replication.quorum says; none: local.",
    ),
    setting(
        "synchronous_standby_names",
        Kind::Fixed,
        "",
        "Which replicas commits wait for (replication.quorum). CALL collie_set_option changes it.",
    ),
    setting("temp_buffers", Kind::Accepted, "8MB", "No effect."),
    reported("timezone", Kind::Text, "UTC", "Time zone of timestamps with time zone: UTC or a fixed offset."),
    setting("transaction_deferrable", Kind::Bool, "off", "Whether this transaction is deferrable."),
    setting("transaction_isolation", Kind::Word(ISOLATION), "read committed", "Isolation of this transaction."),
    setting("transaction_read_only", Kind::Bool, "off", "Whether this transaction is read-only."),
    setting(
        "transaction_timeout",
        Kind::Time,
        "0",
        "Ends a session whose transaction lasts so long; 0 is no limit. PostgreSQL has it from 17 on.",
    ),
    setting("transform_null_equals", Kind::Fixed, "off", "`= NULL` is not IS NULL."),
    setting("vacuum_cost_delay", Kind::Accepted, "0", "No effect."),
    setting("wal_level", Kind::Fixed, "replica", "What the log holds."),
    setting("work_mem", Kind::Accepted, "4MB", "No effect."),
    setting("xmloption", Kind::Accepted, "content", "No effect: there is no xml."),
];

/// Returns a name as it is printed: with PostgreSQL's capitals.
fn display_name(name: &'static str) -> &'static str {
    match name {
        "datestyle" => "DateStyle",
        "timezone" => "TimeZone",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}

impl Setting {
    /// Returns the name as clients see it.
    pub fn display(&self) -> &'static str {
        display_name(self.name)
    }
}

/// The values of one session: those that differ from the defaults.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Values that statements use often, in agreement with the others (S3).
    effective: Effective,
    /// Values set in this session, by lower-case name.
    values: Map<&'static str, Arc<str>>,
    /// Defaults given at connect or by the server's configuration.
    defaults: Map<&'static str, Arc<str>>,
    custom: CustomSettings,
}

/// Finds a setting by name, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    let lower = name.to_ascii_lowercase();
    SETTINGS.binary_search_by(|setting| setting.name.cmp(&lower)).ok().map(|at| &SETTINGS[at])
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

impl Settings {
    /// Returns a setting's value as SHOW prints it.
    ///
    /// # Errors
    /// 42704 for an unknown name.
    pub fn show(&self, name: &str) -> Result<String> {
        match find(name) {
            Some(setting) => Ok(self.get(setting.name).to_owned()),
            None => self.custom.get(name).map(str::to_owned).ok_or_else(|| unknown(name)),
        }
    }

    /// Returns the value of a setting in the table.
    ///
    /// # Panics
    /// For a name that is not in the table, which is a bug of the caller.
    pub fn get(&self, name: &str) -> &str {
        let at = SETTINGS.binary_search_by(|setting| setting.name.cmp(name));
        let setting = &SETTINGS[at.expect("callers name settings of the table")];
        self.values.get(setting.name).map_or_else(|| self.usual(setting), |value| &**value)
    }

    /// Returns the value that RESET restores.
    fn usual(&self, setting: &Setting) -> &str {
        self.defaults.get(setting.name).map_or(setting.default, |value| value)
    }

    /// Returns the values that statements use often.
    pub(in crate::session) fn effective(&self) -> &Effective {
        &self.effective
    }

    /// Keeps S3 after a change.
    fn refresh(&mut self) {
        self.effective = Effective::of(self);
    }

    /// Returns the value of a time setting in milliseconds.
    pub(in crate::session) fn time_ms(&self, name: &str) -> u64 {
        time::read_ms(name, self.get(name)).unwrap_or(0)
    }

    /// Returns whether a Boolean setting is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == "on"
    }

    /// Sets a value; `None` restores the default.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a value that it cannot take, 53200 for too many settings with a dot.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let Some(setting) = find(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            return self.custom.set(name, value);
        };
        match value {
            Some(value) => {
                let value = check(setting, value, self.get(setting.name), self.usual(setting))?;
                self.values.insert(setting.name, value.into());
            }
            None => {
                self.values.remove(setting.name);
            }
        }
        self.refresh();
        Ok(())
    }

    /// Sets the value that RESET restores.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(setting) = find(name) else {
            if !name.contains('.') {
                return Err(unknown(name));
            }
            return self.custom.set(name, Some(value));
        };
        let usual = self.usual(setting);
        let value = check(setting, value, usual, usual)?;
        self.defaults.insert(setting.name, value.into());
        self.refresh();
        Ok(())
    }

    /// Sets a value that a client gives when it connects; RESET restores this value.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn set_at_connect(&mut self, name: &str, value: &str) -> Result<()> {
        match find(name) {
            Some(setting) if setting.kind == Kind::AtConnect => {
                self.describe(setting.name, check_bool(setting.display(), value)?);
                Ok(())
            }
            _ => self.set_default(name, value),
        }
    }

    /// Replaces the value of a fixed setting that describes the session, such as its user.
    pub fn describe(&mut self, name: &'static str, value: &str) {
        self.defaults.insert(name, value.into());
    }

    /// Removes every value that was set in this session.
    pub fn reset_all(&mut self) {
        self.values.clear();
        self.custom.clear();
        self.refresh();
    }
}

fn invalid_value(name: &str, value: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

/// Returns the value in its stored form, or the reason why the setting cannot take it. A part that the value leaves out
/// is taken from `current`; the word DEFAULT means the part in `usual`.
fn check(setting: &Setting, value: &str, current: &str, usual: &str) -> Result<String> {
    let name = setting.display();
    let invalid = || invalid_value(name, value);
    Ok(match setting.kind {
        Kind::Bool => check_bool(name, value)?.to_owned(),
        Kind::AtConnect => {
            return Err(SqlError::new(
                SqlState::CANT_CHANGE_RUNTIME_PARAM,
                format!("parameter \"{name}\" cannot be set after connection start"),
            )
            .hint(format!("The client says it as it connects: PGOPTIONS='-c {name}=on'.")));
        }
        Kind::Integer(least, most) => {
            let number: i64 = value.trim().parse().map_err(|_| invalid())?;
            if number < least || number > most {
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("{number} is outside the valid range for parameter \"{name}\" ({least} .. {most})"),
                ));
            }
            number.to_string()
        }
        Kind::Time => time::show_ms(time::read_ms(name, value)?),
        Kind::Word(words) => check_word(setting.name, words, value).ok_or_else(invalid)?,
        Kind::Text if setting.name == "collie.wait_for_lsn" && !value.trim().is_empty() => {
            Position::read(value).ok_or_else(|| invalid().hint("It is HISTORY:LSN, or an LSN."))?.to_string()
        }
        Kind::Text if setting.name == "timezone" => check_time_zone(value)?,
        Kind::Text if setting.name == "datestyle" => {
            date_style::check(value, current, usual).map_err(|detail| invalid().detail(detail))?
        }
        Kind::Text | Kind::Accepted => value.to_owned(),
        Kind::Fixed if value.eq_ignore_ascii_case(setting.default) => setting.default.to_owned(),
        Kind::Fixed => return Err(invalid().detail(format!("It is always {}.", setting.default))),
    })
}

fn check_bool(name: &str, value: &str) -> Result<&'static str> {
    let invalid =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("parameter \"{name}\" requires a Boolean value"));
    Ok(if parse_bool(value).ok_or_else(invalid)? { "on" } else { "off" })
}

fn check_word(name: &str, words: &[&str], value: &str) -> Option<String> {
    let lower = value.trim().to_ascii_lowercase();
    match name {
        "client_encoding" => check_encoding(value).map(str::to_owned),
        "synchronous_commit" => match parse_bool(&lower) {
            Some(true) => Some("on".to_owned()),
            Some(false) => Some("off".to_owned()),
            None => words.contains(&lower.as_str()).then_some(lower),
        },
        _ => words.contains(&lower.as_str()).then_some(lower),
    }
}

fn check_time_zone(value: &str) -> Result<String> {
    let refused = || invalid_value("TimeZone", value);
    match Zone::of_setting(value) {
        Ok((_, shown)) => Ok(shown),
        Err(ZoneError::Unknown) => Err(refused()),
        Err(ZoneError::Range) => Err(refused().detail("UTC timezone offset is out of range.")),
        Err(ZoneError::Interval(detail)) => Err(refused().detail(detail)),
        Err(ZoneError::LeapSeconds) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{value}\" appears to use leap seconds"),
        )
        .detail("PostgreSQL does not support leap seconds.")),
    }
}

/// Returns the shown name of an encoding. Only letters and digits of `value` count, in any case.
fn check_encoding(value: &str) -> Option<&'static str> {
    let letters: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    match letters.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Some("UTF8"),
        "sqlascii" => Some("SQL_ASCII"),
        _ => None,
    }
}

/// Reads a Boolean value as PostgreSQL does: any unambiguous prefix of true, false, yes, no, on, off, or 1 and 0.
pub fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let is = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if is("true", 1) || is("yes", 1) || is("on", 2) || text == "1" {
        Some(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: lookups by binary search find every row. Method: the table is sorted, and each default passes its own
    /// check; that of a setting that is only set at connect is a Boolean value, and the check refuses it.
    #[test]
    fn table_is_sorted_and_each_default_is_valid() {
        assert!(SETTINGS.is_sorted_by(|a, b| a.name < b.name));
        for setting in SETTINGS {
            let (name, default) = (setting.name, setting.default);
            let checked = check(setting, default, default, default);
            if matches!(setting.kind, Kind::AtConnect) {
                let refused = checked.unwrap_err();
                assert_eq!(refused.state(), SqlState::CANT_CHANGE_RUNTIME_PARAM, "{name}");
                assert_eq!(check_bool(name, default).ok(), Some(default), "{name}");
            } else {
                assert_eq!(checked.ok().as_deref(), Some(default), "{name}");
            }
        }
    }

    /// Goal: values are normalised or refused with PostgreSQL's code. Method: table.
    #[test]
    fn set_normalises_or_refuses() {
        let mut settings = Settings::default();
        for (name, value, shown) in [
            ("synchronous_commit", "false", "off"),
            ("Synchronous_Commit", "LOCAL", "local"),
            ("client_encoding", "utf-8", "UTF8"),
            ("client_encoding", "'utf-8'", "UTF8"),
            ("datestyle", "dmy", "ISO, DMY"),
            ("datestyle", "German", "German, DMY"),
            ("datestyle", "iso, default", "ISO, MDY"),
            ("timezone", "+02:30", "+02:30"),
            ("timezone", "-12.5", "<-12:30>+12:30"),
            ("timezone", "etc/utc", "Etc/UTC"),
            ("work_mem", "1GB", "1GB"),
            ("statement_timeout", "2000", "2s"),
            ("lock_timeout", "90 s", "90s"),
            ("my.own", "x", "x"),
            ("collie.wait_for_lsn", " 1f:0/1000", "000000000000001F:0/1000"),
            ("Collie.Wait_For_Lsn", "", ""),
            ("collie.wait_timeout", "250", "250ms"),
        ] {
            settings.set(name, Some(value)).unwrap();
            assert_eq!(settings.show(name).unwrap(), shown);
        }
        for (name, value, state) in [
            ("nosuch", "1", SqlState::UNDEFINED_OBJECT),
            ("statement_timeout", "2 weeks", SqlState::INVALID_PARAMETER_VALUE),
            ("standard_conforming_strings", "off", SqlState::INVALID_PARAMETER_VALUE),
            ("client_encoding", "latin1", SqlState::INVALID_PARAMETER_VALUE),
            ("timezone", "Mars/Olympus", SqlState::INVALID_PARAMETER_VALUE),
            ("timezone", "-15859859", SqlState::INVALID_PARAMETER_VALUE),
            ("timezone", "--15", SqlState::INVALID_PARAMETER_VALUE),
            ("timezone", "+5:30:15", SqlState::INVALID_PARAMETER_VALUE),
            ("timezone", "EST5EDT", SqlState::INVALID_PARAMETER_VALUE),
            ("datestyle", "ISO, German", SqlState::INVALID_PARAMETER_VALUE),
            ("datestyle", "ISO, DMY, MDY", SqlState::INVALID_PARAMETER_VALUE),
            ("collie.wait_for_lsn", "12", SqlState::INVALID_PARAMETER_VALUE),
            ("extra_float_digits", "99", SqlState::INVALID_PARAMETER_VALUE),
            ("default_transaction_read_only", "maybe", SqlState::INVALID_PARAMETER_VALUE),
        ] {
            assert_eq!(settings.set(name, Some(value)).unwrap_err().state(), state, "{name}");
        }
        settings.set("synchronous_commit", None).unwrap();
        assert_eq!(settings.get("synchronous_commit"), "on");
    }
}
