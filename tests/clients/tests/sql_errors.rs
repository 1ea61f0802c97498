//! Wrong SQL: SQLSTATE, message and position of the error, as a driver receives them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use collie_clients_tests::{Server, message, position, state};
use postgres::Client;

fn ready(server: &Server) -> Client {
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, name varchar(5) NOT NULL, n int CHECK (n > 0), u int UNIQUE);
             INSERT INTO t VALUES (1, 'one', 1, 1)",
        )
        .unwrap();
    client
}

/// Runs wrong statements and compares SQLSTATE, position (0: none) and a part of the message.
fn check(client: &mut Client, cases: &[(&str, &str, u32, &str)]) {
    let mut wrong = Vec::new();
    for (sql, expected, at, text) in cases {
        match client.simple_query(sql) {
            Ok(_) => wrong.push(format!("{sql}: succeeded, expected {expected}")),
            Err(error) => {
                let found = (state(&error), position(&error).unwrap_or(0), message(&error));
                if found.0 != *expected || found.1 != *at || !found.2.contains(text) {
                    wrong.push(format!("{sql}: {found:?}, expected {expected} at {at}: {text}"));
                }
            }
        }
        let alive = client.simple_query("SELECT 1");
        assert!(alive.is_ok(), "after {sql}: {alive:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: mistakes in names and grammar are reported with SQLSTATE and position. Method: a table of statements.
#[test]
fn mistakes_in_names_and_grammar_have_code_and_position() {
    let server = Server::fresh();
    check(
        &mut ready(&server),
        &[
            ("SELEC 1", "42601", 1, "syntax error at or near \"SELEC\""),
            ("SELECT 1 FROM", "42601", 14, "syntax error at end of input"),
            ("SELECT 'open", "42601", 8, "unterminated quoted string"),
            ("SELECT * FROM nowhere", "42P01", 15, "relation \"nowhere\" does not exist"),
            ("SELECT * FROM s.t", "42P01", 15, "relation \"s.t\" does not exist"),
            ("CREATE TABLE s.t (n int)", "3F000", 14, "schema \"s\" does not exist"),
            ("SELECT nme FROM t", "42703", 8, "column \"nme\" does not exist"),
            ("SELECT x.id FROM t", "42P01", 8, "missing FROM-clause entry for table \"x\""),
            ("SELECT id FROM t a, t b", "42702", 8, "column reference \"id\" is ambiguous"),
            ("SELECT * FROM t, t", "42712", 0, "table name \"t\" specified more than once"),
            ("SELECT nothing(1)", "42883", 8, "function nothing(integer) does not exist"),
            ("SELECT 1 + true", "42883", 10, "operator does not exist: integer + boolean"),
            ("SELECT 'a' LIKE 1", "42883", 12, "operator does not exist"),
            ("SELECT 1::nothing", "42704", 11, "type \"nothing\" does not exist"),
            ("INSERT INTO t (id, nope) VALUES (1, 2)", "42703", 20, "column \"nope\" of relation \"t\" does not exist"),
            ("INSERT INTO t (id, id) VALUES (1, 2)", "42701", 20, "column \"id\" specified more than once"),
            ("INSERT INTO t VALUES (1, 'a', 1, 1, 1)", "42601", 37, "INSERT has more expressions than target columns"),
            ("INSERT INTO t (id, name) VALUES (1)", "42601", 20, "INSERT has more target columns than expressions"),
            (
                "INSERT INTO t (id) VALUES (true)",
                "42804",
                28,
                "column \"id\" is of type integer but expression is of type boolean",
            ),
            ("UPDATE t SET nope = 1", "42703", 14, "column \"nope\" of relation \"t\" does not exist"),
            ("SELECT * FROM t WHERE id", "42804", 23, "argument of WHERE must be type boolean"),
            (
                "SELECT CASE WHEN true THEN 1 ELSE 'x'::text END",
                "42804",
                28,
                "CASE types text and integer cannot be matched",
            ),
            ("SELECT 1 UNION SELECT 'x'::text", "42804", 23, "UNION types integer and text cannot be matched"),
            ("SELECT 1, 2 UNION SELECT 1", "42601", 26, "each UNION query must have the same number of columns"),
            ("SELECT name, count(*) FROM t", "42803", 8, "must appear in the GROUP BY clause"),
            ("SELECT * FROM t WHERE count(*) > 1", "42803", 23, "aggregate functions are not allowed in WHERE"),
            ("SELECT sum(count(*)) FROM t", "42803", 12, "aggregate function calls cannot be nested"),
            ("SELECT 1 ORDER BY 2", "42P10", 19, "ORDER BY position 2 is not in select list"),
            ("SELECT (SELECT 1, 2)", "42601", 8, "subquery must return only one column"),
            ("SELECT now(1)", "42883", 8, "function now(integer) does not exist"),
            ("SELECT $1", "42P02", 8, "there is no parameter $1"),
            ("CREATE TABLE t (n int)", "42P07", 0, "relation \"t\" already exists"),
            ("CREATE TABLE d (n int, n text)", "42701", 0, "column \"n\" specified more than once"),
            ("CREATE TABLE d (n nothing)", "42704", 19, "type \"nothing\" does not exist"),
            ("CREATE TABLE d (n int PRIMARY KEY, m int PRIMARY KEY)", "42P16", 42, "multiple primary keys"),
            ("CREATE INDEX i ON t (nope)", "42703", 0, "column \"nope\" does not exist"),
            ("DROP TABLE nowhere", "42P01", 0, "table \"nowhere\" does not exist"),
            ("DROP INDEX nowhere", "42704", 0, "index \"nowhere\" does not exist"),
            ("ALTER TABLE nowhere ADD PRIMARY KEY (id)", "42P01", 0, "relation \"nowhere\" does not exist"),
            ("SET nothing = 1", "42704", 0, "unrecognized configuration parameter \"nothing\""),
            ("SHOW nothing", "42704", 0, "unrecognized configuration parameter \"nothing\""),
            ("EXECUTE nothing", "26000", 0, "prepared statement \"nothing\" does not exist"),
            ("ROLLBACK TO s", "25P01", 0, "ROLLBACK TO SAVEPOINT can only be used in transaction blocks"),
            ("SAVEPOINT s", "25P01", 0, "SAVEPOINT can only be used in transaction blocks"),
        ],
    );
}

/// Goal: invalid values are reported with their SQLSTATE. Method: a table of statements.
#[test]
fn values_that_cannot_be_have_their_code() {
    let server = Server::fresh();
    check(
        &mut ready(&server),
        &[
            ("SELECT 1 / 0", "22012", 0, "division by zero"),
            ("SELECT 1 % 0", "22012", 0, "division by zero"),
            ("SELECT 1.0 / 0", "22012", 0, "division by zero"),
            ("SELECT 1::float8 / 0", "22012", 0, "division by zero"),
            ("SELECT 2147483647 + 1", "22003", 0, "integer out of range"),
            ("SELECT 9223372036854775807 + 1", "22003", 0, "bigint out of range"),
            ("SELECT (-32768)::int2 * (-1)::int2", "22003", 0, "smallint out of range"),
            ("SELECT 1e308::float8 * 10", "22003", 0, "value out of range: overflow"),
            ("SELECT 3000000000::int", "22003", 0, "integer out of range"),
            ("SELECT '99999999999'::int", "22003", 8, "value \"99999999999\" is out of range for type integer"),
            ("SELECT 1000::numeric(3,0)", "22003", 0, "numeric field overflow"),
            ("SELECT 'seven'::int", "22P02", 8, "invalid input syntax for type integer: \"seven\""),
            ("SELECT 'x'::bool", "22P02", 8, "invalid input syntax for type boolean: \"x\""),
            ("SELECT '1.2.3'::numeric", "22P02", 8, "invalid input syntax for type numeric: \"1.2.3\""),
            ("SELECT '2001-02-30'::date", "22008", 8, "date/time field value out of range: \"2001-02-30\""),
            ("SELECT 'soon'::timestamp", "22007", 8, "invalid input syntax for type timestamp: \"soon\""),
            ("SELECT sqrt(-1)", "2201F", 0, "cannot take square root of a negative number"),
            ("SELECT ln(0)", "2201E", 0, "cannot take logarithm of zero"),
            ("SELECT substring('abc', 1, -1)", "22011", 0, "negative substring length not allowed"),
            ("SELECT 1 LIMIT -1", "2201W", 0, "LIMIT must not be negative"),
            (
                "SELECT (SELECT n FROM generate_series(1, 2) n)",
                "21000",
                0,
                "more than one row returned by a subquery used as an expression",
            ),
            ("SELECT generate_series FROM generate_series(1, 5, 0)", "22023", 0, "step size cannot equal zero"),
            ("SELECT 'a' ~ '('", "2201B", 0, "invalid regular expression"),
        ],
    );
}

/// Goal: the error of a violated constraint names the constraint. Method: a table of statements; then the fields that
/// drivers read; the rows are unchanged.
#[test]
fn constraints_name_table_column_and_constraint() {
    let server = Server::fresh();
    let mut client = ready(&server);
    check(
        &mut client,
        &[
            ("INSERT INTO t VALUES (1, 'x')", "23505", 0, "duplicate key value violates unique constraint \"t_pkey\""),
            (
                "INSERT INTO t VALUES (2, 'x', 1, 1)",
                "23505",
                0,
                "duplicate key value violates unique constraint \"t_u_key\"",
            ),
            (
                "INSERT INTO t VALUES (2, NULL)",
                "23502",
                0,
                "null value in column \"name\" of relation \"t\" violates not-null constraint",
            ),
            ("INSERT INTO t (name) VALUES ('x')", "23502", 0, "null value in column \"id\""),
            (
                "INSERT INTO t VALUES (2, 'x', -1)",
                "23514",
                0,
                "new row for relation \"t\" violates check constraint \"t_n_check\"",
            ),
            ("UPDATE t SET n = 0", "23514", 0, "t_n_check"),
            ("INSERT INTO t VALUES (2, 'toolong')", "22001", 0, "value too long for type character varying(5)"),
            (
                "ALTER TABLE t ADD CHECK (id > 100)",
                "23514",
                0,
                "check constraint \"t_id_check\" of relation \"t\" is violated by some row",
            ),
            ("INSERT INTO t VALUES (2, 'two', 1, 2), (3, 'three', 1, 3), (2, 'again', 1, 4)", "23505", 0, "t_pkey"),
        ],
    );
    let error = client.batch_execute("INSERT INTO t VALUES (2, 'x', 1, 1)").unwrap_err();
    let fields = error.as_db_error().unwrap();
    assert_eq!(fields.detail(), Some("Key (u)=(1) already exists."));
    assert_eq!((fields.schema(), fields.table(), fields.constraint()), (Some("public"), Some("t"), Some("t_u_key")));
    let error = client.batch_execute("INSERT INTO t VALUES (2, NULL)").unwrap_err();
    let fields = error.as_db_error().unwrap();
    assert_eq!(fields.detail(), Some("Failing row contains (2, null, null, null)."));
    assert_eq!((fields.table(), fields.column()), (Some("t"), Some("name")));
    let error = client.batch_execute("INSERT INTO t VALUES (2, 'x', -1)").unwrap_err();
    assert_eq!(error.as_db_error().unwrap().constraint(), Some("t_n_check"));
    let left: i64 = client.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert_eq!(left, 1, "a failed statement leaves nothing");
}

/// Goal: unsupported features are refused with 0A000 and their name; none is silently ignored. Method: a table of
/// clauses and objects.
#[test]
fn what_is_not_built_is_refused_by_name() {
    let server = Server::fresh();
    let mut client = ready(&server);
    let cases = [
        ("CREATE TABLE c (n int REFERENCES t (id) MATCH PARTIAL)", "MATCH PARTIAL"),
        ("SELECT row_number() OVER () FROM t", "window function"),
        ("SELECT sum(n) OVER (PARTITION BY id) FROM t", "window function"),
        ("CREATE VIEW v AS SELECT 1", "VIEW"),
        ("CREATE SEQUENCE s", "SEQUENCE"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "FUNCTION"),
        ("CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f()", "TRIGGER"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "MATERIALIZED VIEW"),
        ("CREATE TABLE p (n int) PARTITION BY RANGE (n)", "PARTITION"),
        ("CREATE TEMP TABLE x (n int)", "temporary"),
        ("CREATE UNLOGGED TABLE x (n int)", "unlogged"),
        ("CREATE TABLE x (n int) INHERITS (t)", "INHERITS"),
        ("CREATE EXTENSION x", "EXTENSION"),
        ("CREATE DATABASE other", "DATABASE"),
        ("CREATE ROLE bob", "ROLE"),
        ("LISTEN x", "LISTEN"),
        ("MERGE INTO t USING t s ON false WHEN MATCHED THEN DO NOTHING", "MERGE"),
        ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r", "WITH RECURSIVE"),
        ("SELECT count(*) FROM t GROUP BY GROUPING SETS ((id), ())", "grouping set"),
        ("SELECT * FROM t TABLESAMPLE SYSTEM (1)", "TABLESAMPLE"),
        ("PREPARE TRANSACTION 'x'", "two-phase commit"),
        ("CREATE INDEX i ON t USING hash (n)", "hash"),
    ];
    let mut wrong = Vec::new();
    for (sql, name) in cases {
        match client.simple_query(sql) {
            Ok(_) => {
                let _ = client.simple_query("ROLLBACK");
                wrong.push(format!("{sql}: succeeded"));
            }
            Err(error) => {
                let (code, text) = (state(&error), message(&error));
                assert!(client.simple_query("SELECT 1").is_ok(), "{sql}: the session is in a failed block after it");
                if code != "0A000" || !text.to_lowercase().contains(&name.to_lowercase()) {
                    wrong.push(format!("{sql}: {code} {text}, expected 0A000 with {name}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: a failed transaction refuses all statements until it ends. Method: 25P02 for queries, then ROLLBACK; COMMIT
/// rolls back.
#[test]
fn failed_transaction_refuses_statements_until_its_end() {
    let server = Server::fresh();
    let mut client = ready(&server);
    client.batch_execute("BEGIN; INSERT INTO t VALUES (5, 'five')").unwrap();
    assert_eq!(state(&client.batch_execute("SELECT 1/0").unwrap_err()), "22012");
    for sql in ["SELECT 1", "INSERT INTO t VALUES (6, 'six')", "SAVEPOINT s", "CREATE TABLE x (n int)", "SHOW timezone"]
    {
        let error = client.batch_execute(sql).unwrap_err();
        assert_eq!(state(&error), "25P02", "{sql}");
        assert_eq!(message(&error), "current transaction is aborted, commands ignored until end of transaction block");
    }
    assert_eq!(state(&client.query("SELECT $1::int", &[&1_i32]).unwrap_err()), "25P02");
    client.batch_execute("COMMIT").unwrap();
    let count: i64 = client.query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert_eq!(count, 1, "COMMIT of a failed transaction is a rollback");
}
