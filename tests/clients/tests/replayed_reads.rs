//! Sampled reads from end to end: taken from a primary's clients and run again on its replica, without delay for
//! either.

use collie_clients_tests::{
    Server,
    nodes::{Nodes, put},
    program,
    session::value,
};
use postgres::Client;

const ALL: [&str; 2] = ["--set", "training.read_share=1"];

/// Returns a column of the row of `side`, or 0 if there is no row.
fn figure(client: &mut Client, side: &str, column: &str) -> i64 {
    let sql = format!("SELECT coalesce(max({column}), 0) FROM collie_training.reads WHERE side = '{side}'");
    value(client, &sql)
}

/// Starts a primary with 1,000 numbers and a replica that has them.
fn pair(nodes: &Nodes, more: &[&str]) -> [Server; 2] {
    let a = nodes.start(0, more);
    let mut client = a.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY)").expect("the primary answers");
    client.batch_execute("INSERT INTO notes SELECT i FROM generate_series(0, 999) i").expect("the primary answers");
    let b = nodes.start(1, &[&["--replica-of", &nodes.addresses[0]], more].concat());
    let numbers: Vec<i32> = (0..1000).collect();
    nodes.until_shown("the replica follows", &b, &numbers);
    [a, b]
}

/// Runs reads by both protocols, inside and outside transactions: points, ranges and an aggregate.
fn reads(client: &mut Client, rounds: i32) {
    let point = client.prepare("SELECT n FROM notes WHERE n = $1").expect("the primary answers");
    let range = client.prepare("SELECT n FROM notes WHERE n BETWEEN $1 AND $2").expect("the primary answers");
    for round in 0..rounds {
        assert_eq!(client.query(&point, &[&round]).expect("the primary answers").len(), usize::from(round < 1000));
        let found = client.query(&range, &[&10, &(10 + round % 7)]).expect("the primary answers").len();
        assert_eq!(i32::try_from(found), Ok(1 + round % 7));
        client.simple_query(&format!("SELECT count(*) FROM notes WHERE n < {round}")).expect("the primary answers");
        let mut transaction = client.transaction().expect("the primary answers");
        transaction.query(&point, &[&(round + 1)]).expect("the primary answers");
        transaction.commit().expect("the primary answers");
    }
}

/// Goal: clients' reads run again on the replica and return the same rows as on the primary, also those of an
/// unmodified program; statements that write, lock or have other effects are not sent. Method: take every read; compare
/// the row counts of both sides; pgbench's reads.
#[test]
fn reads_run_again_on_the_replica_with_the_same_rows() {
    let nodes = Nodes::new(2);
    let [a, b] = pair(&nodes, &ALL);
    let (mut client, mut there) = (a.connect(), b.connect());
    nodes.until("reads of every kind are run", || {
        reads(&mut client, 20);
        figure(&mut there, "replica", "run") >= 100
    });
    for side_effect in [
        "SELECT n FROM notes WHERE n = 7 FOR UPDATE",
        "SELECT pg_advisory_xact_lock(n) FROM notes WHERE n < 3",
        "SELECT n + random() FROM notes",
        "INSERT INTO notes VALUES (5000) ON CONFLICT DO NOTHING RETURNING n",
        "DELETE FROM notes WHERE n = 5000 RETURNING n",
        "SELECT relname FROM pg_class WHERE relname = 'notes'",
    ] {
        (0..3).for_each(|_| assert!(client.query(side_effect, &[]).is_ok(), "{side_effect}"));
        client.batch_execute("DELETE FROM notes WHERE n = 5000").unwrap();
    }
    let init = program::pgbench(&a, &["-i", "-q", "-s", "1"]);
    assert_eq!(init.code, Some(0), "{}", init.err);
    let before = figure(&mut there, "replica", "run");
    nodes.until("pgbench's reads are run", || {
        let done = program::pgbench(&a, &["-n", "-S", "-c", "2", "-t", "50", "-M", "prepared"]);
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        figure(&mut there, "replica", "run") >= before + 50
    });
    let row = "SELECT rows = primary_rows AND rows > 100 AND failed = 0 AND unfit = 0 AND unknown = 0 AND spent_us > 0 \
         FROM collie_training.reads WHERE side = 'replica'";
    // A read that has just run counts in one column before the other.
    nodes.until("rows are those of the primary", || value::<bool>(&mut there, row));
    assert!(figure(&mut client, "primary", "unfit") > 0);
    // The values are read in this order because more reads are shipped meanwhile.
    let taken = figure(&mut there, "replica", "taken");
    nodes.until("what was taken was shipped", || figure(&mut client, "primary", "shipped") >= taken);
    let listed = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
    // The end of a session that looked at the view becomes visible a moment later.
    nodes.until("nobody is connected to run them", || value::<i64>(&mut there, listed) == 0);
    for log in nodes.places.iter().map(|place| place.log()) {
        assert!(!log.contains("FROM notes"), "no text is told: {log}");
    }
}

/// Goal: with sampling off, no read is taken and the replica runs none. Method: the same reads at a share of 0,
/// followed by a write that the replica shows.
#[test]
fn switched_off_no_read_is_taken() {
    let nodes = Nodes::new(2);
    let [a, b] = pair(&nodes, &["--set", "training.read_share=0"]);
    let (mut client, mut there) = (a.connect(), b.connect());
    reads(&mut client, 50);
    put(&mut client, 1000..1001);
    let numbers: Vec<i32> = (0..1001).collect();
    nodes.until_shown("what comes behind them", &b, &numbers);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_training.reads"), 0);
    assert_eq!(figure(&mut there, "replica", "taken"), 0);
    let refused = Server::refused(&nodes.places[0].beside("other"), &["--set", "training.read_share=2"]);
    assert!(refused.line().contains("training.read_share"), "{}", refused.said);
}

/// Goal: a frozen replica does not delay the primary: reads and commits are answered, the reads that were taken are
/// dropped and counted, and once the replica resumes it gets the log and runs reads again. Method: SIGSTOP until drops
/// are counted, SIGCONT.
#[test]
fn a_stalled_replica_drops_reads_and_the_primary_goes_on() {
    let nodes = Nodes::new(2);
    let [a, b] = pair(&nodes, &ALL);
    let (mut client, mut look) = (a.connect(), a.connect());
    let mut there = b.connect();
    nodes.until("reads are run", || {
        reads(&mut client, 10);
        figure(&mut there, "replica", "run") > 0
    });
    b.pause();
    let mut number = 1000;
    let wide = "SELECT n FROM notes WHERE n = ANY ($1::int[])";
    let statement = client.prepare(wide).unwrap();
    let some: Vec<i32> = (0..1000).collect();
    nodes.until("reads are dropped", || {
        put(&mut client, number..number + 5);
        number += 5;
        (0..20).for_each(|_| assert_eq!(client.query(&statement, &[&some]).unwrap().len(), 1000));
        figure(&mut look, "primary", "queue_full") + figure(&mut look, "primary", "late") > 50
    });
    b.go_on();
    let numbers: Vec<i32> = (0..number).collect();
    nodes.until_shown("the log", &b, &numbers);
    let before = figure(&mut there, "replica", "run");
    nodes.until("reads are run again", || {
        reads(&mut client, 10);
        figure(&mut there, "replica", "run") > before
    });
}

/// Goal: a promotion ends the sampled reads that run and succeeds at once, and the former replica takes reads for the
/// next one; a long read does not delay it. Method: reads over all pairs of 1,000 numbers, and a promotion in the
/// middle of them; the old primary follows.
#[test]
fn a_promotion_ends_what_runs() {
    let nodes = Nodes::new(2);
    let [a, b] = pair(&nodes, &ALL);
    let (mut client, mut there) = (a.connect(), b.connect());
    let pairs = client.prepare("SELECT count(*) FROM notes x, notes y WHERE x.n + y.n > $1").unwrap();
    nodes.until("a long read has begun", || {
        client.query(&pairs, &[&7]).unwrap();
        figure(&mut there, "replica", "spent_us") > 0
    });
    (0..3).for_each(|_| _ = client.query(&pairs, &[&7]).unwrap());
    a.kill();
    let promoted = program::collie(&["promote", &b.url()], "").ok();
    assert!(promoted.starts_with("promoted: leads in term 1"), "{promoted}");
    let ended: Vec<i64> = ["run", "failed", "late"].map(|column| figure(&mut there, "replica", column)).into();
    put(&mut there, 1000..1010);

    let a = nodes.start(0, &ALL);
    let numbers: Vec<i32> = (0..1010).collect();
    nodes.until_shown("the old primary follows", &a, &numbers);
    let mut back = a.connect();
    nodes.until("it runs reads of the new one", || {
        reads(&mut there, 10);
        figure(&mut back, "replica", "run") > 0
    });
    let still: Vec<i64> = ["run", "failed", "late"].map(|column| figure(&mut there, "replica", column)).into();
    assert_eq!(ended, still, "nothing runs where it leads");
    assert!(figure(&mut there, "primary", "taken") > 0);
}
