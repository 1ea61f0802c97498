//! pgbench, unmodified: initialisation and every built-in script in every query mode, then the books must balance.

use collie_clients_tests::{Psql, Server, program};

const CLIENTS: u32 = 4;
const TRANSACTIONS: u32 = 50;

/// Runs one benchmark and checks that every transaction went through.
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

/// Goal: balances of tellers, branches, accounts and history agree when only the full script ran, and initialising again
/// starts from nothing. Method: -i twice, one run, four sums.
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

/// Goal: tables made with foreign keys take the full load, and keep what the keys promise. Method: `--foreign-keys` twice,
/// the full script by four clients; then a branch that tellers refer to is removed, and a teller without a branch added.
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
