//! Read your writes: a client gets the token of its commit and waits for it on a replica; and which tokens survive a
//! crash.

use collie_clients_tests::{Place, Server, Wire, session::value, state, wire::startup};
use collie_netlab::Port;
use postgres::Client;

/// Runs a statement that commits, and returns the token that the server reports before ReadyForQuery.
fn commit(wire: &mut Wire, sql: &str) -> String {
    let messages = wire.query(sql);
    assert_eq!(messages.last().map(|message| message.kind), Some(b'Z'), "{messages:?}");
    let reported = messages.iter().find_map(|message| {
        let mut words = message.body.split(|byte| *byte == 0);
        let is_token = message.kind == b'S' && words.next() == Some(b"collie.last_commit");
        is_token
            .then(|| String::from_utf8(words.next().expect("a token has a word").to_vec()).expect("a token is text"))
    });
    reported.unwrap_or_else(|| panic!("{sql} reports no commit: {messages:?}"))
}

fn connect(server: &Server) -> Wire {
    let mut wire = Wire::open(server.address());
    wire.send(&startup(&[("user", "collie"), ("database", "collie"), ("options", "-c collie.report_commit=on")]));
    wire.until_ready();
    wire
}

fn wait_for(client: &mut Client, token: &str) {
    client.batch_execute(&format!("SET collie.wait_for_lsn = '{token}'")).expect("it is a setting");
}

/// Goal: a client that waits for a commit on a replica reads it, each time, also after a crash of the primary. A token
/// that a crash took back is reported as lost on both nodes; an earlier one of the same history is not. Method: a row
/// is written on the primary and read on the replica at once, many times; the primary is killed and started again,
/// which begins a history; tokens of the history before.
#[test]
fn a_client_reads_its_writes_on_a_replica() {
    let (here, there) = (Place::new(), Place::new());
    // The primary gets the same address after a restart, where its replica looks for it.
    let port = Port::keep().unwrap();
    let address = port.address().to_string();
    let server = Server::start_with(&here, &["--replica-listen", &address]);
    let mut wire = connect(&server);
    let first = commit(&mut wire, "CREATE TABLE t (n int PRIMARY KEY)");
    let copy = Server::start_with(&there, &["--replica-of", &address]);
    let mut reader = copy.connect();
    reader.batch_execute("SET collie.wait_timeout = '60s'").unwrap();
    for n in 1..=50_i64 {
        let token = commit(&mut wire, &format!("INSERT INTO t VALUES ({n})"));
        wait_for(&mut reader, &token);
        assert_eq!(value::<i64>(&mut reader, "SELECT count(*) FROM t"), n, "{token}");
    }
    let made = commit(&mut wire, "CREATE TABLE made (n int)");
    wait_for(&mut reader, &made);
    assert_eq!(value::<i64>(&mut reader, "SELECT count(*) FROM made"), 0, "a table that has just come");
    assert!(value::<bool>(&mut reader, "SELECT pg_last_wal_receive_lsn() >= pg_last_wal_replay_lsn()"));

    server.kill();
    let server = Server::start_with(&here, &["--replica-listen", &address]);
    let mut wire = connect(&server);
    let after = commit(&mut wire, "INSERT INTO t VALUES (100)");
    let history = |token: &str| token.split_once(':').unwrap().0.to_owned();
    assert_eq!(history(&first), history(&made));
    assert_ne!(history(&made), history(&after));
    wait_for(&mut reader, &after);
    assert_eq!(value::<i64>(&mut reader, "SELECT max(n)::bigint FROM t"), 100);
    for client in [&mut reader, &mut server.connect()] {
        for known in [&first, &made] {
            wait_for(client, known);
            assert_eq!(value::<i64>(client, "SELECT count(*) FROM t"), 51);
        }
        wait_for(client, &format!("{}:FFFF/0", history(&made)));
        let lost = client.query("SELECT count(*) FROM t", &[]).unwrap_err();
        assert_eq!(state(&lost), "40001", "{lost:?}");
        client.batch_execute("SET collie.wait_timeout = '30ms'").unwrap();
        wait_for(client, "1:0/1000");
        let unknown = client.query("SELECT count(*) FROM t", &[]).unwrap_err();
        assert_eq!(state(&unknown), "57014", "{unknown:?}");
    }
    reader.batch_execute("RESET collie.wait_for_lsn").unwrap();
    assert_eq!(value::<String>(&mut reader, "SHOW in_hot_standby"), "on");
    drop((reader, copy, server));
}
