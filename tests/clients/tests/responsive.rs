//! A server with one thread for its sessions stays responsive while one of them runs something long: reads of other
//! sessions, new connections, cancel requests and `/healthz` are answered in between.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_clients_tests::{
    Place, Server, Stopwatch, http,
    session::{PATIENCE, pid, run, value},
    state,
};
use postgres::{Client, Error, NoTls};

/// Rows of the table that the statements process: enough that each statement takes much longer than a few probes.
const ROWS: u32 = 60_000;
/// Rounds of probes that must be answered while a statement runs. A blocked server can answer one or two as well:
/// before the statement has arrived, and while its commit waits for the disk.
const ROUNDS: u32 = 4;

/// A server with one thread, and a session that watches the others.
struct Lab {
    watcher: Client,
    server: Server,
    place: Place,
}

impl Lab {
    /// Starts the server and creates the rows.
    fn start() -> Self {
        let place = Place::new();
        let server = Server::start_with(&place, &["--set", "server.worker_threads=1", "--http", "127.0.0.1:0"]);
        let mut watcher = server.connect();
        run(
            &mut watcher,
            "CREATE TABLE t (id int PRIMARY KEY, n int, m int); CREATE TABLE u (id int PRIMARY KEY, n int)",
        );
        run(&mut watcher, &format!("INSERT INTO t SELECT g, g % 100, g FROM generate_series(1, {ROWS}) g"));
        run(&mut watcher, "INSERT INTO u SELECT g, g FROM generate_series(1, 10) g");
        Self { watcher, server, place }
    }

    /// Runs each kind of probe once; returns the time of the slowest answer.
    fn probe(&mut self) -> Duration {
        let mut slowest = Duration::ZERO;
        let mut timed = |probe: &mut dyn FnMut()| {
            let watch = Stopwatch::start();
            probe();
            slowest = slowest.max(watch.elapsed());
        };
        timed(&mut || assert_eq!(value::<i32>(&mut self.watcher, "SELECT n FROM u WHERE id = 7"), 7));
        timed(&mut || drop(self.server.connect()));
        let address = Server::http_address(&self.place);
        timed(&mut || assert_eq!(http::get(address, "/healthz").body, "ok\n"));
        slowest
    }

    /// Returns the number of sessions for which `condition` is true.
    fn sessions(&mut self, condition: &str) -> i64 {
        value(&mut self.watcher, &format!("SELECT count(*) FROM pg_stat_activity WHERE {condition}"))
    }

    /// Probes until enough rounds were answered while `condition` was true of one session, or until `is_over`.
    fn probe_while(&mut self, what: &str, condition: &str, is_over: impl Fn() -> bool) {
        let (mut rounds, mut slowest, watch) = (0, Duration::ZERO, Stopwatch::start());
        while rounds < ROUNDS && !is_over() {
            assert!(watch.elapsed() < PATIENCE, "{what}: {rounds} rounds");
            let took = self.probe();
            // The condition still holds, so the round was answered while the work went on.
            if self.sessions(condition) == 1 {
                rounds += 1;
                slowest = slowest.max(took);
            }
        }
        println!("{what}: slowest answer {slowest:?} in {rounds} rounds");
        assert!(rounds >= ROUNDS, "{what}: {rounds} rounds of probes were answered meanwhile");
    }

    /// Runs a statement in another session and probes meanwhile; returns the session and the result of the statement.
    fn run_beside(&mut self, mut client: Client, sql: &str) -> (Client, Result<(), Error>) {
        let what = sql.get(..60).unwrap_or(sql).to_owned();
        let active = format!("pid = {} AND state = 'active'", pid(&mut client));
        let running = start(client, sql.to_owned());
        self.probe_while(&what, &active, || running.is_finished());
        running.join().expect("the thread of a statement ends")
    }
}

/// Runs a statement on another thread.
fn start(mut client: Client, sql: String) -> JoinHandle<(Client, Result<(), Error>)> {
    thread::spawn(move || {
        let result = client.batch_execute(&sql);
        (client, result)
    })
}

/// Goal: a long statement of any kind blocks no thread that other sessions need. Method: a server with one thread, long
/// statements of each kind, and rounds of probes while the server reports that the statement runs.
#[test]
fn others_are_answered_while_a_long_statement_runs() {
    let mut lab = Lab::start();
    let long_list: Vec<String> = (0..ROWS).map(|n| n.to_string()).collect();
    let in_list = format!("SELECT count(*) FROM u WHERE id IN ({})", long_list.join(", "));
    let mut client = lab.server.connect();
    for sql in [
        "CREATE INDEX t_n ON t (n)",
        "ALTER TABLE t ADD UNIQUE (m)",
        "SELECT (SELECT count(*) FROM generate_series(1, 1000000) g WHERE g <> u.n) FROM u WHERE id = 1",
        "SELECT count(*) FROM (SELECT n FROM t ORDER BY n + m) s, u",
        &in_list,
    ] {
        let (again, result) = lab.run_beside(client, sql);
        result.unwrap_or_else(|error| panic!("{}: {error:?}", &sql[..sql.len().min(60)]));
        client = again;
    }
    run(&mut client, "BEGIN; SAVEPOINT s; UPDATE t SET n = n + 1");
    let (mut client, result) = lab.run_beside(client, "ROLLBACK TO s");
    result.unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT sum(n - id % 100) FROM t"), 0);
    run(&mut client, "UPDATE t SET n = n + 1");
    let (mut client, result) = lab.run_beside(client, "ROLLBACK");
    result.unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT sum(n - id % 100) FROM t"), 0);
    run(&mut client, "CREATE TABLE c (id int PRIMARY KEY, u int REFERENCES u DEFERRABLE INITIALLY DEFERRED)");
    run(&mut client, "BEGIN; INSERT INTO c SELECT g, 1 + g % 10 FROM generate_series(1, 100000) g");
    lab.run_beside(client, "COMMIT").1.unwrap();
}

/// Goal: the rollback for a client that disconnects blocks no thread either, and its rows are free once its session has
/// ended. Method: disconnect during an open transaction over all rows; probe while its session is still listed.
#[test]
fn others_are_answered_while_the_transaction_of_a_lost_client_is_undone() {
    let mut lab = Lab::start();
    let mut client = lab.server.connect();
    let listed = format!("pid = {}", pid(&mut client));
    run(&mut client, "BEGIN");
    // Enough writes that their undo takes longer than the rounds.
    (0..8).for_each(|_| run(&mut client, "UPDATE t SET n = n + 1"));
    drop(client);
    lab.probe_while("a lost client", &listed, || false);
    let watch = Stopwatch::start();
    while lab.sessions(&listed) > 0 {
        assert!(watch.elapsed() < PATIENCE, "its session stays");
        thread::sleep(Duration::from_millis(5));
    }
    run(&mut lab.watcher, "UPDATE t SET n = n + 1 WHERE id = 1");
    assert_eq!(value::<i64>(&mut lab.watcher, "SELECT sum(n - id % 100) FROM t"), 1);
}

/// Goal: long work can be cancelled and has time limits like any other, and leaves nothing. Method: a CREATE INDEX that
/// another connection cancels once it runs; then time limits on it, and on a text that takes longer to parse.
#[test]
fn long_work_is_cancelled_and_timed() {
    let mut lab = Lab::start();
    let mut client = lab.server.connect();
    let active = format!("pid = {} AND state = 'active'", pid(&mut client));
    let cancel = client.cancel_token();
    let running = start(client, "CREATE INDEX t_n ON t (n)".to_owned());
    let watch = Stopwatch::start();
    while lab.sessions(&active) == 0 {
        assert!(watch.elapsed() < PATIENCE && !running.is_finished(), "it does not run");
    }
    cancel.cancel_query(NoTls).unwrap();
    let (mut client, result) = running.join().unwrap();
    assert_eq!(state(&result.unwrap_err()), "57014");
    run(&mut client, "SET statement_timeout = 20");
    let list: Vec<String> = (0..4 * ROWS).map(|n| n.to_string()).collect();
    for sql in ["CREATE INDEX t_n ON t (n)", &format!("SELECT count(*) FROM u WHERE id IN ({})", list.join(", "))] {
        assert_eq!(state(&client.batch_execute(sql).unwrap_err()), "57014", "{}", &sql[..sql.len().min(60)]);
    }
    run(&mut client, "SET statement_timeout = 0");
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM pg_class WHERE relname = 't_n'"), 0);
    run(&mut client, "CREATE INDEX t_n ON t (n)");
}
