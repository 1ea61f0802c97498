//! The memory of statements as a client sees it: everything that a statement keeps is bounded, and the error names the
//! operator.

use collie_clients_tests::{Server, message, session::value, state};
use postgres::{Client, fallible_iterator::FallibleIterator as _};

/// Returns the SQLSTATE and the message of the error that ends a statement.
fn refused(client: &mut Client, sql: &str) -> (String, String) {
    let error = client.batch_execute(sql).expect_err(sql);
    (state(&error), message(&error))
}

/// Goal: no statement takes more memory than its limit, whichever operator keeps the rows; the error is 53200 and names
/// the operator, the session goes on, and other sessions are not affected. Method: a server with 4 MiB for one
/// statement, and for each operator that keeps rows a statement that would keep far more; then statements below the
/// limit, repeated, so that a refused statement that stayed on the account would show.
#[test]
fn every_operator_that_keeps_rows_is_bounded() {
    let set = ["--set", "server.statement_memory=4MiB", "--set", "server.query_memory=16MiB"];
    let server = Server::fresh_with(&set);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let rows = "generate_series(1, 3000000) n";
    let cases = [
        ("a sort", format!("SELECT n FROM {rows} ORDER BY -n OFFSET 10")),
        ("a hash join", format!("SELECT count(*) FROM generate_series(1, 2) m JOIN {rows} ON n = m")),
        ("GROUP BY", format!("SELECT n, count(*) FROM {rows} GROUP BY n")),
        ("GROUP BY", format!("SELECT count(DISTINCT n) FROM {rows}")),
        ("GROUP BY", format!("SELECT string_agg(n::text, ',') FROM {rows}")),
        ("GROUP BY", format!("SELECT array_agg(n) FROM {rows}")),
        ("DISTINCT", format!("SELECT DISTINCT n FROM {rows} OFFSET 10000000")),
        ("EXCEPT", format!("SELECT 1 EXCEPT SELECT n FROM {rows}")),
        ("INTERSECT", format!("SELECT 1 INTERSECT SELECT n FROM {rows}")),
        ("WITH", format!("WITH w AS MATERIALIZED (SELECT n FROM {rows}) SELECT count(*) FROM w, w AS v WHERE w.n = 1")),
        ("a subquery", format!("SELECT array(SELECT n FROM {rows})")),
        ("a subquery", format!("SELECT 0 = ANY (SELECT n FROM {rows})")),
    ];
    for (operator, sql) in &cases {
        let (state, message) = refused(&mut client, sql);
        assert_eq!(state, "53200", "{sql}: {message}");
        assert!(message.contains(operator), "{sql}: {message}");
        assert_eq!(value::<i64>(&mut other, "SELECT count(*) FROM t"), 0);
    }
    for sql in ["SELECT length(repeat('x', 500000000))", "SELECT length(lpad('x', 500000000))"] {
        let (state, message) = refused(&mut client, sql);
        assert!(state == "53200" && message.contains("a value of 500000000 bytes"), "{sql}: {state} {message}");
    }
    let (state, _) = refused(&mut client, "SELECT length(repeat('x', 2000000000))");
    assert_eq!(state, "54000", "as PostgreSQL's");
    // A sort that starts again for each row counts once; all its runs together keep a hundred times the limit.
    let again = "SELECT sum((SELECT max(k) FROM (SELECT k FROM generate_series(1, 2000) k ORDER BY -k - n LIMIT 1500) s)) \
                 FROM generate_series(1, 1000) n";
    client.batch_execute(again).unwrap();
    for _ in 0..20 {
        client.batch_execute("SELECT n FROM generate_series(1, 20000) n ORDER BY -n").unwrap();
    }
}

/// Goal: the memory of an expression that makes many or long pieces is bounded while it makes them. Method: 4 MiB for
/// one statement; each such function on a text of a hundred thousand pieces, an array and a row of 10 MB; the same
/// functions succeed on short texts.
#[test]
fn expressions_that_make_many_pieces_are_bounded() {
    let server = Server::fresh_with(&["--set", "server.statement_memory=4MiB"]);
    let mut client = server.connect();
    let long = ["repeat('x', 1000000)"; 10].join(", ");
    let (array, row) = (format!("cardinality(ARRAY[{long}])"), format!("ROW({long})"));
    for (call, short) in [
        (
            "length(regexp_replace(repeat('x', 100000), 'x', repeat('y', 900), 'g'))",
            "regexp_replace('xx', 'x', 'yy', 'g') = 'yyyy'",
        ),
        (
            r"length(regexp_replace(repeat('x', 100000), '.*', repeat('\&', 900)))",
            r"regexp_replace('ab', '(a)', '\1\&') = 'aab'",
        ),
        ("cardinality(string_to_array(repeat('x,', 100000), ','))", "string_to_array('a,b', ',') = '{a,b}'"),
        ("cardinality(string_to_array(repeat('x', 100000), NULL))", "string_to_array('ab', NULL) = '{a,b}'"),
        (
            "cardinality(regexp_split_to_array(repeat('x,', 100000), ','))",
            "regexp_split_to_array('a,b', ',') = '{a,b}'",
        ),
        ("(SELECT count(*) FROM regexp_split_to_table(repeat('x,', 100000), ','))", "true"),
        ("(SELECT count(*) FROM regexp_matches(repeat('x,', 100000), 'x', 'g'))", "true"),
        (&*array, "ARRAY[repeat('x', 2), 'y'] = '{xx,y}'"),
        (&*row, "ROW(repeat('x', 2), 'y') = ROW('xx', 'y')"),
    ] {
        let (state, message) = refused(&mut client, &format!("SELECT {call}"));
        assert!(state == "53200" && message.contains("a value of"), "{call}: {state} {message}");
        assert!(value::<bool>(&mut client, &format!("SELECT {short}")), "{short}");
    }
}

/// Goal: the memory that the parser and the planner need for a long text is charged before they begin and released
/// afterwards (T269). Method: lists of many small literals, simple and prepared, on a server with 8 MiB for one
/// statement; then shorter ones, repeated.
#[test]
fn long_texts_are_bounded() {
    let set = ["--set", "server.statement_memory=8MiB", "--set", "server.query_memory=16MiB"];
    let server = Server::fresh_with(&set);
    let mut client = server.connect();
    let list = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    for _ in 0..3 {
        let sql = format!("SELECT 1 WHERE 1 IN ({})", list(50_000));
        let (state, message) = refused(&mut client, &sql);
        assert!(state == "53200" && message.contains(&format!("a text of {} bytes", sql.len())), "{state} {message}");
        let error = client.prepare(&sql).map(drop).expect_err("it is long");
        assert_eq!(collie_clients_tests::state(&error), "53200");
    }
    for _ in 0..10 {
        client.batch_execute(&format!("SELECT 1 WHERE 1 IN ({})", list(4_000))).unwrap();
        client.prepare(&format!("SELECT 2 WHERE 1 IN ({})", list(4_000))).unwrap();
    }
    // A long literal is a single token.
    client.batch_execute(&format!("SELECT length('{}')", "x".repeat(500_000))).unwrap();
}

/// Goal: the remaining rows of a suspended portal are charged until the portal ends. Method: leave portals suspended in
/// one transaction until the server's budget is used up; then the transaction ends and another one begins.
#[test]
fn suspended_portals_are_bounded() {
    let set = ["--set", "server.statement_memory=4MiB", "--set", "server.query_memory=8MiB"];
    let server = Server::fresh_with(&set);
    let mut client = server.connect();
    let mut all = client.transaction().unwrap();
    let mut portals = Vec::new();
    let error = loop {
        assert!(portals.len() < 100, "a hundred portals of a mebibyte and more in eight");
        let portal = all.bind("SELECT n FROM generate_series(1, 20000) n", &[]).unwrap();
        if let Err(error) = all.query_portal_raw(&portal, 1).and_then(|rows| rows.count()) {
            break error;
        }
        portals.push(portal);
    };
    assert!(state(&error) == "53200" && message(&error).contains("a portal"), "{error:?}");
    assert!(portals.len() > 2, "{} portals", portals.len());
    drop(all);
    let mut next = client.transaction().unwrap();
    let portal = next.bind("SELECT n FROM generate_series(1, 20000) n", &[]).unwrap();
    assert_eq!(next.query_portal(&portal, 10).unwrap().len(), 10);
}

/// Goal: a session cannot fill the server with state that it keeps between statements. Method: limits of a hundred, and
/// one item more of each kind; after some are released there is room again.
#[test]
fn what_a_session_leaves_behind_is_bounded() {
    let set = ["--set", "server.max_prepared_statements=100", "--set", "server.max_advisory_locks=100"];
    let server = Server::fresh_with(&set);
    let mut client = server.connect();
    let prepare = |n: u32| format!("PREPARE p{n} AS SELECT {n}");
    (0..100).for_each(|n| client.batch_execute(&prepare(n)).unwrap());
    let (code, text) = refused(&mut client, &prepare(100));
    assert!(code == "53400" && text.contains("too many prepared statements"), "{code}: {text}");
    let error = client.prepare("SELECT 1").expect_err("also over the extended protocol");
    assert_eq!(state(&error), "53400");
    client.batch_execute("DEALLOCATE ALL; PREPARE p AS SELECT 1").unwrap();

    for lock in ["pg_advisory_lock", "pg_try_advisory_xact_lock_shared"] {
        let (code, text) = refused(&mut client, &format!("SELECT {lock}(n) FROM generate_series(1, 101) n"));
        assert!(code == "53200" && text.contains("locks"), "{code}: {text}");
        client.batch_execute("SELECT pg_advisory_unlock_all()").unwrap();
        client.batch_execute(&format!("SELECT {lock}(n) FROM generate_series(1, 100) n")).unwrap();
        client.batch_execute("SELECT pg_advisory_unlock_all()").unwrap();
    }
    // A transaction's lock is kept once per call, also if it is the same lock.
    let (code, _) = refused(&mut client, "SELECT pg_advisory_xact_lock(1) FROM generate_series(1, 101) n");
    assert_eq!(code, "53200");
}
