//! The memory limit as a client sees it: 53200 with a helpful message, and ways to get below it again.

use std::{thread, time::Duration};

use collie_clients_tests::{Server, Stopwatch, message, session::value, state};
use postgres::Client;

/// How long it may take until deleted rows are freed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Inserts rows of a kilobyte with ids from `from` on until one is refused; returns the number of rows inserted.
fn fill(client: &mut Client, from: i32) -> i32 {
    for id in from..from + 10_000 {
        if let Err(error) = client.execute("INSERT INTO t VALUES ($1, repeat('x', 1000))", &[&id]) {
            assert_eq!(state(&error), "53200");
            assert!(message(&error).contains("store.memory_limit is 2097152"), "{}", message(&error));
            return id - from;
        }
    }
    panic!("nothing was refused");
}

/// Goal: at the limit, a statement that stores rows fails with 53200, its transaction leaves nothing, and other
/// sessions are not affected; reads, DELETE and DROP TABLE go on, and afterwards INSERT does too. Method: two sessions
/// and a server with a limit of 2 MiB.
#[test]
fn memory_limit_is_reached_felt_and_left() {
    let server = Server::fresh_with(&["--set", "store.memory_limit=2MiB"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int)").unwrap();
    client.batch_execute("INSERT INTO u SELECT g FROM generate_series(1, 10) g").unwrap();
    other.batch_execute("BEGIN; INSERT INTO u VALUES (11)").unwrap();
    let rows = fill(&mut client, 0);
    assert!(rows > 500, "{rows} rows of a kilobyte in two mebibytes");

    client.batch_execute("BEGIN; DELETE FROM t WHERE id = 0").unwrap();
    let error = client.batch_execute("INSERT INTO u SELECT g FROM generate_series(20, 1000) g").unwrap_err();
    assert_eq!(state(&error), "53200");
    client.batch_execute("ROLLBACK").unwrap();
    other.batch_execute("COMMIT").unwrap();
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM u"), 11);
    assert_eq!(value::<i64>(&mut other, "SELECT count(*) FROM t"), i64::from(rows));

    other.batch_execute("DELETE FROM t WHERE id < 300").unwrap();
    let recover = |client: &mut Client, id: i32| {
        let watch = Stopwatch::start();
        while client.execute("INSERT INTO u VALUES ($1)", &[&id]).is_err() {
            assert!(watch.elapsed() < PATIENCE, "nothing can be stored after rows went");
            thread::sleep(Duration::from_millis(5));
        }
    };
    recover(&mut client, 30);
    fill(&mut client, 10_000);
    other.batch_execute("DROP TABLE t").unwrap();
    recover(&mut client, 31);
    other.batch_execute("CREATE TABLE t (id int PRIMARY KEY, v text)").unwrap();
    recover(&mut other, 32);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM u"), 14);
}
