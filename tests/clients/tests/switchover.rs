//! A switchover from end to end: no commit is lost at any level, and a primary whose successor fails goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_clients_tests::{
    Server,
    nodes::{Nodes, put},
    program,
    session::{self, value},
    simple_query, state,
};
use postgres::{Client, Config, NoTls, error::SqlState};

/// The only SQLSTATEs that clients may get: the session is ended, it may not write here, or the server is not ready
/// yet.
const TOLD: [&str; 3] = ["57P01", "25006", "57P03"];

/// Clients that write to the current primary, at two commit levels, and count the acknowledged commits.
struct Writers {
    stop: Arc<AtomicBool>,
    /// The number of commits acknowledged so far.
    acknowledged: Arc<AtomicU64>,
    /// The SQLSTATEs seen.
    seen: Arc<Mutex<BTreeSet<String>>>,
    threads: Vec<JoinHandle<i32>>,
}

impl Writers {
    fn start(servers: &[&Server]) -> Self {
        let (stop, acknowledged, seen) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<Mutex<BTreeSet<String>>>)>::default();
        let configs: Vec<Config> = servers.iter().map(|server| server.config()).collect();
        let writer = |number: i32| {
            let (stop, acknowledged, seen, configs) =
                (stop.clone(), acknowledged.clone(), seen.clone(), configs.clone());
            thread::spawn(move || {
                let mut next = 0;
                let (mut at, mut is_unknown) = (0, false);
                while !stop.load(Ordering::Relaxed) {
                    let ended = write_on(&configs[at], number, (&mut next, &mut is_unknown), &stop, &acknowledged);
                    if let Err(error) = ended {
                        // A client whose session is ended or whose connection breaks does not learn the outcome of its
                        // last statement, which may have been waiting for the disk.
                        is_unknown |= error.code().is_none_or(|code| *code == SqlState::ADMIN_SHUTDOWN);
                        let code = error.code().map(|code| code.code().to_owned());
                        seen.lock().expect("nobody panics").extend(code);
                    }
                    at = (at + 1) % configs.len();
                }
                next
            })
        };
        let threads = (0..4).map(writer).collect();
        Self { stop, acknowledged, seen, threads }
    }

    /// Waits until more commits are acknowledged.
    fn until_more(&self, nodes: &Nodes) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        nodes.until("clients write", || self.acknowledged.load(Ordering::Relaxed) >= before + 40);
    }

    /// Stops the clients; returns the number of acknowledged commits of each, and the SQLSTATEs that they got.
    fn stop(self) -> (Vec<i32>, BTreeSet<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let counts = self.threads.into_iter().map(|writer| writer.join().expect("a writer ends")).collect();
        (counts, Arc::into_inner(self.seen).expect("they have ended").into_inner().expect("no writer panicked"))
    }
}

/// Inserts entries from `next` on until the server refuses. If the outcome of `next` is unknown, checks first whether
/// that entry is there. Returns at once on a replica.
fn write_on(
    config: &Config,
    writer: i32,
    (next, is_unknown): (&mut i32, &mut bool),
    stop: &AtomicBool,
    acknowledged: &AtomicU64,
) -> Result<(), postgres::Error> {
    let mut client = config.connect(NoTls)?;
    if client.query_one("SELECT pg_is_in_recovery()", &[])?.get(0) {
        thread::sleep(Duration::from_millis(2));
        return Ok(());
    }
    let level = if writer % 2 == 0 { "off" } else { "on" };
    client.batch_execute(&format!("SET synchronous_commit = {level}"))?;
    if *is_unknown {
        let there = client.query_one("SELECT count(*) FROM entries WHERE w = $1 AND n = $2", &[&writer, next])?;
        *next += i32::from(there.get::<_, i64>(0) > 0);
        *is_unknown = false;
    }
    while !stop.load(Ordering::Relaxed) {
        client.execute("INSERT INTO entries VALUES ($1, $2)", &[&writer, next])?;
        *next += 1;
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Returns the number of times that each entry is there.
fn entries(client: &mut Client) -> BTreeMap<(i32, i32), i64> {
    let rows = client.query("SELECT w, n, count(*) FROM entries GROUP BY w, n", &[]).expect("it answers");
    rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

/// Checks that every acknowledged entry is there exactly once, and no other one except a writer's last, whose outcome
/// it does not know.
fn check(found: &BTreeMap<(i32, i32), i64>, counts: &[i32], nodes: &Nodes) {
    for (writer, count) in (0..).zip(counts) {
        let missing: Vec<i32> = (0..*count).filter(|n| !found.contains_key(&(writer, *n))).collect();
        assert!(missing.is_empty(), "writer {writer}: lost {missing:?} of {count}\n{}", nodes.logs());
    }
    for ((writer, n), times) in found {
        let count = usize::try_from(*writer).ok().and_then(|writer| counts.get(writer));
        assert!(
            *times == 1 && count.is_some_and(|count| n <= count),
            "{n} of writer {writer}, {times} times\n{}",
            nodes.logs()
        );
    }
}

fn switch_over(to: &Server, more: &[&str]) -> program::Done {
    program::collie(&[&["promote", "--switchover"], more, &[to.url().as_str()]].concat(), "")
}

/// Starts two nodes with a table, the second as a replica of the first.
fn two(nodes: &Nodes, table: &str) -> (Server, Server) {
    let a = nodes.start(0, &[]);
    a.connect().batch_execute(table).expect("a table is made");
    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    (a, b)
}

fn until_follows(nodes: &Nodes, server: &Server) {
    nodes.until("the old primary follows", || {
        let asked =
            server.config().connect(NoTls).and_then(|mut client| client.query_one("SELECT pg_is_in_recovery()", &[]));
        asked.is_ok_and(|row| row.get(0))
    });
}

/// Goal: over five pairs of switchovers there and back, under clients that write all the time, no acknowledged commit
/// is lost or duplicated, not even an asynchronous one. Refused writes are not there; the old primary follows in the
/// same process, with its whole log; and clients get only errors that mean that they should retry. Method: clients that
/// write each number until it is acknowledged, into tables without a key; all entries on both nodes at the end; no tail
/// is set aside.
#[test]
fn switchovers_there_and_back_lose_no_commit_and_double_none() {
    let nodes = Nodes::new(2);
    let (a, b) = two(&nodes, "CREATE TABLE entries (w int, n int)");
    let writers = Writers::start(&[&a, &b]);
    for _ in 0..5 {
        for (to, from) in [(&b, &a), (&a, &b)] {
            writers.until_more(&nodes);
            let done = switch_over(to, &[]);
            assert_eq!(done.code, Some(0), "{}{}\n{}", done.out, done.err, nodes.logs());
            assert!(done.out.contains("nothing is lost"), "{}", done.out);
            until_follows(&nodes, from);
            writers.until_more(&nodes);
        }
    }
    let (counts, told) = writers.stop();
    let found = entries(&mut a.connect());
    check(&found, &counts, &nodes);
    nodes.until("the replica has all", || entries(&mut b.connect()) == found);
    assert!(told.iter().all(|told| TOLD.contains(&told.as_str())), "{told:?}\n{}", nodes.logs());
    assert!(!told.is_empty(), "nobody was told anything\n{}", nodes.logs());
    for place in &nodes.places {
        assert!(!place.data().join("diverged").exists(), "nothing had to be cut\n{}", nodes.logs());
    }
    for server in [b, a] {
        assert_eq!(server.stop().code(), Some(0), "{}", nodes.logs());
    }
}

/// Goal: open transactions get the time that the switchover allows: one that commits within it is on the new primary,
/// one that does not is ended (57P01) and is nowhere. A session that begins to write meanwhile waits and then gets an
/// error to retry; a reader goes on until its session ends. Method: one of each; a switchover with enough time, and one
/// without.
#[test]
fn open_transactions_commit_in_time_or_are_ended() {
    let nodes = Nodes::new(2);
    let (a, b) = two(&nodes, "CREATE TABLE notes (n int PRIMARY KEY)");
    let mut open = a.connect();
    session::run(&mut open, "SET synchronous_commit = off; BEGIN; INSERT INTO notes VALUES (1)");
    let url = b.url();
    let switching = thread::spawn(move || program::collie(&["promote", "--switchover", "--timeout", "60s", &url], ""));
    nodes.until("the primary is asked", || nodes.places[0].log().contains("handing over to b"));
    let mut begins = a.connect();
    let begun = thread::spawn(move || begins.batch_execute("INSERT INTO notes VALUES (2)"));
    // Wait until the statement has arrived: a session that ends while its client sends gets no error.
    let is_waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'INSERT INTO notes VALUES (2)'";
    let mut look = a.connect();
    nodes.until("it begins", || value::<i64>(&mut look, is_waiting) == 1);
    assert_eq!(value::<i64>(&mut look, "SELECT count(*) FROM notes"), 0, "readers go on");
    session::run(&mut open, "INSERT INTO notes VALUES (3)");
    assert!(!begun.is_finished(), "it waits");
    session::run(&mut open, "COMMIT");
    let done = switching.join().expect("it ends");
    assert_eq!(done.code, Some(0), "{}{}\n{}", done.out, done.err, nodes.logs());
    let refused = begun.join().expect("it ends").expect_err("it was on the old primary");
    assert!(TOLD.contains(&state(&refused).as_str()), "{refused:?}");
    nodes.until_shown("what committed in time is there", &b, &[1, 3]);

    until_follows(&nodes, &a);
    let mut late = b.connect();
    session::run(&mut late, "BEGIN; INSERT INTO notes VALUES (4)");
    // The successor has the same time to take over.
    let done = switch_over(&a, &["--timeout", "3s"]);
    assert_eq!(done.code, Some(0), "{}{}\n{}", done.out, done.err, nodes.logs());
    let ended = simple_query(&mut late, "COMMIT").expect_err("its time was over");
    assert_eq!(state(&ended), "57P01", "{ended:?}");
    put(&mut a.connect(), 5..7);
    nodes.until_shown("the others follow", &b, &[1, 3, 5, 6]);
    nodes.until_shown("what was ended is nowhere", &a, &[1, 3, 5, 6]);
}

/// Goal: a primary whose successor does not take over goes on: sessions that waited can write within the time that the
/// switchover allows; the replica follows as before, and the next switchover succeeds. Method: stop the replica
/// (SIGSTOP) between the request and the end of an open transaction; resume it when the primary has given up.
#[test]
fn a_frozen_successor_leaves_the_primary_writing() {
    let nodes = Nodes::new(2);
    let (a, b) = two(&nodes, "CREATE TABLE notes (n int PRIMARY KEY)");
    let (mut open, mut waits) = (a.connect(), a.connect());
    session::run(&mut open, "BEGIN; INSERT INTO notes VALUES (1)");
    let url = b.url();
    // The timeout is as long as the open transaction may take to end.
    let switching = thread::spawn(move || program::collie(&["promote", "--switchover", "--timeout", "10s", &url], ""));
    nodes.until("the primary is asked", || nodes.places[0].log().contains("handing over to b"));
    b.pause();
    let waiting = thread::spawn(move || waits.batch_execute("INSERT INTO notes VALUES (2)"));
    session::run(&mut open, "COMMIT");
    waiting.join().expect("it ends").expect("the primary goes on");
    put(&mut a.connect(), 3..10);
    nodes.places[0].until_said("this node goes on as primary");
    b.go_on();
    let failed = switching.join().expect("it ends");
    assert_eq!(failed.code, Some(1), "{}{}", failed.out, failed.err);
    assert!(failed.err.contains("goes on as one"), "{}", failed.err);
    let expected: Vec<i32> = (1..10).collect();
    nodes.until_shown("the replica follows as before", &b, &expected);
    assert!(value::<bool>(&mut b.connect(), "SELECT pg_is_in_recovery()"));
    put(&mut a.connect(), 10..12);
    let expected: Vec<i32> = (1..12).collect();
    nodes.until_shown("and goes on to", &b, &expected);
    let done = switch_over(&b, &[]);
    assert_eq!(done.code, Some(0), "{}{}\n{}", done.out, done.err, nodes.logs());
    put(&mut b.connect(), 12..14);
    let expected: Vec<i32> = (1..14).collect();
    nodes.until_shown("then it leads", &a, &expected);
}

/// Goal: a primary that is stopped in order leaves its replica with everything: once promoted, the replica has each
/// acknowledged commit, also asynchronous ones; the old primary, started again, follows, and its log needs no cut.
/// Method: clients that write until their server is stopped (SIGTERM), a promotion by force, all entries.
#[test]
fn a_primary_that_is_stopped_in_order_leaves_its_replica_with_everything() {
    let nodes = Nodes::new(2);
    let (a, b) = two(&nodes, "CREATE TABLE entries (w int, n int)");
    let writers = Writers::start(&[&a]);
    writers.until_more(&nodes);
    nodes.until("the replica follows", || !entries(&mut b.connect()).is_empty());
    assert_eq!(a.stop().code(), Some(0), "{}", nodes.logs());
    let (counts, _) = writers.stop();
    program::collie(&["promote", "--force", &b.url()], "").ok();
    let found = entries(&mut b.connect());
    check(&found, &counts, &nodes);
    b.connect().batch_execute("INSERT INTO entries VALUES (9, 9)").expect("it leads");
    let a = nodes.start(0, &[]);
    nodes.until("the old primary follows", || entries(&mut a.connect()).contains_key(&(9, 9)));
    assert!(!nodes.places[0].data().join("diverged").exists(), "{}", nodes.logs());
    assert_eq!(entries(&mut a.connect()).len(), found.len() + 1);
}

/// Goal: an impossible switchover is refused with the remedy, before the primary is asked. Method: a primary; a replica
/// that takes no replicas; a primary that knows no other node.
#[test]
fn a_switchover_that_cannot_be_is_refused_with_a_reason() {
    let nodes = Nodes::new(2);
    let a = Server::start_with(&nodes.places[0], &["--replica-listen", &nodes.addresses[0]]);
    a.connect().batch_execute("CREATE TABLE notes (n int)").expect("a table is made");
    let refused = switch_over(&a, &[]);
    assert!(refused.code == Some(1) && refused.err.contains("recovery is not in progress"), "{}", refused.err);
    let b = Server::start_with(&nodes.places[1], &["--replica-of", &nodes.addresses[0]]);
    nodes.until_shown("it follows", &b, &[]);
    let refused = switch_over(&b, &[]);
    assert!(refused.code == Some(1) && refused.err.contains("--replica-listen"), "{}", refused.err);
    b.kill();
    let b = nodes.start(1, &["--replica-of", &nodes.addresses[0]]);
    nodes.until_shown("it follows again", &b, &[]);
    let refused = switch_over(&b, &["--timeout", "5s"]);
    assert!(refused.code == Some(1) && refused.err.contains("replication.peers"), "{}\n{}", refused.err, nodes.logs());
    put(&mut a.connect(), 0..3);
    nodes.until_shown("the primary has gone on", &b, &[0, 1, 2]);
    let error = b.connect().query_one("SELECT collie_switchover(-1)", &[]).expect_err("no time is negative");
    assert_eq!(state(&error), "22003");
}
