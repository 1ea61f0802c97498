//! The statement shapes of pgbench, psql, go-tpc, sysbench, drivers and ORMs, rewritten.

use super::{one, statements};
use crate::parse::ast::*;

/// Goal: statements that real clients send are accepted. Method: one statement of each known shape.
#[test]
fn statements_of_known_clients_are_accepted() {
    let shapes = [
        // pgbench
        "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
        "create table pgbench_history(tid int,bid int,aid int,delta int,mtime timestamp,filler char(22))",
        "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)",
        "begin",
        "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
        "copy pgbench_accounts from stdin with (freeze on)",
        "copy pgbench_accounts from stdin",
        "vacuum analyze pgbench_branches",
        "vacuum pgbench_tellers",
        "alter table pgbench_branches add primary key (bid)",
        "alter table pgbench_tellers add constraint pgbench_tellers_bid_fkey foreign key (bid) references pgbench_branches",
        "UPDATE pgbench_accounts SET abalance = abalance + -936 WHERE aid = 62513;",
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (7, 1, 10, -936, CURRENT_TIMESTAMP);",
        "select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c \
         join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) \
         cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) \
         left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) \
         left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) \
         where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc limit 1",
        // psql
        "SELECT n.nspname as \"Schema\", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as \"Type\", \
         pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" FROM pg_catalog.pg_class c \
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r','p','') AND n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema' \
         AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;",
        "SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default",
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
         (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d \
          WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef), a.attnotnull \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16384' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        "SELECT conname, conrelid::pg_catalog.regclass AS ontable FROM pg_catalog.pg_constraint c WHERE \
         confrelid IN (SELECT pg_catalog.pg_partition_ancestors('1') UNION ALL VALUES ('1'::pg_catalog.regclass))",
        // go-tpc
        "BEGIN READ WRITE",
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = $1 AND c_w_id = w_id",
        "SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN ($1,$2,$3,$4,$5)",
        "SELECT s_i_id, s_quantity FROM stock WHERE (s_w_id, s_i_id) IN (($1,$2),($3,$4)) FOR UPDATE",
        "UPDATE district SET d_next_o_id = $1 + 1 WHERE d_id = $2 AND d_w_id = $3",
        "DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN ((1,2,3),(4,5,6))",
        "SELECT no_o_id FROM new_order WHERE no_w_id = $1 ORDER BY no_o_id ASC LIMIT 1 FOR UPDATE",
        "SELECT /*+ TIDB_INLJ(a) */ COUNT(DISTINCT (s_i_id)) stock_count FROM order_line, stock \
         WHERE ol_o_id >= $4 - 20 AND s_quantity < $5",
        "SELECT count(*) FROM (SELECT sum(ol) x, o FROM t GROUP BY o) d LEFT JOIN u a ON a.k = d.x AND a.l = d.o AND a.m = 1",
        "SELECT 1 FROM t a WHERE a.x <> (SELECT coalesce(sum(b.y), 0) FROM u b WHERE b.k = a.k)",
        // sysbench
        "CREATE TABLE sbtest1(id SERIAL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, PRIMARY KEY (id))",
        "CREATE INDEX k_1 ON sbtest1(k)",
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c",
        "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND 100",
        "COMMIT",
        // Drivers and ORMs
        "INSERT INTO t (a, b) VALUES ($1, $2) RETURNING *",
        "SELECT * FROM t WHERE id = ANY($1)",
        "INSERT INTO t(a) VALUES (1) ON CONFLICT (a) DO UPDATE SET b = excluded.b WHERE t.b <> excluded.b",
        "INSERT INTO t (a, b) SELECT x.a::int, x.b::text FROM (VALUES ($1, $2), ($3, $4)) AS x(a, b)",
        "SAVEPOINT s1",
        "ROLLBACK TO SAVEPOINT s1",
        "RELEASE SAVEPOINT s1",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET extra_float_digits = 3",
        "SET application_name = 'x'",
        "SHOW TRANSACTION ISOLATION LEVEL",
        "WITH RECURSIVE tree(oid, depth) AS (SELECT $1::oid, 0 UNION ALL SELECT t.typelem, depth + 1 FROM pg_type t, tree) \
         SELECT * FROM tree",
        "COPY t (a, b) TO STDOUT (FORMAT binary)",
        "ALTER TABLE a ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES b (id) DEFERRABLE INITIALLY DEFERRED",
        "CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n numeric(10, 2) CHECK (n > 0))",
        "DISCARD ALL",
        "DEALLOCATE ALL",
    ];
    for shape in shapes {
        one(shape);
    }
}

/// Goal: an empty query gives no statement. Method: the ping of Go's lib/pq, comments, whitespace.
#[test]
fn texts_without_a_statement_give_none() {
    for text in ["", ";", " ;; ", "-- nothing", "/* a /* nested */ one */ ;", "\n\t"] {
        assert_eq!(statements(text).unwrap(), [], "{text:?}");
    }
}

/// Goal: each statement of a text gets its own byte range. Method: three statements among comments and whitespace.
#[test]
fn ranges_hold_each_statement_without_its_semicolon() {
    let text = " select 1 ; /* c */ begin; -- d\n commit  ";
    let parsed = statements(text).unwrap();
    let written: Vec<_> = parsed.iter().map(|statement| &text[statement.range.clone()]).collect();
    assert_eq!(written, ["select 1", "begin", "commit"]);
}

/// Goal: a load of many rows is one VALUES list. Method: an INSERT of 1,024 rows, as go-tpc sends it.
#[test]
fn insert_of_many_rows_keeps_every_row() {
    let rows: Vec<_> = (0..1024).map(|row| format!("({row}, 'name', {row}.50, now())")).collect();
    let Stmt::Insert(insert) = one(&format!("INSERT INTO item (a, b, c, d) VALUES {}", rows.join(", "))) else {
        panic!("not an INSERT");
    };
    let InsertSource::Query(query) = insert.source else { panic!("no query") };
    let SelectBody::Values(values) = query.body else { panic!("not VALUES") };
    assert_eq!((values.len(), insert.columns.len()), (1024, 4));
}
