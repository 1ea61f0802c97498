//! A real driver (crate `postgres`) on the real server: types, prepared statements, portals, COPY, cancel.

use std::{error::Error, io::Read, io::Write, time::Duration};

use collie_clients_tests::{Server, Stopwatch, message, session::PATIENCE, state};
use postgres::{
    Client, NoTls, SimpleQueryMessage,
    types::{FromSql, IsNull, ToSql, Type, private::BytesMut, to_sql_checked},
};

fn one<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, sql: &str) -> T {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

/// Goal: values of every type that the driver knows, and NULL, survive the way in and out in binary form, also through
/// a table. Method: the same value as parameter, as stored column and as NULL.
#[test]
fn values_of_every_type_round_trip_in_binary() {
    let server = Server::fresh();
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, b bool, s int2, i int4, l int8, f float4, d float8, t text, v varchar(9),
                             c char(4), y bytea, z timestamptz, w timestamp, o oid, n name, q \"char\")",
        )
        .unwrap();
    let at = std::time::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    let bytes: Vec<u8> = (0..=255).collect();
    let insert = client
        .prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)")
        .unwrap();
    assert_eq!(
        insert.params(),
        [
            Type::INT4,
            Type::BOOL,
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::FLOAT4,
            Type::FLOAT8,
            Type::TEXT,
            Type::VARCHAR,
            Type::BPCHAR,
            Type::BYTEA,
            Type::TIMESTAMPTZ,
            Type::TIMESTAMP,
            Type::OID,
            Type::NAME,
            Type::CHAR,
        ]
    );
    let done = client.execute(
        &insert,
        &[
            &1_i32,
            &true,
            &i16::MIN,
            &i32::MAX,
            &i64::MIN,
            &1.5e-45_f32,
            &f64::MAX,
            &"gr\u{fc}n \u{1f415}",
            &"nine char",
            &"ab",
            &bytes,
            &at,
            &at,
            &u32::MAX,
            &"a_name",
            &65_i8,
        ],
    );
    assert_eq!(done.unwrap(), 1);
    let none: Option<i32> = None;
    let text: Option<&str> = None;
    client
        .execute(
            &insert,
            &[
                &2_i32,
                &None::<bool>,
                &None::<i16>,
                &none,
                &None::<i64>,
                &None::<f32>,
                &None::<f64>,
                &text,
                &text,
                &text,
                &None::<Vec<u8>>,
                &None::<std::time::SystemTime>,
                &None::<std::time::SystemTime>,
                &None::<u32>,
                &text,
                &None::<i8>,
            ],
        )
        .unwrap();
    let row = client.query_one("SELECT * FROM t WHERE id = $1", &[&1_i32]).unwrap();
    assert!(row.get::<_, bool>("b"));
    assert_eq!(row.get::<_, i16>("s"), i16::MIN);
    assert_eq!(row.get::<_, i32>("i"), i32::MAX);
    assert_eq!(row.get::<_, i64>("l"), i64::MIN);
    assert_eq!(row.get::<_, f32>("f").to_bits(), 1.5e-45_f32.to_bits());
    assert_eq!(row.get::<_, f64>("d").to_bits(), f64::MAX.to_bits());
    assert_eq!(row.get::<_, &str>("t"), "gr\u{fc}n \u{1f415}");
    assert_eq!(row.get::<_, &str>("v"), "nine char");
    assert_eq!(row.get::<_, &str>("c"), "ab  ");
    assert_eq!(row.get::<_, Vec<u8>>("y"), bytes);
    assert_eq!(row.get::<_, std::time::SystemTime>("z"), at);
    assert_eq!(row.get::<_, std::time::SystemTime>("w"), at);
    assert_eq!(row.get::<_, u32>("o"), u32::MAX);
    assert_eq!(row.get::<_, &str>("n"), "a_name");
    assert_eq!(row.get::<_, i8>("q"), 65);
    let row = client.query_one("SELECT * FROM t WHERE id = $1", &[&2_i32]).unwrap();
    for column in 1..row.len() {
        let raw: Option<Raw> = row.get(column);
        assert!(raw.is_none(), "column {column} is not NULL");
    }
}

/// The binary form of any value, as it is sent.
#[derive(Debug)]
struct Raw(Vec<u8>);

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Goal: the binary forms of types without a Rust counterpart are PostgreSQL's. Method: a table of expressions and
/// bytes.
#[test]
fn numeric_and_time_bytes_are_those_of_postgresql() {
    let server = Server::fresh();
    let mut client = server.connect();
    let mut check = |expression: &str, ty: Type, hex: &str| {
        let row =
            client.query_one(&format!("SELECT {expression}"), &[]).unwrap_or_else(|e| panic!("{expression}: {e:?}"));
        assert_eq!(row.columns()[0].type_(), &ty, "{expression}");
        let bytes: String = row.get::<_, Raw>(0).0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(bytes, hex.replace(' ', ""), "{expression}");
    };
    check("12345.678::numeric", Type::NUMERIC, "0003 0001 0000 0003 0001 0929 1a7c");
    check("-0.0001::numeric", Type::NUMERIC, "0001 ffff 4000 0004 0001");
    check("0::numeric", Type::NUMERIC, "0000 0000 0000 0000");
    check("'NaN'::numeric", Type::NUMERIC, "0000 0000 c000 0000");
    check("'Infinity'::numeric", Type::NUMERIC, "0000 0000 d000 0020");
    check("1.50::numeric(10,2)", Type::NUMERIC, "0002 0000 0000 0002 0001 1388");
    check("'2000-01-02'::date", Type::DATE, "00000001");
    check("'1999-12-31'::date", Type::DATE, "ffffffff");
    check("'infinity'::date", Type::DATE, "7fffffff");
    check("'04:05:06.789'::time", Type::TIME, "000000036c97ca88");
    check("'2000-01-01 00:00:01'::timestamp", Type::TIMESTAMP, "00000000000f4240");
    check("'2000-01-01 01:00:00+01'::timestamptz", Type::TIMESTAMPTZ, "0000000000000000");
    check("'-infinity'::timestamp", Type::TIMESTAMP, "8000000000000000");
    check("true", Type::BOOL, "01");
    check("'x'::\"char\"", Type::CHAR, "78");
    check("'-0'::float8", Type::FLOAT8, "8000000000000000");
    check("'pg_class'::regclass", Type::REGCLASS, "000004eb");
    check("'int4'::regtype", Type::REGTYPE, "00000017");
    check(
        "ARRAY['a', NULL]::text[]",
        Type::TEXT_ARRAY,
        "00000001 00000001 00000019 00000002 00000001 00000001 61 ffffffff",
    );
}

/// Goal: a parameter gets the type that its place in the statement implies. Method: prepare without types and compare
/// the types that the server reports.
#[test]
fn parameter_types_are_inferred_from_their_place() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (id int8 PRIMARY KEY, amount numeric(10,2), name varchar(10))").unwrap();
    let mut check = |sql: &str, types: &[Type]| {
        let statement = client.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(statement.params(), types, "{sql}");
    };
    check("SELECT * FROM t WHERE id = $1 AND name = $2", &[Type::INT8, Type::TEXT]);
    check("INSERT INTO t VALUES ($1, $2, $3)", &[Type::INT8, Type::NUMERIC, Type::VARCHAR]);
    check("UPDATE t SET amount = amount + $1 WHERE id = $2", &[Type::NUMERIC, Type::INT8]);
    check("SELECT $1 + 1, $2::text", &[Type::INT4, Type::TEXT]);
    check("SELECT * FROM t LIMIT $1 OFFSET $2", &[Type::INT8, Type::INT8]);
    check("SELECT * FROM t WHERE id = ANY($1)", &[Type::INT8_ARRAY]);
    check("SELECT * FROM t WHERE id IN ($1, $2) OR name LIKE $3", &[Type::INT8, Type::INT8, Type::TEXT]);
    check("SELECT $1", &[Type::TEXT]);
    let ambiguous = client.prepare("SELECT $1 = $2 FROM t WHERE id = $1 AND name = $1").unwrap_err();
    assert!(["42P08", "42883"].contains(&state(&ambiguous).as_str()), "{ambiguous:?}");
}

/// Goal: a portal returns rows in portions and ends with its transaction. Method: 10 rows in portions of 4; then two
/// portals in turn.
#[test]
fn portal_hands_out_rows_in_portions() {
    let server = Server::fresh();
    let mut client = server.connect();
    let mut transaction = client.transaction().unwrap();
    let portal = transaction.bind("SELECT n FROM generate_series(1, 10) AS n", &[]).unwrap();
    let mut got = Vec::new();
    for expected in [4, 4, 2, 0] {
        let rows = transaction.query_portal(&portal, 4).unwrap();
        assert_eq!(rows.len(), expected);
        got.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(got, (1..=10).collect::<Vec<_>>());
    // Two portals of one transaction are read in turn, and each keeps its snapshot.
    let odd = transaction.bind("SELECT n FROM generate_series(1, 9, 2) AS n", &[]).unwrap();
    let even = transaction.bind("SELECT n FROM generate_series(2, 9, 2) AS n", &[]).unwrap();
    let mut first = |portal| transaction.query_portal(portal, 1).unwrap()[0].get::<_, i32>(0);
    assert_eq!([first(&odd), first(&even), first(&odd), first(&even)], [1, 2, 3, 4]);
    transaction.commit().unwrap();
}

/// Goal: COPY works in and out through the driver, with enough data for many messages. Method: 20,000 lines in, out,
/// compare; an abandoned COPY leaves nothing.
#[test]
fn copy_streams_in_and_out() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY, t text)").unwrap();
    let lines: String = (0..20_000).map(|n| format!("{n}\tline {n} {}\n", "x".repeat(n % 50))).collect();
    let mut writer = client.copy_in("COPY t FROM STDIN").unwrap();
    for chunk in lines.as_bytes().chunks(777) {
        writer.write_all(chunk).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 20_000);
    let mut out = String::new();
    client.copy_out("COPY (SELECT n, t FROM t ORDER BY n) TO STDOUT").unwrap().read_to_string(&mut out).unwrap();
    assert!(out == lines, "what went in comes out");
    let mut writer = client.copy_in("COPY t FROM STDIN").unwrap();
    writer.write_all(b"20000\tlost\n").unwrap();
    drop(writer);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM t"), 20_000);
    let mut writer = client.copy_in("COPY t FROM STDIN").unwrap();
    writer.write_all(b"20001\tfine\n1\tduplicate\n").unwrap();
    assert_eq!(state(&writer.finish().unwrap_err()), "23505");
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM t"), 20_000);
}

/// Goal: transactions and savepoints behave as in PostgreSQL. Method: rollback, nested savepoints with errors inside,
/// drop without commit.
#[test]
fn transactions_and_savepoints_nest() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let mut transaction = client.transaction().unwrap();
    transaction.execute("INSERT INTO t VALUES (1)", &[]).unwrap();
    {
        let mut inner = transaction.savepoint("a").unwrap();
        inner.execute("INSERT INTO t VALUES (2)", &[]).unwrap();
        assert_eq!(state(&inner.execute("INSERT INTO t VALUES (1)", &[]).unwrap_err()), "23505");
        assert_eq!(state(&inner.execute("SELECT 1", &[]).unwrap_err()), "25P02");
        inner.rollback().unwrap();
    }
    {
        let mut inner = transaction.savepoint("b").unwrap();
        inner.execute("INSERT INTO t VALUES (3)", &[]).unwrap();
        let mut third = inner.savepoint("c").unwrap();
        third.execute("DELETE FROM t", &[]).unwrap();
        third.rollback().unwrap();
        inner.commit().unwrap();
    }
    transaction.commit().unwrap();
    let rows = client.query("SELECT n FROM t ORDER BY n", &[]).unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 3]);
    let mut dropped = client.transaction().unwrap();
    dropped.execute("DELETE FROM t", &[]).unwrap();
    drop(dropped);
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM t"), 2);
    let read_only =
        client.build_transaction().read_only(true).start().unwrap().execute("DELETE FROM t", &[]).unwrap_err();
    assert_eq!(state(&read_only), "25006");
}

/// Goal: cancel ends a long statement soon, and only that statement. Method: a cross join of billions of rows,
/// cancelled from another thread until it ends; the session then works.
#[test]
fn cancel_stops_a_long_statement_and_leaves_the_session_usable() {
    let server = Server::fresh();
    let mut client = server.connect();
    for long in [
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        "SELECT a FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a + b < 0",
    ] {
        let token = client.cancel_token();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let canceller = std::thread::spawn(move || {
            // The request is repeated, since the first may arrive before the statement has begun.
            while stopped.recv_timeout(Duration::from_millis(50)).is_err() {
                token.cancel_query(NoTls).unwrap();
            }
        });
        let watch = Stopwatch::start();
        let error = client.query(long, &[]).unwrap_err();
        let _ = stop.send(());
        canceller.join().unwrap();
        assert_eq!(state(&error), "57014", "{error:?}");
        assert_eq!(message(&error), "canceling statement due to user request");
        assert!(watch.elapsed() < PATIENCE, "cancel took {:?}", watch.elapsed());
        // The last cancel requests may still arrive and hit the next statement; after them statements work.
        while let Err(error) = client.simple_query("SELECT 1") {
            assert_eq!(state(&error), "57014", "{error:?}");
            assert!(watch.elapsed() < PATIENCE, "nothing runs any more");
        }
    }
}

/// Goal: prepared statements survive DDL, or fail with the reason. Method: prepare, change the catalog, run again.
#[test]
fn prepared_statements_are_planned_again_after_ddl() {
    let server = Server::fresh();
    let mut client = server.connect();
    let mut other = server.connect();
    client.batch_execute("CREATE TABLE t (n int, t text); INSERT INTO t VALUES (1, 'one'), (2, 'two')").unwrap();
    let by_number = client.prepare("SELECT t FROM t WHERE n = $1").unwrap();
    let all = client.prepare("SELECT * FROM t").unwrap();
    let read = |client: &mut Client| client.query_one(&by_number, &[&2_i32]).unwrap().get::<_, String>(0);
    assert_eq!(read(&mut client), "two");
    other.batch_execute("CREATE INDEX t_n ON t (n)").unwrap();
    assert_eq!(read(&mut client), "two");
    other.batch_execute("ALTER TABLE t ADD PRIMARY KEY (n)").unwrap();
    assert_eq!(read(&mut client), "two");
    other.batch_execute("DROP INDEX t_n").unwrap();
    assert_eq!(read(&mut client), "two");
    other.batch_execute("TRUNCATE t; INSERT INTO t VALUES (2, 'again')").unwrap();
    assert_eq!(read(&mut client), "again");
    other.batch_execute("DROP TABLE t").unwrap();
    assert_eq!(state(&client.query(&by_number, &[&2_i32]).unwrap_err()), "42P01");
    other.batch_execute("CREATE TABLE t (n int, t text, extra int); INSERT INTO t VALUES (2, 'new', 3)").unwrap();
    assert_eq!(read(&mut client), "new");
    let changed = client.query(&all, &[]).unwrap_err();
    assert_eq!(state(&changed), "0A000");
    assert_eq!(message(&changed), "cached plan must not change result type");
}

/// Goal: SQL's own PREPARE, EXECUTE and DEALLOCATE work along with the protocol's. Method: one session.
#[test]
fn sql_prepare_execute_and_deallocate_work() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("PREPARE p (int, text) AS SELECT $1 + 1, $2 || '!'").unwrap();
    let answers = client.simple_query("EXECUTE p (41, 'x')").unwrap();
    let rows: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some((row.get(0).unwrap().to_owned(), row.get(1).unwrap().to_owned())),
            _ => None,
        })
        .collect();
    assert_eq!(rows, [("42".to_owned(), "x!".to_owned())]);
    assert_eq!(state(&client.batch_execute("PREPARE p AS SELECT 1").unwrap_err()), "42P05");
    client.batch_execute("DEALLOCATE p").unwrap();
    assert_eq!(state(&client.batch_execute("EXECUTE p (1, 'x')").unwrap_err()), "26000");
    client.batch_execute("DEALLOCATE ALL; DISCARD ALL").unwrap();
}

/// Goal: INSERT ... RETURNING, multi-row VALUES and parameters in lists work as drivers send them. Method: one script.
#[test]
fn statements_that_drivers_send_work() {
    let server = Server::fresh();
    let mut client = server.connect();
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, name text DEFAULT 'none', at timestamptz DEFAULT now())")
        .unwrap();
    let rows = client.query("INSERT INTO t (id) VALUES ($1), ($2) RETURNING *", &[&1_i32, &2_i32]).unwrap();
    assert_eq!(
        rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, String)>>(),
        [(1, "none".into()), (2, "none".into())]
    );
    let ids = vec![1_i32, 3];
    assert_eq!(client.query("SELECT id FROM t WHERE id = ANY($1)", &[&ids]).unwrap().len(), 1);
    let updated =
        client.query("UPDATE t SET name = $2 WHERE id = $1 RETURNING name, id + 1", &[&1_i32, &"new"]).unwrap();
    assert_eq!((updated[0].get::<_, String>(0), updated[0].get::<_, i32>(1)), ("new".into(), 2));
    assert_eq!(client.execute("DELETE FROM t WHERE id IN ($1, $2)", &[&1_i32, &9_i32]).unwrap(), 1);
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1; COMMIT; ;").unwrap();
    let began = client.prepare("BEGIN").unwrap();
    let ended = client.prepare("COMMIT").unwrap();
    client.execute(&began, &[]).unwrap();
    client.execute("INSERT INTO t (id) VALUES (7)", &[]).unwrap();
    client.execute(&ended, &[]).unwrap();
    assert_eq!(one::<i64>(&mut client, "SELECT count(*) FROM t"), 2);
}

/// Goal: sessions that share a plan each read its literals by their own settings (T90). Method: one text in sessions
/// with different settings, and 'now' in one transaction after another; each answers as PostgreSQL does, which shares
/// no plan.
#[test]
fn shared_plans_read_literals_as_each_session_does() {
    let server = Server::fresh();
    let (mut first, mut second) = (server.connect(), server.connect());
    second.batch_execute("SET timezone = '5'; SET datestyle = 'ISO, DMY'; SET intervalstyle = sql_standard").unwrap();
    for (sql, expected) in [
        ("SELECT extract(month FROM '01/02/2024'::date)::text", ["1", "2"]),
        ("SELECT extract(epoch FROM '2024-01-01 05:00'::timestamptz)::int8::text", ["1704085200", "1704067200"]),
        ("SELECT extract(epoch FROM '-1 1:00:00'::interval)::int8::text", ["-82800", "-90000"]),
    ] {
        for (client, expected) in [(&mut first, expected[0]), (&mut second, expected[1])] {
            for _ in 0..3 {
                assert_eq!(one::<String>(client, sql), expected, "{sql}");
            }
        }
    }
    first.batch_execute("SET timezone = '-5'").unwrap();
    assert_eq!(
        one::<String>(&mut first, "SELECT extract(epoch FROM '2024-01-01 05:00'::timestamptz)::int8::text"),
        "1704103200"
    );
    for client in [&mut first, &mut second] {
        for _ in 0..3 {
            assert!(one::<bool>(client, "SELECT 'now'::timestamptz = now() AND 'today'::date = current_date"));
        }
    }
}

/// Goal: intervals pass both ways in PostgreSQL's binary form. Method: the bytes of a parameter go through a table with
/// an index and are compared with the documented form: microseconds, days, months.
#[test]
fn intervals_have_postgresqls_binary_form() {
    let server = Server::fresh();
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE spans (i interval PRIMARY KEY)").unwrap();
    let sent = Raw([&(-1_i64).to_be_bytes()[..], &2_i32.to_be_bytes(), &(-3_i32).to_be_bytes()].concat());
    client.execute("INSERT INTO spans VALUES ($1)", &[&sent]).unwrap();
    let found: Raw = client.query_one("SELECT i FROM spans WHERE i = $1", &[&sent]).unwrap().get(0);
    assert_eq!(found.0, sent.0);
    assert_eq!(one::<String>(&mut client, "SELECT i::text FROM spans"), "-3 mons +2 days -00:00:00.000001");
    let refused = client.execute("INSERT INTO spans VALUES ($1)", &[&Raw(vec![0; 15])]).unwrap_err();
    assert_eq!(state(&refused), "22P03", "{refused:?}");
}
