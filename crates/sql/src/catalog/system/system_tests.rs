//! Tests of the system relations and functions, over the catalog and session of `fixture`.

use std::sync::Arc;

use super::{
    call, call_set,
    fixture::{HIDDEN, ITEMS, NOTES, ask, read, relation, shop},
    install, key_expression_text, rows, tables,
};
use crate::{
    builtin::{self, Implementation},
    catalog::{
        relation::Oid,
        snapshot::{COLLIE_TRAINING, Catalog, FIRST_USER_OID, PG_CATALOG, PUBLIC, Schema},
    },
    error::SqlState,
    types::{SqlType, Value, oid},
};

/// Returns whether a value belongs to the type.
fn fits(value: &Value, ty: u32) -> bool {
    match value {
        Value::Bool(_) => ty == oid::BOOL,
        Value::Int2(_) => ty == oid::INT2,
        Value::Int4(_) => ty == oid::INT4,
        Value::Int8(_) => matches!(ty, oid::INT8 | oid::XID8),
        Value::Float4(_) => ty == oid::FLOAT4,
        Value::Float8(_) => ty == oid::FLOAT8,
        Value::Char(_) => ty == oid::CHAR,
        Value::Bytea(_) => ty == oid::BYTEA,
        Value::TimestampTz(_) => ty == oid::TIMESTAMPTZ,
        Value::Interval(_) => ty == oid::INTERVAL,
        Value::Oid(_) => oid::is_oid_like(ty),
        Value::PgLsn(_) => ty == oid::PG_LSN,
        // These types have no representation except their text.
        Value::Text(_) => {
            SqlType::new(ty).is_string_like() || matches!(ty, oid::INET | oid::PG_SNAPSHOT | oid::TXID_SNAPSHOT)
        }
        Value::Array(array) => oid::element_of(ty) == Some(array.element_oid),
        _ => false,
    }
}

/// Goal: S1 and T1, T2 for every relation. Method: reads all of them and checks each value against its column.
#[test]
fn every_relation_gives_rows_of_its_columns() {
    let facts = shop();
    for system in tables::relations() {
        let relation = &system.relation;
        assert!(relation.oid < FIRST_USER_OID && !relation.columns.is_empty());
        assert!(matches!(system.kind, b'r' | b'v'));
        for row in rows(&facts, relation, None).unwrap() {
            assert_eq!(row.len(), relation.columns.len(), "{}", relation.name);
            for (value, column) in row.iter().zip(&relation.columns) {
                let name = (&relation.name, &column.name);
                match value {
                    Value::Null => assert!(!column.not_null, "NULL in {name:?}"),
                    _ => assert!(fits(value, column.ty.oid), "{value:?} in {name:?}"),
                }
            }
        }
    }
    let ordered = tables::relations().windows(2).all(|pair| pair[0].relation.oid < pair[1].relation.oid);
    assert!(ordered, "tables::kind searches by OID, each of which is there once");
}

/// Goal: S2 and S3. Method: for every relation, and for the values of some twenty rows spread over it, the rows of the
/// look-up must contain exactly the matching rows of the full scan.
#[test]
fn a_look_up_returns_every_matching_row_in_the_same_order() {
    let facts = shop();
    for system in tables::relations() {
        let relation = &system.relation;
        let all = rows(&facts, relation, None).unwrap();
        let step = all.len() / 20 + 1;
        for row in all.iter().step_by(step) {
            for (place, value) in row.iter().enumerate() {
                if value.is_null() || all.len() > 300 && place > 3 {
                    continue;
                }
                let matching =
                    |rows: &[Vec<Value>]| rows.iter().filter(|row| row[place] == *value).cloned().collect::<Vec<_>>();
                let found = rows(&facts, relation, Some((place, value))).unwrap();
                assert_eq!(matching(&found), matching(&all), "{}.{}", relation.name, relation.columns[place].name);
            }
        }
    }
}

/// Goal: look-ups by owner stay cheap. Method: counts the rows they return.
#[test]
fn a_look_up_by_oid_or_owner_makes_only_the_rows_of_one_table() {
    let facts = shop();
    let count = |name: &str, column: &str, oid: Oid| {
        let relation = relation(&facts, name);
        let place = relation.column(column).unwrap().0;
        rows(&facts, relation, Some((place, &Value::Oid(oid)))).unwrap().len()
    };
    assert_eq!(count("pg_class", "oid", ITEMS), 1);
    assert_eq!(count("pg_class", "oid", 16_404), 1);
    assert_eq!(count("pg_class", "oid", 99_999), 0);
    assert_eq!(count("pg_attribute", "attrelid", ITEMS), 4);
    assert_eq!(count("pg_attribute", "attrelid", 16_406), 3);
    assert_eq!(count("pg_index", "indrelid", ITEMS), 3);
    assert_eq!(count("pg_constraint", "conrelid", ITEMS), 3);
    assert_eq!(count("pg_type", "oid", oid::INT4), 1);
    assert_eq!(count("pg_proc", "oid", 65), 1);
    let relation = relation(&facts, "pg_class");
    let by_number = rows(&facts, relation, Some((0, &Value::Int8(-1)))).unwrap();
    assert!(by_number.is_empty(), "no OID equals a negative number");
}

/// Goal: a table shows to `\d` as in PostgreSQL. Method: compares with what PostgreSQL 15 shows of the same table.
#[test]
fn a_table_shows_in_the_catalog_tables_as_in_postgresql() {
    let facts = shop();
    assert_eq!(
        read(
            &facts,
            "pg_class",
            ("relnamespace", "2200"),
            &["oid", "relname", "relkind", "relam", "relchecks", "reloptions"]
        ),
        [
            "16401|items|r|2|1|{fillfactor=100}",
            "16402|items_pkey|i|403|0|NULL",
            "16404|items_name_key|i|403|0|NULL",
            "16406|items_price_idx|i|403|0|NULL",
            "16410|My Notes|r|2|0|NULL",
        ]
    );
    assert_eq!(
        read(
            &facts,
            "pg_attribute",
            ("attrelid", "16401"),
            &[
                "attnum",
                "attname",
                "atttypid",
                "atttypmod",
                "attnotnull",
                "atthasdef",
                "attisdropped",
                "attcollation",
                "attidentity"
            ]
        ),
        [
            "1|id|23|-1|t|f|f|0|",
            "2|price|1700|655366|f|t|f|0|",
            "3|........pg.dropped.3........|0|-1|f|f|t|100|",
            "4|Name|1043|14|t|f|f|100|",
        ]
    );
    assert_eq!(
        read(
            &facts,
            "pg_index",
            ("indrelid", "16401"),
            &["indexrelid", "indisprimary", "indisunique", "indkey", "indoption", "indclass"]
        ),
        ["16402|t|t|1|0|1978", "16404|f|t|4|0|3126", "16406|f|f|2 4 1|3 2 1|3125 3126 1978"]
    );
    assert_eq!(
        read(
            &facts,
            "pg_constraint",
            ("conislocal", "t"),
            &["oid", "conname", "contype", "conrelid", "conindid", "confrelid", "conkey", "confkey"]
        ),
        [
            "16403|items_pkey|p|16401|16402|0|{1}|NULL",
            "16405|items_name_key|u|16401|16404|0|{4}|NULL",
            "16407|items_price_check|c|16401|0|0|NULL|NULL",
            "16411|notes_item_fkey|f|16410|16402|16401|{1}|{1}",
        ]
    );
    assert_eq!(read(&facts, "pg_attrdef", ("", ""), &["adrelid", "adnum", "adbin"]), ["16401|2|0"]);
}

/// Goal: system relations list themselves, with their kinds. Method: looks up a table, a view, both schemas.
#[test]
fn system_relations_list_themselves() {
    let facts = shop();
    let kinds = |name: &str| read(&facts, "pg_class", ("relname", name), &["oid", "relkind", "relnamespace"]);
    assert_eq!(kinds("pg_class"), ["1259|r|11"]);
    assert_eq!(kinds("pg_roles"), ["13100|v|11"]);
    assert_eq!(kinds("columns"), ["13127|v|13000"]);
    assert!(read(&facts, "pg_attribute", ("attrelid", "1259"), &["attname"]).contains(&"relkind".to_owned()));
    assert_eq!(
        read(&facts, "pg_namespace", ("", ""), &["oid", "nspname"]),
        ["11|pg_catalog", "2200|public", "13000|information_schema", "13990|collie_training", "16399|Back Room"]
    );
}

/// Goal: `install` keeps a `public` that was read from disk, and can be repeated. Method: installs twice around a
/// rename.
#[test]
fn installing_again_changes_nothing() {
    let mut catalog = Catalog::default();
    install(&mut catalog);
    let count = catalog.relations.len();
    catalog.schemas.insert(PUBLIC, Arc::new(Schema { oid: PUBLIC, name: "renamed".into() }));
    install(&mut catalog);
    assert_eq!(&*catalog.schemas[&PUBLIC].name, "renamed");
    assert_eq!((catalog.relations.len(), catalog.names.len()), (count, count));
}

/// Goal: a user's schema `collie_training`, created before the system had one, stays readable, and the system's is not
/// installed. Method: calls `install` over a catalog that has such a schema.
#[test]
fn a_schema_with_the_name_of_a_system_schema_stays() {
    let mut catalog = Catalog::default();
    catalog.schemas.insert(20_000, Arc::new(Schema { oid: 20_000, name: "collie_training".into() }));
    install(&mut catalog);
    assert_eq!(catalog.schema_named("collie_training").map(|schema| schema.oid), Some(20_000));
    assert!(!catalog.schemas.contains_key(&COLLIE_TRAINING));
    assert_eq!(catalog.object_named(Some(COLLIE_TRAINING), &[], "policy"), None);
    assert!(catalog.object_named(Some(PG_CATALOG), &[], "pg_class").is_some());
}

/// Goal: definitions print as in PostgreSQL. Method: compares with a table of its answers.
#[test]
fn definitions_are_printed_as_postgresql_prints_them() {
    let oid = |oid: Oid| Value::Oid(oid);
    let pretty = [Value::Int4(0), Value::Bool(true)];
    let index = |number: Oid| ask("pg_get_indexdef", &[oid(number)]);
    assert_eq!(index(16_402), "CREATE UNIQUE INDEX items_pkey ON public.items USING btree (id)");
    assert_eq!(index(16_404), "CREATE UNIQUE INDEX items_name_key ON public.items USING btree (\"Name\")");
    let parts = "(price DESC, \"Name\" NULLS FIRST, id DESC NULLS LAST)";
    assert_eq!(index(16_406), format!("CREATE INDEX items_price_idx ON public.items USING btree {parts}"));
    assert_eq!(index(ITEMS), "NULL");
    let [whole, yes] = pretty;
    assert_eq!(
        ask("pg_get_indexdef_ext", &[oid(16_402), whole, yes.clone()]),
        "CREATE UNIQUE INDEX items_pkey ON items USING btree (id)"
    );
    assert_eq!(ask("pg_get_indexdef_ext", &[oid(16_406), Value::Int4(2), yes.clone()]), "\"Name\"");
    assert_eq!(ask("pg_get_indexdef_ext", &[oid(16_406), Value::Int4(9), yes.clone()]), "");
    assert_eq!(ask("pg_get_constraintdef", &[oid(16_403)]), "PRIMARY KEY (id)");
    assert_eq!(ask("pg_get_constraintdef", &[oid(16_405)]), "UNIQUE (\"Name\")");
    assert_eq!(ask("pg_get_constraintdef", &[oid(16_407)]), "CHECK ((price > (0)::numeric))");
    assert_eq!(ask("pg_get_constraintdef_ext", &[oid(16_407), yes.clone()]), "CHECK (price > 0::numeric)");
    assert_eq!(ask("pg_get_constraintdef", &[oid(16_411)]), "FOREIGN KEY (item) REFERENCES items(id)");
    assert_eq!(ask("pg_get_expr_ext", &[Value::text("(a) + (b)"), oid(ITEMS), yes]), "(a) + (b)");
}

/// Goal: an expression of an index is printed in parentheses unless it is a call, and with fewer if pretty text is
/// asked for. Method: compares with a table of PostgreSQL's answers.
#[test]
fn expressions_of_indexes_are_printed_as_postgresql_prints_them() {
    for (text, plain, pretty) in [
        ("lower(b)", "lower(b)", "lower(b)"),
        (
            "((a > 1) AND ((b = 'x) AND (y'::text) OR c) AND (d IS NULL))",
            "(((a > 1) AND ((b = 'x) AND (y'::text) OR c) AND (d IS NULL)))",
            "(a > 1 AND ((b = 'x) AND (y'::text) OR c) AND d IS NULL)",
        ),
        ("lower((v)::text)", "lower((v)::text)", "lower(v::text)"),
        ("(a + 1)", "((a + 1))", "(a + 1)"),
        ("(a)::text", "((a)::text)", "(a::text)"),
        ("(lower(a) || lower(b))", "((lower(a) || lower(b)))", "(lower(a) || lower(b))"),
        ("COALESCE(b, 'x)(y'::text)", "COALESCE(b, 'x)(y'::text)", "COALESCE(b, 'x)(y'::text)"),
        (
            "CASE WHEN a THEN f(1) ELSE f(2) END",
            "(CASE WHEN a THEN f(1) ELSE f(2) END)",
            "(CASE WHEN a THEN f(1) ELSE f(2) END)",
        ),
    ] {
        assert_eq!(key_expression_text(text, false), plain);
        assert_eq!(key_expression_text(text, true), pretty);
    }
}

/// Goal: the names of types print as in PostgreSQL. Method: compares with a table of PostgreSQL 15's answers.
#[test]
fn format_type_knows_every_type_with_and_without_modifier() {
    let name =
        |ty: u32, typmod: Option<i32>| ask("format_type", &[Value::Oid(ty), typmod.map_or(Value::Null, Value::Int4)]);
    for (ty, typmod, expected) in [
        (oid::INT4, None, "integer"),
        (oid::NUMERIC, Some(655_366), "numeric(10,2)"),
        (oid::BPCHAR, None, "character"),
        (oid::BPCHAR, Some(-1), "bpchar"),
        (oid::BPCHAR, Some(26), "character(22)"),
        (oid::VARCHAR_ARRAY, Some(14), "character varying(10)[]"),
        (5069, None, "xid8"),
        (271, None, "xid8[]"),
        (oid::CHAR, Some(-1), "\"char\""),
        (0, None, "-"),
        (99_999, None, "???"),
    ] {
        assert_eq!(name(ty, typmod), expected);
    }
    assert_eq!(ask("format_type", &[Value::Null, Value::Null]), "NULL");
}

/// Goal: `reg*` types read and print names. Method: compares with tables of PostgreSQL's answers and errors.
#[test]
fn names_of_objects_are_read_and_printed() {
    for (source, text, expected) in [
        ("regclassin", "items", "16401"),
        ("regclassin", "public.ITEMS", "16401"),
        ("regclassin", "shop.public.items", "16401"),
        ("regclassin", "\"My Notes\"", "16410"),
        ("regclassin", "items_pkey", "16402"),
        ("regclassin", "pg_class", "1259"),
        ("regclassin", "12345", "12345"),
        ("regclassin", "-", "0"),
        ("regclassin", "nosuch", "42P01: relation \"nosuch\" does not exist"),
        ("regclassin", "x.items", "42P01: relation \"x.items\" does not exist"),
        ("regclassin", "a b", "42602: invalid name syntax"),
        ("to_regclass", "nosuch", "NULL"),
        ("to_regclass", "\"Back Room\".safe", "16400"),
        ("regtypein", "int", "23"),
        ("regtypein", "character varying(10)", "1043"),
        ("regtypein", "timestamp(3) with time zone", "1184"),
        ("regtypein", "pg_catalog.int4[]", "1007"),
        ("regtypein", "\"char\"", "18"),
        ("regtypein", "char", "1042"),
        ("regtypein", "nosuch", "42704: type \"nosuch\" does not exist"),
        ("to_regtype", "nosuch", "NULL"),
        ("regprocin", "int4eq", "65"),
        ("regprocin", "abs", "42725: more than one function named \"abs\""),
        ("regprocin", "nosuch", "42883: function \"nosuch\" does not exist"),
        ("regprocedurein", "abs(numeric)", "1705"),
        ("regprocedurein", "abs(bool)", "42883: function \"abs(bool)\" does not exist"),
        ("regoperatorin", "=(int4,integer)", "96"),
        ("regoperatorin", "-(NONE, numeric)", "1751"),
        ("regoperin", "=", "42725: more than one operator named ="),
        ("regnamespacein", "public", "2200"),
        ("regnamespacein", "x", "3F000: schema \"x\" does not exist"),
        ("regrolein", "ann", "16383"),
        ("regrolein", "bob", "42704: role \"bob\" does not exist"),
    ] {
        assert_eq!(ask(source, &[Value::text(text)]), expected, "{source} {text}");
    }
    for (source, oid, expected) in [
        ("regclassout", ITEMS, "items"),
        ("regclassout", NOTES, "\"My Notes\""),
        ("regclassout", HIDDEN, "\"Back Room\".safe"),
        ("regclassout", 16_402, "items_pkey"),
        ("regclassout", 0, "-"),
        ("regclassout", 99_999, "99999"),
        ("regtypeout", oid::TIMESTAMPTZ, "timestamp with time zone"),
        ("regprocout", 65, "int4eq"),
        ("regprocout", 1705, "pg_catalog.abs"),
        ("regprocedureout", 1705, "abs(numeric)"),
        ("regoperatorout", 96, "=(integer,integer)"),
        ("regoperout", 0, "0"),
        ("regnamespaceout", 16_399, "\"Back Room\""),
        ("regroleout", 10, "collie"),
    ] {
        assert_eq!(ask(source, &[Value::Oid(oid)]), expected, "{source} {oid}");
    }
}

/// Goal: an object is visible if its name alone finds it. Method: asks about one object of each kind.
#[test]
fn visibility_follows_the_search_path() {
    for (source, oid, expected) in [
        ("pg_table_is_visible", ITEMS, "t"),
        ("pg_table_is_visible", 16_402, "t"),
        ("pg_table_is_visible", 1259, "t"),
        ("pg_table_is_visible", HIDDEN, "f"),
        ("pg_table_is_visible", 99_999, "NULL"),
        ("pg_type_is_visible", oid::INT4, "t"),
        ("pg_function_is_visible", 65, "t"),
        ("pg_operator_is_visible", 96, "t"),
        ("pg_collation_is_visible", 100, "t"),
    ] {
        assert_eq!(ask(source, &[Value::Oid(oid)]), expected, "{source} {oid}");
    }
}

/// Goal: functions about the session answer from its facts. Method: compares with the values of the fake session.
#[test]
fn functions_about_the_session_answer_from_its_facts() {
    assert!(ask("pgsql_version", &[]).starts_with("PostgreSQL 15.0 (Collie "));
    assert_eq!(ask("current_schema", &[]), "public");
    assert_eq!(ask("current_schemas", &[Value::Bool(true)]), "{pg_catalog,public}");
    assert_eq!(ask("current_schemas", &[Value::Bool(false)]), "{public}");
    assert_eq!(ask("show_config_by_name", &[Value::text("work_mem")]), "4MB");
    assert_eq!(ask("show_config_by_name_missing_ok", &[Value::text("nosuch"), Value::Bool(true)]), "NULL");
    assert!(ask("show_config_by_name", &[Value::text("nosuch")]).starts_with("42704"));
    assert_eq!(ask("set_config_by_name", &[Value::text("work_mem"), Value::text("8MB"), Value::Bool(false)]), "8MB");
    assert_eq!(ask("set_config_by_name", &[Value::text("work_mem"), Value::Null, Value::Bool(false)]), "4MB");
    assert!(ask("set_config_by_name", &[Value::Null, Value::Null, Value::Null]).starts_with("22004"));
    assert_eq!(ask("pg_get_userbyid", &[Value::Oid(10)]), "collie");
    assert_eq!(ask("pg_get_userbyid", &[Value::Oid(1)]), "unknown (OID=1)");
    assert_eq!(ask("PG_encoding_to_char", &[Value::Int4(6)]), "UTF8");
    assert_eq!(ask("PG_char_to_encoding", &[Value::text("utf-8")]), "6");
    assert_eq!(ask("pg_current_wal_lsn", &[]), "1/A0");
    assert_eq!(ask("pg_current_wal_flush_lsn", &[]), "0/20");
    assert_eq!(ask("collie_state_hash", &[]), "1/A0:000000000000002a");
    assert_eq!(ask("pg_current_xact_id", &[]), "NULL");
    assert_eq!(ask("pg_drop_replication_slot", &[Value::text("south")]), "");
    assert!(ask("pg_drop_replication_slot", &[Value::text("west")]).starts_with("42704"));
    for source in ["pg_cancel_backend", "pg_terminate_backend"] {
        assert_eq!(ask(source, &[Value::Int4(99)]), "f");
        assert_eq!(ask(source, &[Value::Int4(-1)]), "f");
        assert_eq!(ask(source, &[Value::Int4(9)]), "t");
    }
    assert_eq!(ask("pg_current_snapshot", &[]), "5:9:5,7");
    for (xid, status) in [(5, "in progress"), (6, "committed"), (8, "aborted"), (1, "NULL")] {
        assert_eq!(ask("pg_xact_status", &[Value::Int8(xid)]), status);
    }
    assert_eq!(ask("pg_xact_status", &[Value::Int8(9)]), "22023: transaction ID 9 is in the future");
    let (one, pair) = ([Value::Int8(1)], [Value::Int4(1), Value::Int4(-1)]);
    assert!(ask("pg_advisory_lock_int8", &one).starts_with("40P01"));
    assert_eq!(ask("pg_advisory_xact_lock_shared_int4", &pair), "");
    assert_eq!(ask("pg_try_advisory_lock_int8", &one), "f");
    assert_eq!(ask("pg_try_advisory_xact_lock_shared_int8", &one), "t");
    assert_eq!(ask("pg_advisory_unlock_int4", &pair), "t");
    assert_eq!(ask("pg_advisory_unlock_shared_int4", &pair), "f");
    assert_eq!(ask("pg_advisory_unlock_int8", &one), "f");
    assert_eq!(ask("pg_advisory_unlock_all", &[]), "");
    assert!(ask("pg_terminate_backend", &[Value::Int4(9), Value::Int8(1000)]).starts_with("0A000"));
    assert_eq!(ask("pg_blocking_pids", &[Value::Int4(9)]), "{7}");
    assert_eq!(ask("pg_blocking_pids", &[Value::Int4(-1)]), "{}");
    let among = |pids: &[i32]| Value::array(oid::INT4, pids.iter().copied().map(Value::Int4).collect());
    for (pid, pids, blocked) in [(9, &[1, 7][..], "t"), (9, &[1, 9], "f"), (9, &[], "f"), (7, &[7, 9], "f")] {
        let args = [Value::Int4(pid), among(pids)];
        assert_eq!(ask("pg_isolation_test_session_is_blocked", &args), blocked, "{pid} by {pids:?}");
    }
    assert_eq!(ask("nextval_oid", &[Value::Oid(ITEMS)]), "42809: \"items\" is not a sequence");
    assert_eq!(ask("pg_get_serial_sequence", &[Value::text("items"), Value::text("id")]), "NULL");
    assert!(ask("pg_get_serial_sequence", &[Value::text("items"), Value::text("gone")]).starts_with("42703"));
    let draw = || call(&shop(), "drandom", &[]).unwrap().as_f64().unwrap();
    let draws: Vec<f64> = (0..100).map(|_| draw()).collect();
    assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
    assert!(draws.windows(2).all(|pair| pair[0] != pair[1]));
}

/// Goal: sizes are estimates in whole pages that grow with the rows. Method: measures a table with indexes and one
/// without.
#[test]
fn sizes_are_whole_pages_and_add_up() {
    let size = |source: &str, oid: Oid| ask(source, &[Value::Oid(oid)]).parse::<u64>().unwrap();
    assert!(size("pg_table_size", ITEMS) >= 8192 && size("pg_table_size", ITEMS).is_multiple_of(8192));
    assert_eq!(size("pg_total_relation_size", ITEMS), size("pg_table_size", ITEMS) + size("pg_indexes_size", ITEMS));
    assert_eq!(size("pg_indexes_size", NOTES), 0);
    assert_eq!(size("pg_relation_size(regclass)", 1259), 0);
    assert_eq!(ask("pg_table_size", &[Value::Oid(99_999)]), "NULL");
    assert!(ask("pg_database_size_name", &[Value::text("other")]).starts_with("3D000"));
}

/// Goal: every function that `builtin` leaves to the session is known here, returns a value of its type, and does not
/// panic for odd arguments. Method: calls each with zeros, large numbers and names, and with NULL if it accepts NULL.
#[test]
fn every_function_left_to_the_session_is_answered() {
    let facts = shop();
    let argument = |ty: u32, variant: usize| match ty {
        oid::BOOL => Value::Bool(variant > 0),
        oid::INT2 => Value::Int2([0, 1, i16::MIN][variant]),
        oid::INT4 => Value::Int4([0, 1, i32::MIN][variant]),
        oid::INT8 => Value::Int8([0, 1, i64::MIN][variant]),
        oid::FLOAT8 => Value::Float8(0.0),
        _ if oid::is_oid_like(ty) => Value::Oid([0, ITEMS, u32::MAX][variant]),
        _ => Value::text(["", "items", "(\"\u{e9}[](,"][variant]),
    };
    let mut known = 0;
    for proc in builtin::procs() {
        for variant in 0..3 {
            let args: Vec<Value> = proc.arguments.iter().map(|&ty| argument(ty, variant)).collect();
            let nulls = vec![Value::Null; args.len()];
            let answers = match proc.implementation {
                Implementation::System(source) if proc.strict => vec![call(&facts, source, &args)],
                Implementation::System(source) => vec![call(&facts, source, &args), call(&facts, source, &nulls)],
                Implementation::SystemSet(source) => {
                    call_set(&facts, source, &args).unwrap().map(|row| row.map(|_| Value::Null)).collect()
                }
                _ => continue,
            };
            known += 1;
            for answer in answers {
                match answer {
                    Ok(Value::Null) => {}
                    Ok(value) => {
                        assert!(fits(&value, proc.result) || proc.result == oid::CSTRING, "{} {value:?}", proc.source)
                    }
                    Err(error) => assert!(!error.to_string().contains("the system function"), "{}", proc.source),
                }
            }
        }
    }
    assert!(known > 300);
    assert_eq!(call(&facts, "nosuch", &[]).unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
    assert!(call_set(&facts, "nosuch", &[]).is_err());
}

/// Goal: the views of the standard show the same tables. Method: compares with what PostgreSQL 15 shows of them.
#[test]
fn information_schema_shows_the_same_tables() {
    let facts = shop();
    let columns = |name: &str, keep: (&str, &str), columns: &[&str]| {
        read(&facts, &format!("information_schema.{name}"), keep, columns)
    };
    assert_eq!(
        columns(
            "columns",
            ("table_name", "items"),
            &[
                "column_name",
                "ordinal_position",
                "column_default",
                "is_nullable",
                "data_type",
                "character_maximum_length",
                "numeric_precision",
                "numeric_scale",
                "udt_name"
            ]
        ),
        [
            "id|1|NULL|NO|integer|NULL|32|0|int4",
            "price|2|0|YES|numeric|NULL|10|2|numeric",
            "Name|4|NULL|NO|character varying|10|NULL|NULL|varchar"
        ]
    );
    assert_eq!(
        columns("tables", ("table_schema", "public"), &["table_catalog", "table_name", "table_type"]),
        ["shop|items|BASE TABLE", "shop|My Notes|BASE TABLE"]
    );
    assert_eq!(
        columns("table_constraints", ("table_name", "items"), &["constraint_name", "constraint_type"]),
        ["items_pkey|PRIMARY KEY", "items_name_key|UNIQUE", "items_price_check|CHECK"]
    );
    assert_eq!(
        columns(
            "key_column_usage",
            ("", ""),
            &["constraint_name", "column_name", "ordinal_position", "position_in_unique_constraint"]
        ),
        ["items_pkey|id|1|NULL", "items_name_key|Name|1|NULL", "notes_item_fkey|item|1|1"]
    );
    assert_eq!(
        columns("constraint_column_usage", ("constraint_name", "notes_item_fkey"), &["table_name", "column_name"]),
        ["items|id"]
    );
}

/// Goal: locks show as in PostgreSQL. Method: one session holds a table, an advisory lock and an xid, and another waits
/// for a row of it and for its table; compares with what PostgreSQL 15 shows, except for the numbers that it does not
/// have.
#[test]
fn locks_show_as_in_postgresql() {
    let facts = shop();
    let columns = ["locktype", "relation", "transactionid", "classid", "objid", "objsubid", "mode", "granted"];
    assert_eq!(
        read(&facts, "pg_locks", ("pid", "7"), &columns),
        [
            "relation|16401|NULL|NULL|NULL|NULL|RowExclusiveLock|t",
            "advisory|NULL|NULL|1|2|1|ExclusiveLock|t",
            "virtualxid|NULL|NULL|NULL|NULL|NULL|ExclusiveLock|t",
            "transactionid|NULL|77|NULL|NULL|NULL|ExclusiveLock|t",
        ]
    );
    assert_eq!(
        read(&facts, "pg_locks", ("pid", "9"), &columns),
        [
            "virtualxid|NULL|NULL|NULL|NULL|NULL|ExclusiveLock|t",
            "tuple|16401|NULL|NULL|NULL|NULL|ExclusiveLock|t",
            "transactionid|NULL|77|NULL|NULL|NULL|ShareLock|f",
            "relation|16401|NULL|NULL|NULL|NULL|AccessExclusiveLock|f",
        ]
    );
}

/// Goal: roles, settings, sessions and views show the session. Method: reads one row of each.
#[test]
fn session_relations_show_the_session() {
    let facts = shop();
    assert_eq!(read(&facts, "pg_roles", ("", ""), &["oid", "rolname", "rolsuper"]), ["10|collie|t", "16383|ann|t"]);
    assert_eq!(read(&facts, "pg_database", ("", ""), &["datname", "encoding", "datallowconn"]), ["shop|6|t"]);
    assert_eq!(
        read(&facts, "pg_settings", ("", ""), &["name", "setting", "vartype", "context", "source"]),
        ["work_mem|4MB|integer|user|default", "server_version|4MB|string|internal|default"]
    );
    assert_eq!(
        read(
            &facts,
            "pg_stat_activity",
            ("", ""),
            &["pid", "usename", "client_addr", "client_port", "wait_event_type", "wait_event", "state", "backend_xid"]
        ),
        ["7|ann|127.0.0.1|4711|Client|ClientRead|idle|77", "9|ann|NULL|-1|Lock|transactionid|idle|NULL"]
    );
    assert_eq!(
        read(&facts, "collie_snapshots", ("", ""), &["pid", "snapshot", "rows_kept", "age_ms", "bytes_kept"]),
        ["7|1/0|3|2000|400"]
    );
    assert_eq!(
        read(
            &facts,
            "pg_replication_slots",
            ("", ""),
            &["slot_name", "slot_type", "active", "restart_lsn", "wal_status", "safe_wal_size", "database"]
        ),
        ["north|physical|t|0/20|reserved|900|NULL", "south|physical|f|NULL|lost|NULL|NULL"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_slots",
            ("", ""),
            &[
                "slot",
                "node",
                "state",
                "restart_lsn",
                "kept_bytes",
                "bytes_max",
                "unheard_ms",
                "age_max_ms",
                "expired_by",
                "problem"
            ]
        ),
        [
            "north|00000000000000ab|streaming|0/20|100|1000|5|3000|NULL|it is failing",
            "south|NULL|expired|NULL|0|1000|5|3000|age|NULL"
        ]
    );
    assert_eq!(
        read(
            &facts,
            "collie_replication_delay",
            ("", ""),
            &["slot", "commits", "p50_us", "p99_us", "max_us", "behind_bytes", "applied_lsn"]
        ),
        ["north|0|NULL|NULL|NULL|16|0/20", "north|9|10|20|30|16|0/20"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_node",
            ("", ""),
            &["role", "node", "term", "history_start", "durable_lsn", "commits", "problem"]
        ),
        ["replica|00000000000000ab|3|0/10|0/20|5|replay has stopped"]
    );
    assert_eq!(
        read(&facts, "collie_commits", ("", ""), &["commits", "aborts", "noted", "p50_us", "p99_us", "max_us"]),
        ["5|2|40|900|4000|4100"]
    );
    assert_eq!(
        read(&facts, "collie_health", ("", ""), &["severity", "subject", "reason"]),
        ["warning|slot|south is expired"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_training.reads",
            ("", ""),
            &[
                "side",
                "taken",
                "shipped",
                "run",
                "rows",
                "primary_rows",
                "spent_us",
                "late",
                "queue_full",
                "unfit",
                "unknown",
                "failed"
            ]
        ),
        ["primary|1|2|NULL|3|NULL|NULL|4|5|6|NULL|NULL", "replica|1|NULL|7|3|8|9|4|5|6|10|11"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_replication_delay",
            ("", ""),
            &["slot", "state", "commits", "mean_us", "p50_us", "p99_us", "max_us", "oldest_us", "behind_bytes"]
        ),
        ["north|catchup|0|NULL|NULL|NULL|NULL|7|16", "north|streaming|9|12|10|20|30|0|16"],
        "no commit is no delay of 0"
    );
    assert_eq!(
        read(
            &facts,
            "collie_replication",
            ("", ""),
            &["slot", "state", "delay_us", "delay_p50_us", "delay_p99_us", "delay_max_us", "delay_commits"]
        ),
        ["north|streaming|12|10|20|30|9", "south|away|NULL|NULL|NULL|NULL|NULL"]
    );
    assert_eq!(
        read(&facts, "collie_replication", ("", ""), &["measured_commits", "measured_us", "oldest_us"]),
        ["90|1000|0", "0|0|700"]
    );
    assert_eq!(read(&facts, "collie_node", ("", ""), &["aborts", "promised_term", "term_start"]), ["2|4|0/8"]);
    assert_eq!(
        read(
            &facts,
            "collie_quorum",
            ("", ""),
            &[
                "quorum",
                "state",
                "state_ms",
                "needed",
                "connected",
                "missing",
                "commits",
                "list_before",
                "until_lsn",
                "witness"
            ]
        ),
        ["ANY 1 (north, south)|degraded|700|1|1|south|unconfirmed||0/30|degraded"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_following",
            ("", ""),
            &["primary_address", "slot", "state", "state_ms", "unheard_ms", "primary_durable_lsn", "error"]
        ),
        ["127.0.0.1:5434|east|looking|900|1000|0/50|the connection was closed"]
    );
    assert_eq!(
        read(
            &facts,
            "collie_following",
            ("", ""),
            &["received_lsn", "applied_lsn", "lacked_bytes", "behind_bytes", "delay_us"]
        ),
        ["0/40|0/30|16|32|12"]
    );
    let columns = ["name", "statement", "parameter_types", "from_sql", "generic_plans", "custom_plans"];
    assert_eq!(read(&facts, "pg_prepared_statements", ("", ""), &columns), ["p|SELECT 1|{23}|f|2|0"]);
    assert_eq!(
        read(&facts, "pg_tables", ("schemaname", "Back Room"), &["tablename", "tableowner", "hasindexes"]),
        ["safe|collie|f"]
    );
    assert_eq!(read(&facts, "pg_stat_user_tables", ("relid", "16401"), &["schemaname", "n_live_tup"]), ["public|1000"]);
    assert_eq!(read(&facts, "pg_indexes", ("indexname", "items_pkey"), &["tablename"]), ["items"]);
}

/// Goal: the store's figures show as rows: a family with its writes and bytes, its flushes and their causes, its
/// tables;
/// the log with its length and limit, and the waits for it. Method: reads them of a small database with two families,
/// one
/// of which is written to, flushed by a call and by a checkpoint.
#[test]
fn store_relations_show_families_and_the_log() {
    let facts = shop();
    let columns = [
        "name",
        "rows",
        "inserts",
        "writes",
        "user_bytes",
        "unflushed_rows",
        "flushes",
        "flushes_by_call",
        "flushes_by_checkpoint",
        "rows_flushed",
        "relogs",
        "stalls",
        "tree",
        "tables",
        "runs",
        "relid",
    ];
    let read = |name: &str, keep, columns: &[&str]| read(&facts, name, keep, columns);
    // "a" and "value", twice, "b" and "c": four times six bytes.
    assert_eq!(read("collie_stat_families", ("name", "one"), &columns), ["one|3|3|1|24|0|2|1|1|3|0|0|1|1|1|NULL"]);
    assert_eq!(read("collie_stat_families", ("name", "two"), &columns[..6]), ["two|0|0|0|0|0"]);
    let columns =
        ["durable", "visible", "bytes_limit", "oldest_family", "writers_waiting", "writes_stopped", "flushes_failed"];
    assert_eq!(read("collie_stat_log", ("", ""), &columns), ["0/2000|0/3000|1000|NULL|0|0|0"]);
    let columns = ["trees_written_anew", "flush_error", "stall_cause"];
    assert_eq!(read("collie_stat_log", ("", ""), &columns), ["0|NULL|NULL"]);
}
