//! Functions that need the catalog or the session: they are declared here and answered through `SystemFunctions`.
//!
//! The privilege functions are an exception: every user may do everything, so they return true without a look-up.
//! Checked by `builtin_tests`.

use super::args::{int, new_text, numeric, out_of_range};
use super::context::EvalContext;
use super::implementation::{Entry, Implementation, entries};
use crate::error::Result;
use crate::types::Value;
use crate::types::numeric::Numeric;

/// Lists sources as registry entries that the session answers.
macro_rules! answered_by_session {
    ($kind:ident: $($name:literal => session,)*) => {
        &[$(($name, Implementation::$kind($name)),)*]
    };
}

fn yes(_: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(Value::Bool(true))
}

/// Prints a number of bytes in the largest unit that keeps at least two digits.
fn pretty(mut size: i128) -> Value {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    for (i, unit) in UNITS.iter().enumerate() {
        let last = i + 1 == UNITS.len();
        // All units but bytes are kept doubled, so that the half that rounding needs is not lost.
        let limit = if i == 0 { 10 * 1024 } else { 20 * 1024 - 1 };
        if size.abs() < limit || last {
            let shown = if i == 0 { size } else { half_rounded(size) };
            return new_text(format!("{shown} {unit}"));
        }
        size = if i == 0 { size >> 9 } else { size / 1024 };
    }
    unreachable!("the last unit takes every size")
}

fn size_pretty(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    Ok(pretty(i128::from(int(&args[0]))))
}

/// Halves, rounding away from zero.
fn half_rounded(doubled: i128) -> i128 {
    (doubled + doubled.signum()) / 2
}

/// Prints a numeric size; a small one is printed unchanged, with its fraction.
fn size_pretty_numeric(args: &[Value], _: &EvalContext<'_>) -> Result<Value> {
    let size = numeric(&args[0]);
    if size.is_nan() || size.is_infinite() {
        return Ok(new_text(format!("{size} PB")));
    }
    if size.abs() < Numeric::from(10 * 1024) {
        return Ok(new_text(format!("{size} bytes")));
    }
    size.trunc(0).to_string().parse().map(pretty).map_err(|_| out_of_range("size"))
}

pub(super) const ENTRIES: &[&[Entry]] = &[
    answered_by_session! { System:
        "pgsql_version" => session, "current_database" => session, "current_query" => session,
        "current_schema" => session, "current_schemas" => session, "current_user" => session,
        "session_user" => session, "show_config_by_name" => session, "show_config_by_name_missing_ok" => session,
        "set_config_by_name" => session, "getdatabaseencoding" => session, "pg_client_encoding" => session,
        "PG_encoding_to_char" => session, "PG_char_to_encoding" => session, "pg_backend_pid" => session,
        "inet_client_addr" => session, "inet_client_port" => session, "inet_server_addr" => session,
        "inet_server_port" => session, "pg_get_expr" => session, "pg_get_expr_ext" => session,
        "pg_get_indexdef" => session, "pg_get_indexdef_ext" => session, "pg_get_constraintdef" => session,
        "pg_get_constraintdef_ext" => session, "pg_get_userbyid" => session, "pg_get_viewdef" => session,
        "pg_get_viewdef_ext" => session, "pg_get_viewdef_name" => session, "pg_get_viewdef_name_ext" => session,
        "pg_get_viewdef_wrap" => session, "pg_get_triggerdef" => session, "pg_get_triggerdef_ext" => session,
        "pg_get_ruledef" => session, "pg_get_ruledef_ext" => session, "pg_get_function_arguments" => session,
        "pg_get_function_identity_arguments" => session, "pg_get_function_result" => session,
        "pg_get_function_sqlbody" => session, "pg_get_function_arg_default" => session,
        "pg_get_functiondef" => session, "pg_get_statisticsobjdef" => session,
        "pg_get_statisticsobjdef_columns" => session, "pg_get_partkeydef" => session,
        "pg_get_partition_constraintdef" => session, "pg_get_serial_sequence" => session,
        "pg_partition_root" => session, "format_type" => session, "col_description(oid, integer)" => session,
        "obj_description(oid, name)" => session, "obj_description(oid)" => session,
        "shobj_description(oid, name)" => session, "pg_describe_object" => session,
        "pg_table_is_visible" => session, "pg_type_is_visible" => session, "pg_function_is_visible" => session,
        "pg_operator_is_visible" => session, "pg_opclass_is_visible" => session,
        "pg_opfamily_is_visible" => session, "pg_collation_is_visible" => session,
        "pg_conversion_is_visible" => session, "pg_statistics_obj_is_visible" => session,
        "pg_ts_config_is_visible" => session, "pg_ts_dict_is_visible" => session,
        "pg_ts_parser_is_visible" => session, "pg_ts_template_is_visible" => session, "pg_relation_size" => session,
        "pg_relation_size(regclass)" => session, "pg_table_size" => session, "pg_indexes_size" => session,
        "pg_total_relation_size" => session, "pg_database_size_name" => session, "pg_database_size_oid" => session,
        "pg_tablespace_size_oid" => session, "pg_tablespace_size_name" => session,
        "pg_relation_filenode" => session, "pg_relation_is_publishable" => session,
        "pg_relation_is_updatable" => session, "pg_column_is_updatable" => session,
        "pg_tablespace_location" => session, "pg_is_in_recovery" => session, "pg_promote" => session, "collie_promote" => session, "collie_promote_in" => session, "collie_switchover" => session, "pg_current_wal_lsn" => session,
        "pg_current_wal_insert_lsn" => session, "pg_current_wal_flush_lsn" => session,
        "collie_last_commit" => session, "collie_state_hash" => session, "pg_last_xact_replay_timestamp" => session,
        "pg_last_wal_receive_lsn" => session, "pg_last_wal_replay_lsn" => session, "pg_current_xact_id" => session,
        "pg_current_xact_id_if_assigned" => session, "pg_current_snapshot" => session, "pg_xact_status" => session, "pg_postmaster_start_time" => session,
        "pg_conf_load_time" => session, "pg_my_temp_schema" => session, "pg_is_other_temp_schema" => session,
        "pg_sleep" => session, "pg_cancel_backend" => session, "pg_terminate_backend" => session,
        "pg_reload_conf" => session, "pg_drop_replication_slot" => session, "pg_blocking_pids" => session, "pg_isolation_test_session_is_blocked" => session, "pg_stat_get_live_tuples" => session,
        "pg_stat_get_dead_tuples" => session, "pg_stat_get_numscans" => session, "drandom" => session,
        "setseed" => session, "nextval_oid" => session, "currval_oid" => session, "lastval" => session,
        "setval_oid" => session, "setval3_oid" => session, "text_regclass" => session, "to_regclass" => session,
        "to_regtype" => session, "to_regproc" => session, "to_regprocedure" => session, "to_regoper" => session,
        "to_regoperator" => session, "to_regnamespace" => session, "to_regrole" => session, "regclassin" => session,
        "regclassout" => session, "regtypein" => session, "regtypeout" => session, "regprocin" => session,
        "regprocout" => session, "regprocedurein" => session, "regprocedureout" => session, "regoperin" => session,
        "regoperout" => session, "regoperatorin" => session, "regoperatorout" => session,
        "regnamespacein" => session, "regnamespaceout" => session, "regrolein" => session, "regroleout" => session,
        "row_security_active" => session, "row_security_active_name" => session,
        "pg_advisory_lock_int4" => session, "pg_advisory_lock_int8" => session,
        "pg_advisory_lock_shared_int4" => session, "pg_advisory_lock_shared_int8" => session,
        "pg_advisory_unlock_all" => session, "pg_advisory_unlock_int4" => session, "pg_advisory_unlock_int8" => session,
        "pg_advisory_unlock_shared_int4" => session, "pg_advisory_unlock_shared_int8" => session,
        "pg_advisory_xact_lock_int4" => session, "pg_advisory_xact_lock_int8" => session,
        "pg_advisory_xact_lock_shared_int4" => session, "pg_advisory_xact_lock_shared_int8" => session,
        "pg_try_advisory_lock_int4" => session, "pg_try_advisory_lock_int8" => session,
        "pg_try_advisory_lock_shared_int4" => session, "pg_try_advisory_lock_shared_int8" => session,
        "pg_try_advisory_xact_lock_int4" => session, "pg_try_advisory_xact_lock_int8" => session,
        "pg_try_advisory_xact_lock_shared_int4" => session, "pg_try_advisory_xact_lock_shared_int8" => session,
    },
    answered_by_session! { SystemSet:
        "pg_partition_ancestors" => session, "pg_listening_channels" => session,
    },
    entries! { Scalar:
        "pg_size_pretty" => size_pretty, "pg_size_pretty_numeric" => size_pretty_numeric,
        "has_any_column_privilege_name_name" => yes, "has_any_column_privilege_name_id" => yes,
        "has_any_column_privilege_id_name" => yes, "has_any_column_privilege_id_id" => yes,
        "has_any_column_privilege_name" => yes, "has_any_column_privilege_id" => yes,
        "has_column_privilege_name_name_name" => yes, "has_column_privilege_name_name_attnum" => yes,
        "has_column_privilege_name_id_name" => yes, "has_column_privilege_name_id_attnum" => yes,
        "has_column_privilege_id_name_name" => yes, "has_column_privilege_id_name_attnum" => yes,
        "has_column_privilege_id_id_name" => yes, "has_column_privilege_id_id_attnum" => yes,
        "has_column_privilege_name_name" => yes, "has_column_privilege_name_attnum" => yes,
        "has_column_privilege_id_name" => yes, "has_column_privilege_id_attnum" => yes,
        "has_database_privilege_name_name" => yes, "has_database_privilege_name_id" => yes,
        "has_database_privilege_id_name" => yes, "has_database_privilege_id_id" => yes,
        "has_database_privilege_name" => yes, "has_database_privilege_id" => yes,
        "has_function_privilege_name_name" => yes, "has_function_privilege_name_id" => yes,
        "has_function_privilege_id_name" => yes, "has_function_privilege_id_id" => yes,
        "has_function_privilege_name" => yes, "has_function_privilege_id" => yes,
        "has_language_privilege_name_name" => yes, "has_language_privilege_name_id" => yes,
        "has_language_privilege_id_name" => yes, "has_language_privilege_id_id" => yes,
        "has_language_privilege_name" => yes, "has_language_privilege_id" => yes,
        "has_schema_privilege_name_name" => yes, "has_schema_privilege_name_id" => yes,
        "has_schema_privilege_id_name" => yes, "has_schema_privilege_id_id" => yes,
        "has_schema_privilege_name" => yes, "has_schema_privilege_id" => yes,
        "has_sequence_privilege_name_name" => yes, "has_sequence_privilege_name_id" => yes,
        "has_sequence_privilege_id_name" => yes, "has_sequence_privilege_id_id" => yes,
        "has_sequence_privilege_name" => yes, "has_sequence_privilege_id" => yes,
        "has_table_privilege_name_name" => yes, "has_table_privilege_name_id" => yes,
        "has_table_privilege_id_name" => yes, "has_table_privilege_id_id" => yes, "has_table_privilege_name" => yes,
        "has_table_privilege_id" => yes, "has_tablespace_privilege_name_name" => yes,
        "has_tablespace_privilege_name_id" => yes, "has_tablespace_privilege_id_name" => yes,
        "has_tablespace_privilege_id_id" => yes, "has_tablespace_privilege_name" => yes,
        "has_tablespace_privilege_id" => yes, "has_type_privilege_name_name" => yes,
        "has_type_privilege_name_id" => yes, "has_type_privilege_id_name" => yes, "has_type_privilege_id_id" => yes,
        "has_type_privilege_name" => yes, "has_type_privilege_id" => yes,
        "has_foreign_data_wrapper_privilege_name_name" => yes, "has_foreign_data_wrapper_privilege_name_id" => yes,
        "has_foreign_data_wrapper_privilege_id_name" => yes, "has_foreign_data_wrapper_privilege_id_id" => yes,
        "has_foreign_data_wrapper_privilege_name" => yes, "has_foreign_data_wrapper_privilege_id" => yes,
        "has_server_privilege_name_name" => yes, "has_server_privilege_name_id" => yes,
        "has_server_privilege_id_name" => yes, "has_server_privilege_id_id" => yes,
        "has_server_privilege_name" => yes, "has_server_privilege_id" => yes, "pg_has_role_name_name" => yes,
        "pg_has_role_name_id" => yes, "pg_has_role_id_name" => yes, "pg_has_role_id_id" => yes,
        "pg_has_role_name" => yes, "pg_has_role_id" => yes,
    },
];
