//! pgbench, unmodified: initialization and the built-in scripts in every query mode; afterwards the books must balance.

use collie_clients_tests::{Place, Psql, Server, program};

const CLIENTS: u32 = 4;
const TRANSACTIONS: u32 = 50;

/// Runs one benchmark and checks that every transaction succeeded.
fn bench(server: &Server, arguments: &[&str]) {
    let clients = CLIENTS.to_string();
    let transactions = TRANSACTIONS.to_string();
    let mut all = vec!["-n", "-c", &clients, "-j", "2", "-t", &transactions];
    all.extend(arguments);
    let done = program::pgbench(server, &all);
    let (err, out) = (done.err.clone(), done.ok());
    let expected = CLIENTS * TRANSACTIONS;
    assert!(
        out.contains(&format!("number of transactions actually processed: {expected}/{expected}")),
        "{arguments:?}: {out}{err}"
    );
    assert!(out.contains("number of failed transactions: 0 (0.000%)"), "{arguments:?}: {out}{err}");
}

/// Goal: pgbench runs unmodified and no update is lost. Method: -i, then simple, extended and prepared TPC-B, -N and -S
/// by four clients; afterwards the balances and the history agree, and the history has a row per transaction.
#[test]
fn every_mode_runs_without_failures_and_the_books_balance() {
    let server = Server::fresh();
    let made = program::pgbench(&server, &["-i", "-s", "1", "-q"]);
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    let psql = Psql::new(&server);
    assert_eq!(psql.value("SELECT count(*) FROM pgbench_accounts"), "100000");
    for mode in ["simple", "extended", "prepared"] {
        bench(&server, &["-M", mode]);
    }
    bench(&server, &["-N", "-M", "prepared"]);
    bench(&server, &["-S", "-M", "simple"]);
    bench(&server, &["-S", "-M", "prepared"]);
    let tpcb = 3 * CLIENTS * TRANSACTIONS;
    let skipping = CLIENTS * TRANSACTIONS;
    assert_eq!(psql.value("SELECT count(*) FROM pgbench_history"), (tpcb + skipping).to_string());
    let sum = |column: &str, table: &str| psql.value(&format!("SELECT sum({column}) FROM pgbench_{table}"));
    assert_eq!(sum("abalance", "accounts"), sum("delta", "history"));
    // -N leaves out tellers and branches.
    assert_eq!(sum("tbalance", "tellers"), sum("bbalance", "branches"));
    let per_branch = "SELECT count(*) FROM pgbench_branches b WHERE bbalance <> \
                      (SELECT sum(tbalance) FROM pgbench_tellers t WHERE t.bid = b.bid)";
    assert_eq!(psql.value(per_branch), "0");
}

/// Goal: the balances of tellers, branches, accounts and history agree if only the full script ran, and a second
/// initialization starts from nothing. Method: -i twice, one run, four sums.
#[test]
fn initialising_again_starts_from_nothing() {
    let server = Server::fresh();
    for _ in 0..2 {
        let made = program::pgbench(&server, &["-i", "-s", "1", "-q"]);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    }
    bench(&server, &["-M", "prepared"]);
    let sums = Psql::new(&server).value(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history),
                (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history),
                (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history)",
    );
    assert_eq!(sums, "t|t|t");
}

/// Goal: tables with foreign keys take the full load and keep what the keys promise. Method: `--foreign-keys` twice,
/// the full script by four clients; then the deletion of a branch that tellers refer to, and the insertion of a teller
/// without a branch.
#[test]
fn foreign_keys_hold_under_the_full_script() {
    let server = Server::fresh();
    for _ in 0..2 {
        let made = program::pgbench(&server, &["-i", "-s", "1", "-q", "--foreign-keys"]);
        assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    }
    bench(&server, &["-M", "prepared"]);
    let psql = Psql::new(&server);
    assert_eq!(psql.value("SELECT count(*) FROM pg_constraint WHERE contype = 'f'"), "5");
    for sql in ["DELETE FROM pgbench_branches", "INSERT INTO pgbench_tellers VALUES (11, 2, 0)"] {
        let refused = psql.script(&["-v", "VERBOSITY=verbose"], sql);
        assert!(refused.err.contains("ERROR:  23503"), "{sql}: {}", refused.err);
    }
}

/// Goal: with the smallest log limit, tables that are flushed every few kilobytes, and kills of the server in the
/// middle of it, no transaction is there in part and no acknowledged one is lost. Method: a full run, then runs that a
/// kill ends; after each start the sums over tellers, branches, accounts and history agree.
#[test]
fn books_balance_over_kills_while_tables_are_flushed_all_the_time() {
    const SETTINGS: [&str; 10] = [
        "--set",
        "store.write_buffer_size=16KiB",
        "--set",
        "wal.ring_size=256KiB",
        "--set",
        "wal.flush_bytes=64KiB",
        "--set",
        "wal.segment_size=9MiB",
        "--set",
        "wal.max_total_wal_size=1",
    ];
    let place = Place::new();
    let mut server = Server::start_with(&place, &SETTINGS);
    let made = program::pgbench(&server, &["-i", "-s", "1", "-q"]);
    assert_eq!(made.code, Some(0), "{}{}", made.out, made.err);
    server.connect().batch_execute("CHECKPOINT").unwrap();
    bench(&server, &["-M", "prepared"]);
    let mut rows = u64::from(CLIENTS * TRANSACTIONS);
    for round in 0..3 {
        // In round 0 no load runs at the kill.
        if round > 0 {
            std::thread::scope(|scope| {
                let load = scope.spawn(|| program::pgbench(&server, &["-n", "-c", "4", "-t", "1000000"]));
                let psql = Psql::new(&server);
                while psql.value("SELECT count(*) FROM pgbench_history").parse::<u64>().unwrap() < rows + 50 {}
                rows += 50;
                let pid = server.pid().to_string();
                assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
                assert_ne!(load.join().unwrap().code, Some(0), "it was cut off");
            });
        }
        server.kill();
        let trees = std::fs::read_dir(place.data().join("levels")).unwrap();
        let trees =
            trees.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("tree-")).count();
        assert!(trees > 3, "{trees} tables and indexes were flushed");
        server = Server::start_with(&place, &SETTINGS);
        let psql = Psql::new(&server);
        let found: u64 = psql.value("SELECT count(*) FROM pgbench_history").parse().unwrap();
        assert!(found >= rows, "{found} rows of {rows} that were seen");
        rows = found;
        let sums = psql.value(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history),
                    (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(delta) FROM pgbench_history),
                    (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM pgbench_history),
                    (SELECT count(*) FROM pgbench_accounts)",
        );
        assert_eq!(sums, "t|t|t|100000", "round {round}");
    }
}
