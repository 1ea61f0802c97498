//! The positions and codes of errors.

use super::{check_error, failure};
use crate::error::SqlState;
use crate::parse::{TEXT_BYTES_MAX, statements};

/// Goal: syntax errors have PostgreSQL's messages and positions. Method: compares messages and offsets, also after
/// characters of several bytes and in the second statement.
#[test]
fn syntax_errors_name_the_token_and_point_at_it() {
    let cases = [
        ("selec 1", "syntax error at or near \"selec\"", Some(0)),
        ("select 1 from", "syntax error at end of input", Some(13)),
        ("select * frm t", "syntax error at or near \"frm\"", None),
        ("select 1; select 2 2", "syntax error at or near \"2\"", Some(19)),
        ("select '\u{e4}\u{20ac}' 1", "syntax error at or near \"1\"", Some(15)),
        ("select 'x", "unterminated quoted string at or near \"'x\"", Some(7)),
        ("select /* x", "unterminated /* comment at or near \"/* x\"", Some(7)),
        ("select 1 limit 1,2", "LIMIT #,# syntax is not supported", Some(9)),
        ("select \"\"", "zero-length delimited identifier at or near \"\"\"\"", Some(7)),
        ("select * from (select 1)", "subquery in FROM must have an alias", Some(14)),
    ];
    for (text, message, position) in cases {
        let error = failure(text);
        assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{text}: {error}");
        assert_eq!(error.report().message, message);
        if position.is_some() {
            assert_eq!(error.report().position, position, "{text}");
        }
    }
}

/// Goal: a clause that is not built is refused and named, never ignored (SQL-1). Method: one text per refusal that is
/// easy
/// to reach, with the position of its error.
#[test]
fn clauses_without_a_place_in_the_tree_are_refused() {
    let cases = [
        ("select 1 into t", Some(14)),
        ("select sum(a) over (order by b) from t", Some(19)),
        ("select sum(a) over w from t window w as (order by b)", None),
        ("select a from t group by distinct a", None),
        ("select a from t group by rollup (a)", Some(25)),
        ("select a from t group by ()", Some(25)),
        ("select grouping(a) from t", Some(7)),
        ("select percentile_cont(0.5) within group (order by a) from t", Some(7)),
        ("select f(a => 1)", Some(9)),
        ("select b'101'", Some(7)),
        ("select x'1F'", Some(7)),
        ("select 0x1F", Some(7)),
        ("select 1_000", Some(7)),
        ("select -0b1", Some(7)),
        ("select xmlelement(name a)", Some(7)),
        ("select a is json from t", Some(7)),
        ("select json_object('a': 1)", Some(7)),
        ("select * from t tablesample system (10)", Some(28)),
        ("select * from rows from (f(), g()) x", None),
        ("select * from f() as x(a int)", Some(14)),
        ("with t as (select 1) search depth first by a set b select * from t", Some(21)),
        ("with x as (merge into t using u on true when matched then do nothing) select 1", Some(5)),
        ("insert into t values (1) returning with (old as o) o.a", None),
        ("create temp table t (a int)", Some(18)),
        ("create temporary table t (a int)", Some(23)),
        ("create unlogged table t (a int)", Some(22)),
        ("create table t (like u)", Some(21)),
        ("create table t (a int) inherits (u)", Some(13)),
        ("create table t partition of u default", Some(13)),
        ("create table t (a int) partition by list (a)", Some(13)),
        ("create table t (a int) tablespace x", Some(13)),
        ("create table t (a int) using heap2", Some(13)),
        ("create table t (a int storage plain)", Some(16)),
        ("create table t (a int compression pglz)", Some(16)),
        ("create table t (a int check (a > 0) no inherit)", Some(22)),
        ("create table t (a int check (a > 0) not enforced)", None),
        ("create table t (a int, not null a)", Some(23)),
        ("create table t (a int, exclude (a with =))", Some(23)),
        ("create table t (a int generated always as (1) virtual)", Some(22)),
        ("create table t of x", Some(13)),
        ("create table t as select 1", Some(0)),
        ("create view v as select 1", Some(0)),
        ("create index on t (a) tablespace x", Some(16)),
        ("create index on t (a x (p = 1))", None),
        ("alter table t owner to x", None),
        ("alter table t enable row level security", None),
        ("alter table t cluster on i", None),
        ("alter sequence s restart", Some(0)),
        ("  create function f() returns int language sql as ''", Some(2)),
        ("select 1; create trigger a before insert on t execute function f()", Some(10)),
        ("create extension x", Some(0)),
        ("create role x", Some(0)),
        ("create sequence s", Some(0)),
        ("create type t as enum ('a')", Some(0)),
        ("create database x", Some(0)),
        ("comment on table t is 'x'", Some(0)),
        ("grant select on t to x", Some(0)),
        ("listen x", Some(0)),
        ("do 'x'", Some(0)),
        ("call p()", Some(0)),
        ("call other.collie_checkpoint('/x')", Some(0)),
        ("call collie_checkpoint()", Some(5)),
        ("call collie_checkpoint(1)", Some(5)),
        ("call collie_checkpoint('/x', true, 1)", Some(5)),
        ("call collie_set_option('wal.max_total_wal_size')", Some(5)),
        ("call collie_set_option('wal.max_total_wal_size', 1)", Some(5)),
        ("merge into t using u on true when matched then do nothing", Some(0)),
        ("drop function f()", Some(0)),
        ("drop type t", Some(0)),
        ("set transaction snapshot 'x'", None),
        ("set time zone interval '1' hour", None),
        ("reindex table t", Some(0)),
        ("cluster t", Some(0)),
        ("explain create table t as select 1", None),
        ("create schema s create table t (a int)", Some(0)),
        ("create schema authorization current_user", Some(28)),
    ];
    let mut wrong = Vec::new();
    for (text, position) in cases {
        let error = failure(text);
        let found = error.report().position;
        if error.state() != SqlState::FEATURE_NOT_SUPPORTED
            || found.is_none()
            || (position.is_some() && found != position)
        {
            wrong.push(format!("{text}: {error:?} at {found:?}, expected {position:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: the refusal names the refused statement. Method: compares the messages of statements with several words.
#[test]
fn refused_statements_are_named() {
    let cases = [
        ("create or replace function f() returns int language sql as ''", "CREATE FUNCTION is not supported"),
        ("create materialized view v as select 1", "CREATE MATERIALIZED VIEW is not supported"),
        ("comment on table t is 'x'", "COMMENT is not supported"),
        ("/* c */ grant select on t to x", "GRANT is not supported"),
        ("alter sequence s restart", "ALTER SEQUENCE is not supported"),
        ("drop function f()", "DROP FUNCTION is not supported"),
        ("create table t as select 1", "CREATE TABLE is not supported"),
        ("alter table t cluster on i", "ALTER TABLE command CLUSTER ON is not supported"),
    ];
    for (text, message) in cases {
        assert_eq!(failure(text).report().message, message);
    }
}

/// Goal: messages of the grammar that are not syntax errors carry their own code. Method: one text each.
#[test]
fn grammar_messages_carry_postgresql_codes() {
    check_error("create assertion a check (true)", SqlState::FEATURE_NOT_SUPPORTED, Some(0));
    check_error("select a::float(0) from t", SqlState::INVALID_PARAMETER_VALUE, Some(16));
    check_error("create table t (a int references b match partial)", SqlState::FEATURE_NOT_SUPPORTED, Some(35));
    check_error("create table t (a int deferrable)", SqlState::SYNTAX_ERROR, Some(22));
    check_error("select \"not supported\" from from", SqlState::SYNTAX_ERROR, Some(28));
    check_error("select 'a\0b'", SqlState::CHARACTER_NOT_IN_REPERTOIRE, Some(9));
}

/// Goal: text beyond the limit is refused before it is parsed. Method: one byte more than the limit.
#[test]
fn text_above_the_limit_is_refused() {
    let text = " ".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(statements(&text).unwrap_err().state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
}
