//! psql, unmodified, on the real server: the commands that people type in their first ten minutes.
//!
//! The tests compare psql's output with that of PostgreSQL 15; they do not check the catalogs row by row.

use collie_clients_tests::{Psql, Server};

const TABLES: &str = "
    CREATE TABLE customer (id int PRIMARY KEY, name varchar(20) NOT NULL, balance numeric(12,2) DEFAULT 0,
                           born date, CONSTRAINT rich CHECK (balance >= 0), UNIQUE (name));
    CREATE INDEX customer_born ON customer (born);
    CREATE TABLE note (line text);
    INSERT INTO customer VALUES (1, 'Ada', 12.50, '1815-12-10'), (2, 'Edgar', NULL, NULL);
";

fn ready() -> Server {
    let server = Server::fresh();
    Psql::new(&server).script(&["-q"], TABLES).ok();
    server
}

/// Goal: `\dt` lists tables. Method: compare with PostgreSQL's own output.
#[test]
fn dt_lists_the_tables_of_the_search_path() {
    let server = ready();
    let out = Psql::new(&server).script(&[], "\\dt\n").ok();
    assert_eq!(
        out,
        "         List of relations\n Schema |   Name   | Type  | Owner  \n--------+----------+-------+--------\n \
         public | customer | table | collie\n public | note     | table | collie\n(2 rows)\n\n"
    );
    let one = Psql::new(&server).script(&["-A", "-t"], "\\dt cust*\n").ok();
    assert_eq!(one, "public|customer|table|collie\n");
    let none = Psql::new(&server).script(&[], "\\dt nothing\n");
    assert_eq!(none.err, "Did not find any relation named \"nothing\".\n");
}

/// Goal: `\d table` shows columns, defaults, indexes and checks. Method: compare with PostgreSQL's own output.
#[test]
fn d_describes_a_table_with_its_indexes_and_checks() {
    let server = ready();
    let out = Psql::new(&server).script(&[], "\\d customer\n").ok();
    assert_eq!(
        out,
        r#"                     Table "public.customer"
 Column  |         Type          | Collation | Nullable | Default 
---------+-----------------------+-----------+----------+---------
 id      | integer               |           | not null | 
 name    | character varying(20) |           | not null | 
 balance | numeric(12,2)         |           |          | 0
 born    | date                  |           |          | 
Indexes:
    "customer_pkey" PRIMARY KEY, btree (id)
    "customer_born" btree (born)
    "customer_name_key" UNIQUE CONSTRAINT, btree (name)
Check constraints:
    "rich" CHECK (balance >= 0::numeric)

"#
    );
    let plain = Psql::new(&server).script(&["-A", "-t"], "\\d note\n").ok();
    assert_eq!(plain, "line|text|||\n");
    // \d alone lists relations, \d of an index describes it, and \d+ has more columns.
    let list = Psql::new(&server).script(&["-A", "-t"], "\\d\n").ok();
    assert_eq!(list, "public|customer|table|collie\npublic|note|table|collie\n");
    let index = Psql::new(&server).script(&[], "\\d customer_born\n").ok();
    assert!(index.trim_start().starts_with("Index \"public.customer_born\"\n"), "{index}");
    assert!(index.contains("btree, for table \"public.customer\""), "{index}");
    let more = Psql::new(&server).script(&[], "\\d+ customer\n").ok();
    assert!(more.contains("Storage") && more.contains("Access method: "), "{more}");
}

/// Goal: `\di`, `\l`, `\dn`, `\du`, `\dT`, `\df`, `\conninfo` and `\encoding` work. Method: compare the output, or
/// look for the rows.
#[test]
fn other_listings_show_indexes_databases_schemas_and_roles() {
    let server = ready();
    let psql = Psql::new(&server);
    assert_eq!(
        psql.script(&["-A", "-t"], "\\di\n").ok(),
        "public|customer_born|index|collie|customer\npublic|customer_name_key|index|collie|customer\n\
         public|customer_pkey|index|collie|customer\n"
    );
    let databases = psql.script(&["-A", "-t"], "\\l\n").ok();
    assert!(databases.lines().any(|line| line.starts_with("collie|collie|UTF8|C|C|")), "{databases}");
    let schemas = psql.script(&["-A", "-t"], "\\dn\n").ok();
    assert!(schemas.lines().any(|line| line.starts_with("public|")), "{schemas}");
    let roles = psql.script(&["-A", "-t"], "\\du\n").ok();
    assert!(roles.lines().any(|line| line.starts_with("collie|Superuser")), "{roles}");
    let connection = psql.script(&[], "\\conninfo\n").ok();
    assert!(connection.starts_with("You are connected to database \"collie\" as user \"collie\""), "{connection}");
    assert_eq!(psql.script(&[], "\\encoding\n").ok(), "UTF8\n");
    psql.script(&[], "\\dv\n\\ds\n\\dm\n\\df\n\\dT\n\\dp\n\\dx\n\\db\n\\dg\n\\do\n\\dC\n\\drds\n").ok();
}

/// Goal: results are printed as with PostgreSQL: alignment, NULL, row count, tags, `\x`, `\timing`. Method: one script,
/// exact output.
#[test]
fn results_nulls_tags_and_timing_are_printed_as_always() {
    let server = ready();
    let psql = Psql::new(&server);
    let out = psql
        .script(
            &["-P", "null=(null)"],
            "SELECT id, name, balance, born FROM customer ORDER BY id;\nSELECT 'two\nlines' AS text, NULL::int AS n;\n\
             INSERT INTO note VALUES ('a'), ('b');\nUPDATE note SET line = line || '!';\nDELETE FROM note WHERE line = 'a!';\n\
             BEGIN;\nCOMMIT;\nSELECT 1 WHERE false;\n\\x\nSELECT id, born FROM customer WHERE id = 2;\n",
        )
        .ok();
    assert_eq!(
        out,
        " id | name  | balance |    born    \n----+-------+---------+------------\n  1 | Ada   |   12.50 | 1815-12-10\n  \
         2 | Edgar |  (null) | (null)\n(2 rows)\n\n text  |   n    \n-------+--------\n two  +| (null)\n lines | \n\
         (1 row)\n\nINSERT 0 2\nUPDATE 2\nDELETE 1\nBEGIN\nCOMMIT\n ?column? \n----------\n(0 rows)\n\n\
         Expanded display is on.\n-[ RECORD 1 ]\nid   | 2\nborn | (null)\n\n"
    );
    let timed = psql.script(&[], "\\timing on\nSELECT 1;\n").ok();
    assert!(timed.lines().any(|line| line.starts_with("Time: ") && line.ends_with(" ms")), "{timed}");
    let several = psql.script(&["-c", "SELECT 1 AS one; SELECT 2 AS two"], "").ok();
    assert_eq!(several, " one \n-----\n   1\n(1 row)\n\n two \n-----\n   2\n(1 row)\n\n");
}

/// Goal: `\copy` works both ways, with every character that needs escaping. Method: copy out to a file and into another
/// table, and compare; then CSV with a header.
#[test]
fn copy_goes_both_ways() {
    let server = ready();
    let psql = Psql::new(&server);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows").display().to_string();
    psql.script(&["-q"], "CREATE TABLE a (n int, t text); CREATE TABLE b (n int, t text);").ok();
    psql.script(
        &["-q"],
        "INSERT INTO a VALUES (1, E'tab\\there'), (2, E'line\\nbreak'), (3, E'back\\\\slash'), (4, NULL), (5, ''), (6, '\\N');",
    )
    .ok();
    let out = psql.script(&[], &format!("\\copy a to '{file}'\n\\copy b from '{file}'\n")).ok();
    assert_eq!(out, "COPY 6\nCOPY 6\n");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "1\ttab\\there\n2\tline\\nbreak\n3\tback\\\\slash\n4\t\\N\n5\t\n6\t\\\\N\n"
    );
    assert_eq!(
        psql.value("SELECT count(*) FROM a JOIN b ON a.n = b.n AND (a.t = b.t OR a.t IS NULL AND b.t IS NULL)"),
        "6"
    );
    let csv = psql.script(
        &[],
        "\\copy (SELECT n, t FROM a WHERE n IN (2, 4, 5) ORDER BY n) to stdout with (format csv, header)\n",
    );
    assert_eq!(csv.ok(), "n,t\n2,\"line\nbreak\"\n4,\n5,\"\"\n");
    let typed = psql.script(&[], "COPY note FROM stdin;\nfirst\nsecond\n\\.\nSELECT count(*) FROM note;\n").ok();
    assert!(typed.contains("COPY 2") && typed.contains("     2\n"), "{typed}");
    let bad = psql.script(&[], "COPY a FROM stdin;\n1\tx\nseven\ty\n\\.\n");
    assert_eq!(
        bad.err,
        "ERROR:  invalid input syntax for type integer: \"seven\"\nCONTEXT:  COPY a, line 2, column n: \"seven\"\n"
    );
    assert_eq!(psql.value("SELECT count(*) FROM a"), "6", "a failed COPY leaves nothing");
}

/// Goal: an error shows its line with a caret at the position. Method: three statements, exact text.
#[test]
fn errors_show_the_place_with_a_caret() {
    let server = ready();
    let psql = Psql::new(&server);
    let check = |sql: &str, expected: &str| {
        let done = psql.script(&[], &format!("{sql}\n"));
        assert_eq!(done.code, Some(3), "{sql}: {}", done.err);
        assert_eq!(done.err, expected, "{sql}");
    };
    check("SELECT 1 +;", "ERROR:  syntax error at or near \";\"\nLINE 1: SELECT 1 +;\n                  ^\n");
    check(
        "SELECT nme FROM customer;",
        "ERROR:  column \"nme\" does not exist\nLINE 1: SELECT nme FROM customer;\n               ^\n\
         HINT:  Perhaps you meant to reference the column \"customer.name\".\n",
    );
    check(
        "SELECT *\n  FROM nowhere\n WHERE x = 1;",
        "ERROR:  relation \"nowhere\" does not exist\nLINE 2:   FROM nowhere\n               ^\n",
    );
    let umlaut = psql.script(&[], "SELECT '\u{e4}\u{f6}\u{fc}', y;\n");
    assert_eq!(
        umlaut.err,
        "ERROR:  column \"y\" does not exist\nLINE 1: SELECT '\u{e4}\u{f6}\u{fc}', y;\n                      ^\n",
        "positions count characters"
    );
    check(
        "INSERT INTO customer VALUES (1, 'Bob');",
        "ERROR:  duplicate key value violates unique constraint \"customer_pkey\"\nDETAIL:  Key (id)=(1) already exists.\n",
    );
}

/// Goal: notices and variables work. Method: IF EXISTS notices, `\gset`, `\set`, `\gdesc`, `\bind`-less parameters.
#[test]
fn notices_and_psql_variables_work() {
    let server = ready();
    let psql = Psql::new(&server);
    let done = psql.script(&[], "DROP TABLE IF EXISTS nothing;\n");
    assert_eq!(done.err, "NOTICE:  table \"nothing\" does not exist, skipping\n");
    assert_eq!(done.out, "DROP TABLE\n");
    let set =
        psql.script(&["-A", "-t"], "SELECT max(id) AS top FROM customer \\gset\n\\echo :top\nSELECT :top + 1;\n").ok();
    assert_eq!(set, "2\n3\n");
    let described = psql.script(&["-A", "-t"], "SELECT 1 AS n, 'x'::varchar(3) AS t, 1.5 AS d \\gdesc\n").ok();
    assert_eq!(described, "n|integer\nt|character varying(3)\nd|numeric\n");
    let shown =
        psql.script(&["-A", "-t"], "SHOW server_version;\nSHOW search_path;\nSHOW standard_conforming_strings;\n").ok();
    assert!(shown.starts_with("15.0 (Collie "), "{shown}");
    assert!(shown.ends_with("\"$user\", public\non\n"), "{shown}");
    let version = psql.value("SELECT version()");
    assert!(version.starts_with("PostgreSQL 15.0 (Collie "), "{version}");
    assert_eq!(
        psql.value("SELECT current_user || '/' || current_database() || '/' || current_schema()"),
        "collie/collie/public"
    );
}
