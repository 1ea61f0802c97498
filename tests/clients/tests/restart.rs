//! Durability over SIGTERM and SIGKILL, of data and of definitions; and the tools that inspect a directory.

use collie_clients_tests::{Place, Psql, Server, program, state};
use postgres::{Client, NoTls};

fn ends(place: &Place, server: Server, kill: bool) -> Server {
    if kill {
        server.kill();
    } else {
        let status = server.stop();
        assert_eq!(status.code(), Some(0), "SIGTERM: {status:?}\n{}", place.log());
    }
    Server::start(place)
}

fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    let found = client.query(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    found.iter().map(|row| row.get::<_, Option<String>>(0).unwrap_or_else(|| "NULL".to_owned())).collect()
}

/// Goal: committed rows survive SIGTERM and SIGKILL, uncommitted ones survive neither. Method: write, leave a
/// transaction open, end the server, open again; each kind of end twice.
#[test]
fn data_survives_sigterm_and_sigkill() {
    let place = Place::new();
    let mut server = Server::start(&place);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY, t text, d numeric(8,3), y bytea)").unwrap();
    let mut expected = Vec::new();
    for (round, kill) in [true, false, true, false].into_iter().enumerate() {
        let base = i32::try_from(round * 100).unwrap();
        let mut client = server.connect();
        client
            .batch_execute(&format!(
                "INSERT INTO t SELECT {base} + n, 'row ' || n, n / 8.0, '\\xff00' FROM generate_series(1, 50) AS n;
                 UPDATE t SET t = 'changed' WHERE n = {base} + 7; DELETE FROM t WHERE n = {base} + 9"
            ))
            .unwrap();
        expected.extend((1..=50).filter(|n| *n != 9).map(|n| match n {
            7 => format!("{} changed 0.875", base + n),
            n => format!("{} row {n} {:.3}", base + n, f64::from(n * 125) / 1000.0),
        }));
        let mut open = server.connect();
        open.batch_execute(&format!("BEGIN; INSERT INTO t VALUES ({base} + 99, 'never'); DELETE FROM t WHERE n < 20"))
            .unwrap();
        server = ends(&place, server, kill);
        drop(open);
        let mut client = server.connect();
        assert_eq!(rows(&mut client, "SELECT n || ' ' || t || ' ' || d FROM t ORDER BY n"), expected, "round {round}");
    }
}

/// Goal: a server that is stopped in order leaves no log to replay, and one that is set not to flush leaves its newest
/// writes. Method: a table for which no flush was due, a stop with and without `store.flush_at_stop`, and the number of
/// replayed records that the next start logs.
#[test]
fn orderly_stop_leaves_nothing_to_replay() {
    for flush in [true, false] {
        let place = Place::new();
        let server = Server::start_with(&place, &["--set", &format!("store.flush_at_stop={flush}")]);
        let mut client = server.connect();
        client.batch_execute("CREATE TABLE t (n int); CHECKPOINT").unwrap();
        client.batch_execute("INSERT INTO t SELECT generate_series(1, 500)").unwrap();
        drop(client);
        assert!(server.stop().success(), "{}", place.log());
        let server = Server::start(&place);
        assert_eq!(rows(&mut server.connect(), "SELECT count(*)::text FROM t"), ["500"]);
        let log = place.log();
        let opened = log.lines().rfind(|line| line.contains("LOG:  opened ")).unwrap_or_else(|| panic!("{log}"));
        assert_eq!(opened.contains(": 0 row writes from "), flush, "{opened}");
    }
}

/// Goal: definitions survive, and rolled back ones leave nothing. Method: create, drop, alter, index, truncate, in and
/// out of transactions; compare `\d` and the behaviour of constraints before and after.
#[test]
fn ddl_survives_and_rolled_back_ddl_leaves_nothing() {
    for kill in [true, false] {
        let place = Place::new();
        let server = Server::start(&place);
        let mut client = server.connect();
        client
            .batch_execute(
                "CREATE TABLE kept (a int, b text NOT NULL DEFAULT 'b', c numeric(5,2) CHECK (c > 0));
                 CREATE SCHEMA s; CREATE TABLE s.inner_table (x int PRIMARY KEY);
                 ALTER TABLE kept ADD PRIMARY KEY (a); ALTER TABLE kept ADD CONSTRAINT unique_b UNIQUE (b);
                 ALTER TABLE kept ALTER COLUMN c SET DEFAULT 1.5;
                 CREATE INDEX by_c ON kept (c DESC, b);
                 CREATE UNIQUE INDEX by_lower ON kept (lower(b), (a * 0)) WHERE c > 1 AND b IS NOT NULL;
                 CREATE TABLE dropped (x int PRIMARY KEY); INSERT INTO dropped VALUES (1); DROP TABLE dropped;
                 CREATE TABLE emptied (x int); INSERT INTO emptied VALUES (1), (2); TRUNCATE emptied; INSERT INTO emptied VALUES (3);
                 CREATE INDEX gone ON kept (b); DROP INDEX gone;
                 INSERT INTO kept (a, b) VALUES (1, 'one'), (2, 'two')",
            )
            .unwrap();
        client.batch_execute("BEGIN; CREATE TABLE undone (x int); INSERT INTO undone VALUES (1); DROP TABLE kept; TRUNCATE emptied; CREATE INDEX undone_i ON emptied (x); ROLLBACK").unwrap();
        // This transaction is open when the server ends.
        let mut open = server.connect();
        open.batch_execute("BEGIN; CREATE TABLE half (x int); INSERT INTO half VALUES (1)").unwrap();
        let describe = "\\d kept\n\\d s.inner_table\n\\d emptied\n\\dt\n\\di\n";
        let before = Psql::new(&server).script(&[], describe).ok();
        let server = ends(&place, server, kill);
        drop(open);
        assert_eq!(Psql::new(&server).script(&[], describe).ok(), before);
        let mut client = server.connect();
        for gone in ["dropped", "undone", "half"] {
            assert_eq!(state(&client.query(&format!("SELECT * FROM {gone}"), &[]).unwrap_err()), "42P01", "{gone}");
        }
        assert_eq!(rows(&mut client, "SELECT b || c FROM kept WHERE c = 1.5 ORDER BY b"), ["one1.50", "two1.50"]);
        assert_eq!(rows(&mut client, "SELECT x::text FROM emptied"), ["3"]);
        for (sql, expected) in [
            ("INSERT INTO kept VALUES (1, 'x')", "23505"),
            ("INSERT INTO kept VALUES (3, 'one')", "23505"),
            ("INSERT INTO kept VALUES (3, 'ONE')", "23505"),
            ("INSERT INTO kept VALUES (3, 'ONE') ON CONFLICT (lower(b), (a * 0)) DO NOTHING", "42P10"),
            ("INSERT INTO kept VALUES (3, NULL)", "23502"),
            ("INSERT INTO kept VALUES (3, 'x', -1)", "23514"),
            ("CREATE TABLE kept (x int)", "42P07"),
        ] {
            assert_eq!(state(&client.batch_execute(sql).unwrap_err()), expected, "{sql}");
        }
        client
            .batch_execute(
                "INSERT INTO kept VALUES (3, 'ONE') ON CONFLICT (lower(b), (a * 0)) WHERE b IS NOT NULL AND c > 1
                 DO UPDATE SET b = excluded.b",
            )
            .unwrap();
        assert_eq!(rows(&mut client, "SELECT b FROM kept WHERE lower(b) = 'one' AND c > 1"), ["ONE"]);
        client
            .batch_execute("CREATE TABLE half (y text); INSERT INTO half VALUES ('new'); CREATE TABLE undone (z int)")
            .unwrap();
        let server = ends(&place, server, !kill);
        assert_eq!(rows(&mut server.connect(), "SELECT y FROM half"), ["new"]);
    }
}

/// Goal: SIGTERM waits only briefly for sessions, sends idle ones the reason, and rolls back open transactions. Method:
/// an idle session in a transaction and a long statement; exit code 0, and a line in the log.
#[test]
fn sigterm_ends_idle_and_busy_sessions_in_order() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut idle = server.connect();
    idle.batch_execute("CREATE TABLE t (n int)").unwrap();
    idle.batch_execute("BEGIN; INSERT INTO t VALUES (1)").unwrap();
    let mut busy = server.connect();
    let runs = std::thread::spawn(move || {
        busy.query("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b", &[]).unwrap_err()
    });
    let status = server.stop();
    assert_eq!(status.code(), Some(0), "{}", place.log());
    assert!(place.log().contains("stopped: every commit is on disk"), "{}", place.log());
    let _ = runs.join().unwrap();
    assert!(idle.query("SELECT 1", &[]).is_err());
    let server = Server::start(&place);
    let left: i64 = server.connect().query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert_eq!(left, 0);
}

/// Goal: a server that is stopped as soon as it says that it listens ends in order (T140), since any reader of that
/// line may stop it. Method: SIGTERM right after that line, again and again.
#[test]
fn a_server_that_has_just_come_to_listen_stops_in_order() {
    let place = Place::new();
    for _ in 0..10 {
        let status = Server::start(&place).stop();
        assert_eq!(status.code(), Some(0), "{status:?}\n{}", place.log());
    }
}

/// Goal: a killed server loses at most the newest asynchronous commits, and keeps a prefix of them. Method: count up
/// with synchronous_commit = off, kill, compare; one synchronous commit makes all before it durable.
#[test]
fn asynchronous_commits_are_lost_only_from_the_end() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    client.batch_execute("SET synchronous_commit = off").unwrap();
    for n in 0..100 {
        client.execute("INSERT INTO t VALUES ($1)", &[&n]).unwrap();
    }
    // The statements are sent separately: several in one string are one transaction, which commits under the last
    // setting.
    for sql in ["SET synchronous_commit = on", "INSERT INTO t VALUES (100)", "SET synchronous_commit = off"] {
        client.batch_execute(sql).unwrap();
    }
    for n in 101..200 {
        client.execute("INSERT INTO t VALUES ($1)", &[&n]).unwrap();
    }
    server.kill();
    let server = Server::start(&place);
    let mut client = server.connect();
    let row = client.query_one("SELECT count(*), max(n) FROM t", &[]).unwrap();
    let (count, max): (i64, i32) = (row.get(0), row.get(1));
    assert!(max >= 100, "the synchronous commit pins what came before: {max}");
    assert_eq!(count, i64::from(max) + 1, "a prefix");
}

/// Goal: the tools work on a directory and on a server. Method: `wal dump` live and stopped, text and JSON;
/// `sql --data`; `sql URL`; `config`.
#[test]
fn tools_read_a_directory_and_a_server() {
    let place = Place::new();
    let data = place.data().display().to_string();
    let server = Server::start(&place);
    server
        .connect()
        .batch_execute("CREATE TABLE t (n int PRIMARY KEY, t text); INSERT INTO t VALUES (1, 'one'), (2, NULL)")
        .unwrap();
    let live = program::collie(&["wal", "dump", &data], "").ok();
    assert!(live.lines().count() >= 2 && live.contains(" COMMIT xid "), "{live}");
    let live = program::collie(&["wal", "verify", &data], "").ok();
    assert!(live.contains("\nopens with everything to "), "{live}");
    let remote = program::collie(&["sql", &server.url(), "-c", "SELECT * FROM t ORDER BY n"], "").ok();
    assert_eq!(remote, " n |  t\n---+-----\n 1 | one\n 2 |\n(2 rows)\n\n");
    let failed = program::collie(&["sql", &server.url(), "-c", "SELECT * FROM nowhere"], "");
    assert_eq!(failed.code, Some(1));
    assert_eq!(failed.err, "ERROR:  42P01: relation \"nowhere\" does not exist\n");
    let locked = program::collie(&["sql", "--data", &data, "-c", "SELECT 1"], "");
    assert_eq!(locked.code, Some(1));
    assert_eq!(
        locked.err,
        format!(
            "error: wal: the log is open in process {}; stop that process or use another directory\n",
            server.pid()
        )
    );
    assert!(server.stop().success());
    let nobody = program::collie(&["sql", "postgresql://collie@127.0.0.1:1/collie", "-c", "SELECT 1"], "");
    assert_eq!(nobody.code, Some(1));
    assert_eq!(
        nobody.err,
        "error: cannot connect to postgresql://collie@127.0.0.1:1/collie: Connection refused (os error 111): is the \
         server running? Start it with `collie serve`\n"
    );
    let embedded = program::collie(
        &["sql", "--data", &data, "-c", "INSERT INTO t VALUES (3, 'three'); SELECT * FROM t ORDER BY n"],
        "",
    )
    .ok();
    assert_eq!(embedded, "INSERT 0 1\n n |   t\n---+-------\n 1 | one\n 2 |\n 3 | three\n(3 rows)\n\n");
    let typed = program::collie(&["sql", "--data", &data], "SELECT count(*)\n  FROM t;\nSELECT nothing FROM t;\n");
    assert_eq!(typed.code, Some(1));
    assert_eq!(typed.out, " count\n-------\n     3\n(1 row)\n\n");
    assert_eq!(typed.err, "ERROR:  42703: column \"nothing\" does not exist\nSELECT nothing FROM t;\n       ^\n");
    let dump = program::collie(&["wal", "dump", &data, "--json"], "").ok();
    assert!(dump.lines().all(|line| line.starts_with('{') && line.contains("\"lsn\":")), "{dump}");
    let empty = tempfile::tempdir().unwrap();
    let none = program::collie(&["wal", "dump", empty.path().to_str().unwrap()], "");
    assert_eq!(none.code, Some(1), "{none:?}");
    let config = program::collie(&["config"], "").ok();
    assert!(
        config.contains("wal.flush_delay = 10ms\n") && config.contains("server.listen = 127.0.0.1:5433\n"),
        "{config}"
    );
    let explained = program::collie(&["config", "--explain", "wal.flush_delay"], "").ok();
    assert!(explained.starts_with("wal.flush_delay = 10ms\n    "), "{explained}");
    let unknown = program::collie(&["config", "--explain", "wal.flush_dely"], "");
    assert_eq!(
        unknown.err,
        "error: unknown setting wal.flush_dely: did you mean wal.flush_delay? `collie config` lists every setting\n"
    );
}

/// Goal: an operator can take back the last commits. Method: three inserts; find the second one's position in the dump;
/// a cut is refused while the server runs, then made; the first row is left, also after more commits and another start.
#[test]
fn cut_takes_back_the_last_commits() {
    let place = Place::new();
    let data = place.data().display().to_string();
    // A flush at the stop would make the log needed up to its position.
    let server = Server::start_with(&place, &["--set", "store.flush_at_stop=false"]);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    for n in 1..4 {
        client.execute("INSERT INTO t VALUES ($1)", &[&n]).unwrap();
    }
    drop(client);
    let dump = program::collie(&["wal", "dump", &data], "").ok();
    let commits: Vec<&str> = dump.lines().filter(|line| line.contains(" COMMIT xid ")).collect();
    let second = commits[commits.len() - 2].split(' ').next().unwrap();
    let refused = program::collie(&["wal", "truncate-at", &data, second], "");
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains(&format!("the log is open in process {}", server.pid())), "{}", refused.err);
    assert!(server.stop().success());
    let said = program::collie(&["wal", "truncate-at", &data, second], "").ok();
    assert!(said.contains("; the last commit among them: 0/") && said.contains(" COMMIT xid "), "{said}");
    assert!(said.contains(&format!("\ncut: the log ends at {second}; ")), "{said}");
    for start in 0..2 {
        let server = Server::start(&place);
        let mut client = server.connect();
        let rows = client.query("SELECT n FROM t ORDER BY n", &[]).unwrap();
        let rows: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(rows, if start == 0 { vec![1] } else { vec![1, 10] });
        client.execute("INSERT INTO t VALUES ($1)", &[&(10 + start)]).unwrap();
        server.kill();
    }
    program::collie(&["wal", "verify", &data], "").ok();
}

/// Goal: clients that reconnect see their commits after a crash under load. Method: three writers, a kill; every
/// acknowledged row is there.
#[test]
fn every_acknowledged_commit_survives_a_kill_under_load() {
    let place = Place::new();
    let server = Server::start(&place);
    server.connect().batch_execute("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let (send, acknowledged) = std::sync::mpsc::channel();
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let config = server.config();
            let send = send.clone();
            std::thread::spawn(move || {
                let mut client = config.connect(NoTls).unwrap();
                for n in (writer..).step_by(3) {
                    match client.execute("INSERT INTO t VALUES ($1)", &[&n]) {
                        Ok(_) => send.send(n).unwrap(),
                        Err(_) => return,
                    }
                }
            })
        })
        .collect();
    drop(send);
    let mut sure: Vec<i32> = acknowledged.iter().take(300).collect();
    server.kill();
    sure.extend(acknowledged);
    for writer in writers {
        writer.join().unwrap();
    }
    let server = Server::start(&place);
    let mut client = server.connect();
    let there: Vec<i32> = client.query("SELECT n FROM t", &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for n in &sure {
        assert!(there.contains(n), "acknowledged row {n} is gone");
    }
    assert!(there.len() <= sure.len() + 3, "{} rows for {} acknowledgements", there.len(), sure.len());
}
