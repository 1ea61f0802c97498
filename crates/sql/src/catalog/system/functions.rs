//! Functions that need the catalog or the session, by their source (`pg_proc.prosrc`).
//!
//! The `reg*` types and visibility are in `object_names`. Functions about features that Collie does not have answer as
//! PostgreSQL does where the feature is not used: NULL, no rows, or an error that says so.
//!
//! Checked by `system_tests`, which calls every source that `builtin` declares.

use std::{cell::Cell, hash::BuildHasher, time::Duration};

use collie_base::{EPOCH_2000_US, Xid};
use collie_engine::XidFate;

use super::{
    Promotion, SessionFacts, advisory, definition,
    name::{self, quoted, visible},
    object_names, role, session_rows, size,
};
use crate::{
    builtin::{self, ProcKind, Rows},
    catalog::{
        relation::{Oid, Relation, Storage},
        snapshot::PG_CATALOG,
    },
    error::{Result, SqlError, SqlState},
    types::{Value, oid},
};

/// The server version by which clients choose their behavior.
const POSTGRES_VERSION: &str = "15.0";
/// OID of the system relation whose OID marks a description as that of a table.
pub(super) const PG_CLASS: Oid = 1259;
/// The encodings that clients ask about, by PostgreSQL's numbers.
const ENCODINGS: [(i32, &str); 4] = [(0, "SQL_ASCII"), (session_rows::UTF8, "UTF8"), (8, "LATIN1"), (24, "WIN1252")];
/// INSERT, UPDATE and DELETE as bits of `pg_relation_is_updatable`.
const UPDATABLE: i32 = 1 << 3 | 1 << 2 | 1 << 4;

/// Computes the function with this source.
///
/// # Errors
/// The errors of the function; 0A000 for an unknown source.
pub(super) fn call(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Value> {
    let handlers = [session, advisory::call, definitions, relations, unused];
    for handler in handlers {
        if let Some(value) = handler(facts, source, args)? {
            return Ok(value);
        }
    }
    match object_names::call(facts, source, args)? {
        Some(value) => Ok(value),
        None => Err(SqlError::unsupported(format_args!("the system function {source}"))),
    }
}

/// Computes the rows of the set-returning function with this source.
///
/// # Errors
/// 0A000 for an unknown source.
pub(super) fn call_set(_: &dyn SessionFacts, source: &str, _: &[Value]) -> Result<Rows> {
    match source {
        // No table is partitioned, and LISTEN is not built.
        "pg_partition_ancestors" | "pg_listening_channels" => Ok(Box::new(std::iter::empty())),
        _ => Err(SqlError::unsupported(format_args!("the system function {source}"))),
    }
}

/// Returns an argument as text; empty for an argument of another type, which the function's types rule out.
pub(super) fn text_of(args: &[Value], at: usize) -> &str {
    args.get(at).and_then(Value::as_str).unwrap_or_default()
}

/// Returns an argument as an OID; 0, which names no object, if it is not an OID.
pub(super) fn oid_of(args: &[Value], at: usize) -> Oid {
    args.get(at).and_then(Value::as_i64).and_then(|oid| Oid::try_from(oid).ok()).unwrap_or(0)
}

/// Returns the process id in the first argument, if it can be one.
fn pid_of(args: &[Value]) -> Option<u32> {
    args.first().and_then(Value::as_i64).and_then(|pid| u32::try_from(pid).ok())
}

fn bool_of(args: &[Value], at: usize) -> bool {
    args.get(at).and_then(Value::as_bool).unwrap_or(false)
}

fn bytes(count: u64) -> Value {
    Value::Int8(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Builds a `pg_lsn`.
pub(super) const fn lsn(position: collie_base::Lsn) -> Value {
    Value::PgLsn(position)
}

/// Computes functions about the session and the server.
fn session(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Option<Value>> {
    let value = match source {
        "pgsql_version" => {
            let (own, machine) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
            let system = std::env::consts::OS;
            format!("PostgreSQL {POSTGRES_VERSION} (Collie {own}) on {machine}-{system}, compiled by rustc, 64-bit")
                .into()
        }
        "current_database" => Value::text(facts.database()),
        "current_user" | "session_user" => Value::text(facts.user()),
        "current_schema" => match facts.search_path().first() {
            Some(&schema) => Value::text(name::schema_name(facts.catalog(), schema)),
            None => Value::Null,
        },
        "current_schemas" => {
            let path = facts.search_path();
            let implicit = bool_of(args, 0) && !path.contains(&PG_CATALOG);
            let all = implicit.then_some(PG_CATALOG).into_iter().chain(path.iter().copied());
            let schema_name = |schema: Oid| Value::text(name::schema_name(facts.catalog(), schema));
            Value::array(oid::NAME, all.map(schema_name).collect())
        }
        "show_config_by_name" => facts.setting(text_of(args, 0))?.into(),
        "show_config_by_name_missing_ok" => match facts.setting(text_of(args, 0)) {
            Ok(value) => value.into(),
            Err(error) if error.state() == SqlState::UNDEFINED_OBJECT && bool_of(args, 1) => Value::Null,
            Err(error) => return Err(error),
        },
        "set_config_by_name" => set_config(facts, args)?,
        "getdatabaseencoding" => Value::text("UTF8"),
        "pg_client_encoding" => facts.setting("client_encoding")?.into(),
        "PG_encoding_to_char" => {
            let number = args.first().and_then(Value::as_i32);
            let found = ENCODINGS.iter().find(|(encoding, _)| Some(*encoding) == number);
            Value::text(found.map_or("", |(_, name)| name))
        }
        "PG_char_to_encoding" => {
            let name = text_of(args, 0).replace(['-', '_'], "");
            let found = ENCODINGS.iter().find(|(_, known)| known.replace('_', "").eq_ignore_ascii_case(&name));
            Value::Int4(found.map_or(-1, |(encoding, _)| *encoding))
        }
        "pg_backend_pid" => Value::Int4(facts.pid().cast_signed()),
        "pg_promote" => promote(facts, args)?,
        "collie_promote" => facts.promote(if bool_of(args, 0) { Promotion::Forced } else { Promotion::Agreed })?.into(),
        "collie_promote_in" => promote_in(facts, args)?,
        "collie_switchover" => switch_over(facts, args)?,
        "pg_is_in_recovery" => Value::Bool(facts.is_replica()),
        "pg_last_wal_replay_lsn" => facts.replay().map_or(Value::Null, |replay| lsn(replay.shown)),
        "pg_last_wal_receive_lsn" => facts.replay().map_or(Value::Null, |replay| lsn(replay.received)),
        "pg_last_xact_replay_timestamp" => {
            let time_us = facts.replay().and_then(|replay| replay.time_us);
            time_us.map_or(Value::Null, |us| Value::TimestampTz(us.saturating_sub(EPOCH_2000_US)))
        }
        "collie_last_commit" => facts.last_commit().map_or(Value::Null, |token| token.to_string().into()),
        "pg_current_wal_lsn" | "pg_current_wal_insert_lsn" | "pg_current_wal_flush_lsn" if facts.is_replica() => {
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "recovery is in progress");
            return Err(error.hint("WAL control functions cannot be executed during recovery."));
        }
        "pg_current_wal_lsn" | "pg_current_wal_insert_lsn" => lsn(facts.positions().0),
        "pg_current_wal_flush_lsn" => lsn(facts.positions().1),
        "collie_state_hash" => {
            let (position, hash) = facts.state_hash()?;
            format!("{position}:{hash:016x}").into()
        }
        // A statement that calls this function is given an id before it runs.
        "pg_current_xact_id" | "pg_current_xact_id_if_assigned" => {
            facts.xid().map_or(Value::Null, |xid| bytes(xid.get()))
        }
        "pg_current_snapshot" => facts.xid_snapshot()?.to_string().into(),
        "pg_xact_status" => xid_status(facts, args)?,
        "pg_my_temp_schema" => Value::Oid(0),
        "pg_is_other_temp_schema" => Value::Bool(false),
        "pg_reload_conf" => Value::Bool(true),
        "pg_drop_replication_slot" => {
            facts.drop_slot(text_of(args, 0))?;
            Value::text("")
        }
        "pg_blocking_pids" => {
            let pids = pid_of(args).map(|pid| facts.blocking_pids(pid)).unwrap_or_default();
            Value::array(oid::INT4, pids.into_iter().map(|pid| Value::Int4(pid.cast_signed())).collect())
        }
        "pg_isolation_test_session_is_blocked" => {
            let among = |pid: &u32| match args.get(1) {
                Some(Value::Array(among)) => among.values.contains(&Value::Int4(pid.cast_signed())),
                _ => false,
            };
            Value::Bool(pid_of(args).is_some_and(|pid| facts.blocking_pids(pid).iter().any(among)))
        }
        "pg_cancel_backend" => stop(facts, args, false),
        "pg_terminate_backend" => {
            if args.get(1).and_then(Value::as_i64).is_some_and(|timeout| timeout != 0) {
                return Err(SqlError::unsupported("waiting for the end of a session")
                    .hint("Leave the timeout out, and look at pg_stat_activity."));
            }
            stop(facts, args, true)
        }
        "pg_sleep" => sleep(facts, args)?,
        "drandom" => Value::Float8(random(facts)),
        "setseed" => return Err(SqlError::unsupported("setseed")),
        "row_security_active" | "row_security_active_name" => Value::Bool(false),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Returns how a transaction ended; NULL if that is too long ago to be known.
fn xid_status(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    let xid = args.first().and_then(Value::as_i64).unwrap_or_default();
    Ok(match facts.xid_fate(Xid::new(xid.cast_unsigned())) {
        XidFate::InProgress => Value::text("in progress"),
        XidFate::Committed => Value::text("committed"),
        XidFate::Aborted => Value::text("aborted"),
        XidFate::Forgotten => Value::Null,
        XidFate::Future => {
            let text = format!("transaction ID {} is in the future", xid.cast_unsigned());
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
    })
}

/// Computes `pg_promote(wait, wait_seconds)`. The call always waits, and as long as necessary.
fn promote(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    if args.get(1).and_then(Value::as_i64).is_some_and(|seconds| seconds <= 0) {
        let text = "\"wait_seconds\" must not be negative or zero";
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, text));
    }
    facts.promote(Promotion::Agreed).map(|_| Value::Bool(true))
}

/// Computes `collie_promote_in(term)`.
fn promote_in(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    let term = args.first().and_then(Value::as_i64).and_then(|term| u64::try_from(term).ok());
    let Some(term) = term else {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "a term must not be negative"));
    };
    facts.promote(Promotion::InTerm(term)).map(Value::from)
}

/// Computes `collie_switchover(milliseconds)`: the time that the primary's open transactions are given; 0 means
/// `replication.switchover_timeout`.
fn switch_over(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    let ms = args.first().and_then(Value::as_i64).unwrap_or_default();
    let Ok(ms) = u64::try_from(ms) else {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "a time must not be negative"));
    };
    let wait = (ms > 0).then(|| Duration::from_millis(ms));
    facts.promote(Promotion::Switchover { wait }).map(Value::from)
}

/// Cancels or ends a session. Warns if no session has the number.
fn stop(facts: &dyn SessionFacts, args: &[Value], end: bool) -> Value {
    let stopped = pid_of(args).is_some_and(|pid| facts.stop_backend(pid, end));
    if !stopped {
        let pid = args.first().and_then(Value::as_i64).unwrap_or_default();
        facts.warn(SqlError::new(SqlState::WARNING, format!("PID {pid} is not a PostgreSQL backend process")));
    }
    Value::Bool(stopped)
}

/// Sleeps for the given number of seconds; returns at once for a negative number or NULL.
fn sleep(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    /// The longest time for which a timer can be set: about 31 years.
    const SECONDS_MAX: f64 = 1e9;
    let seconds = match args.first() {
        Some(Value::Float8(seconds)) if *seconds > 0.0 => seconds.min(SECONDS_MAX),
        _ => 0.0,
    };
    facts.sleep(Duration::from_secs_f64(seconds))?;
    Ok(Value::text(""))
}

fn set_config(facts: &dyn SessionFacts, args: &[Value]) -> Result<Value> {
    let Some(setting) = args.first().and_then(Value::as_str) else {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    };
    // NULL means the default, as in PostgreSQL.
    let default = || facts.settings().iter().find(|row| row.name.eq_ignore_ascii_case(setting)).map(|row| row.default);
    let value = match args.get(1) {
        Some(Value::Text(text)) => &**text,
        _ => default().unwrap_or_default(),
    };
    Ok(facts.set_config(setting, value, bool_of(args, 2))?.into())
}

/// Returns a random number in [0, 1). Each thread counts its draws; the log's position and the process id distinguish
/// threads and runs. The numbers are not cryptographically secure.
fn random(facts: &dyn SessionFacts) -> f64 {
    thread_local! {
        static DRAWS: Cell<u64> = const { Cell::new(0) };
    }
    let draw = DRAWS.with(|draws| draws.replace(draws.get().wrapping_add(1)));
    let state = foldhash::quality::FixedState::with_seed(draw);
    let bits = state.hash_one((facts.pid(), facts.positions().0.get())) >> 11;
    // A float8 represents 53 bits exactly.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let (drawn, all) = (bits as f64, (1_u64 << 53) as f64);
    drawn / all
}

/// Computes functions that print definitions.
fn definitions(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Option<Value>> {
    let catalog = facts.catalog();
    let value = match source {
        "format_type" => match args.first() {
            None | Some(Value::Null) => Value::Null,
            _ => definition::type_name(oid_of(args, 0), args.get(1).and_then(Value::as_i32)).into(),
        },
        // Expressions are stored as the text that is to be shown.
        "pg_get_expr" => args[0].clone(),
        "pg_get_expr_ext" if bool_of(args, 2) => definition::pretty_expression(text_of(args, 0)).into(),
        "pg_get_expr_ext" => args[0].clone(),
        "pg_get_indexdef" => match catalog.index(oid_of(args, 0)) {
            Some((relation, index)) => definition::index(catalog, None, relation, index).into(),
            None => Value::Null,
        },
        "pg_get_indexdef_ext" => {
            let Some((relation, index)) = catalog.index(oid_of(args, 0)) else { return Ok(Some(Value::Null)) };
            let path = bool_of(args, 2).then(|| facts.search_path());
            match args.get(1).and_then(Value::as_i32).unwrap_or(0) {
                0 => definition::index(catalog, path, relation, index).into(),
                column => {
                    let pretty = path.is_some();
                    let keys = index.columns.iter().map(|part| definition::index_part(relation, part, pretty));
                    let included = index.included.iter().map(|&place| quoted(&relation.columns[place].name));
                    let shown = usize::try_from(column - 1).ok().and_then(|at| keys.chain(included).nth(at));
                    shown.map_or(Value::text(""), Into::into)
                }
            }
        }
        "pg_get_constraintdef" | "pg_get_constraintdef_ext" => constraint(facts, oid_of(args, 0), bool_of(args, 1)),
        "pg_get_userbyid" => {
            let oid = oid_of(args, 0);
            role::name(facts, oid).unwrap_or_else(|| format!("unknown (OID={oid})")).into()
        }
        "pg_get_function_arguments" | "pg_get_function_identity_arguments" => {
            builtin::proc_by_oid(oid_of(args, 0)).map_or(Value::Null, |proc| definition::arguments(proc).into())
        }
        "pg_get_function_result" => match builtin::proc_by_oid(oid_of(args, 0)) {
            Some(proc) => {
                let result = definition::type_name(proc.result, None);
                if proc.returns_set { format!("SETOF {result}").into() } else { result.into() }
            }
            None => Value::Null,
        },
        "pg_get_functiondef" => match builtin::proc_by_oid(oid_of(args, 0)) {
            Some(proc) if proc.kind == ProcKind::Aggregate => {
                let text = format!("\"{}\" is an aggregate function", proc.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, text));
            }
            Some(_) => return Err(SqlError::unsupported("printing the definition of a built-in function")),
            None => Value::Null,
        },
        "pg_describe_object" => match catalog.relation(oid_of(args, 1)) {
            Some(relation) if oid_of(args, 0) == PG_CLASS => {
                format!("table {}", visible(catalog, facts.search_path(), relation)).into()
            }
            _ => Value::Null,
        },
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn constraint(facts: &dyn SessionFacts, oid: Oid, pretty: bool) -> Value {
    let catalog = facts.catalog();
    for relation in catalog.relations.values() {
        for constraint in definition::constraints(relation) {
            if constraint.oid() == oid {
                return definition::constraint(catalog, facts.search_path(), relation, &constraint, pretty).into();
            }
        }
    }
    Value::Null
}

/// Computes functions about one relation: its size, its statistics, its permitted operations.
fn relations(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Option<Value>> {
    let catalog = facts.catalog();
    let oid = oid_of(args, 0);
    let sized = |size: Option<u64>| size.map_or(Value::Null, bytes);
    let table = |measure: &dyn Fn(&Relation) -> u64| sized(catalog.relation(oid).map(|relation| measure(relation)));
    let user = |relation: &Relation| relation.storage != Storage::Virtual;
    let value = match source {
        "pg_relation_size(regclass)" => sized(size::of(facts, oid)),
        "pg_relation_size" => match text_of(args, 1) {
            "main" => sized(size::of(facts, oid)),
            "fsm" | "vm" | "init" => sized(size::of(facts, oid).map(|_| 0)),
            _ => {
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
                    .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\"."));
            }
        },
        "pg_table_size" => sized(size::of(facts, oid)),
        "pg_indexes_size" => table(&|relation| size::indexes(facts, relation)),
        "pg_total_relation_size" if catalog.index_owner.contains_key(&oid) => sized(size::of(facts, oid)),
        "pg_total_relation_size" => table(&|relation| size::table(facts, relation) + size::indexes(facts, relation)),
        "pg_database_size_name" if text_of(args, 0) != facts.database() => {
            let text = format!("database \"{}\" does not exist", text_of(args, 0));
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, text));
        }
        "pg_database_size_oid" if oid != session_rows::DATABASE => Value::Null,
        "pg_database_size_name" | "pg_database_size_oid" | "pg_tablespace_size_name" | "pg_tablespace_size_oid" => {
            bytes(size::database(facts))
        }
        "pg_relation_filenode" => match catalog.relation(oid) {
            Some(relation) if user(relation) => Value::Oid(oid),
            None if catalog.index_owner.contains_key(&oid) => Value::Oid(oid),
            _ => Value::Null,
        },
        "pg_relation_is_publishable" => {
            catalog.relation(oid).map_or(Value::Null, |relation| Value::Bool(user(relation)))
        }
        "pg_relation_is_updatable" => {
            Value::Int4(if catalog.relation(oid).is_some_and(|relation| user(relation)) { UPDATABLE } else { 0 })
        }
        "pg_column_is_updatable" => {
            let attnum = args.get(1).and_then(Value::as_i32).unwrap_or(0);
            Value::Bool(attnum > 0 && catalog.relation(oid).is_some_and(|relation| user(relation)))
        }
        "pg_stat_get_live_tuples" => Value::Int8(
            catalog.relation(oid).map_or(0, |relation| i64::try_from(size::rows(facts, relation)).unwrap_or(i64::MAX)),
        ),
        "pg_stat_get_dead_tuples" | "pg_stat_get_numscans" => Value::Int8(0),
        "pg_get_serial_sequence" => {
            let table = object_names::table(facts, text_of(args, 0))?;
            let column = text_of(args, 1);
            if table.column(column).is_none() {
                let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, text));
            }
            Value::Null
        }
        "nextval_oid" | "currval_oid" | "setval_oid" | "setval3_oid" => return Err(no_sequence(facts, oid)),
        "lastval" => {
            let text = "lastval is not yet defined in this session";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Returns the error for using an object as a sequence; sequences do not exist.
fn no_sequence(facts: &dyn SessionFacts, oid: Oid) -> SqlError {
    let catalog = facts.catalog();
    let table = catalog.relation(oid).map(|relation| relation.name.clone());
    match table.or_else(|| catalog.index(oid).map(|(_, index)| index.name.clone())) {
        Some(name) => SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence")),
        None => SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist")),
    }
}

/// Computes functions about features that are not built: NULL, as PostgreSQL answers for objects that do not exist.
fn unused(_: &dyn SessionFacts, source: &str, _: &[Value]) -> Result<Option<Value>> {
    Ok(match source {
        "current_query"
        | "inet_client_addr"
        | "inet_client_port"
        | "inet_server_addr"
        | "inet_server_port"
        | "pg_get_viewdef"
        | "pg_get_viewdef_ext"
        | "pg_get_viewdef_name"
        | "pg_get_viewdef_name_ext"
        | "pg_get_viewdef_wrap"
        | "pg_get_triggerdef"
        | "pg_get_triggerdef_ext"
        | "pg_get_ruledef"
        | "pg_get_ruledef_ext"
        | "pg_get_function_sqlbody"
        | "pg_get_function_arg_default"
        | "pg_get_statisticsobjdef"
        | "pg_get_statisticsobjdef_columns"
        | "pg_get_partkeydef"
        | "pg_get_partition_constraintdef"
        | "pg_partition_root"
        | "col_description(oid, integer)"
        | "obj_description(oid, name)"
        | "obj_description(oid)"
        | "shobj_description(oid, name)"
        | "pg_postmaster_start_time"
        | "pg_conf_load_time" => Some(Value::Null),
        "pg_tablespace_location" => Some(Value::text("")),
        _ => None,
    })
}
