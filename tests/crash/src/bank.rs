//! The bank: a load like pgbench's, whose transactions each leave their client, number and amount in two tables, and
//! the checks after a restart.
//!
//! # Oracles
//! - O1. An acknowledged synchronous transaction is there, in every table that it wrote.
//! - O2. An aborted transaction is not.
//! - O3. An unknown transaction is there whole or not at all.
//! - O4. Of an asynchronous client a prefix of its transactions is there; with a shared ring O1 holds for it as well.
//! - O5. The sums of accounts, tellers, branches and history agree; a secondary index finds the rows of its table.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use postgres::{Client, error::SqlState};

use crate::{
    journal::{Journal, Outcome},
    random::Random,
};

/// The SQLSTATE of a commit that may or may not be there.
const RESOLUTION_UNKNOWN: &str = "08007";

/// How long a client waits after an error.
const AFTER_ERROR: Duration = Duration::from_millis(1);

const BRANCHES: i64 = 2;
const TELLERS: i64 = 20;
const ACCOUNTS: i64 = 500;

/// Creates and fills the tables.
pub(crate) fn create(client: &mut Client) -> anyhow::Result<()> {
    client.batch_execute(
        "CREATE TABLE branches (bid int PRIMARY KEY, bbalance bigint NOT NULL);
         CREATE TABLE tellers (tid int PRIMARY KEY, bid int, tbalance bigint NOT NULL);
         CREATE TABLE accounts (aid int PRIMARY KEY, bid int, abalance bigint NOT NULL, filler char(84));
         CREATE TABLE history (client int, seq int, aid int, delta bigint, note text);
         CREATE INDEX history_client ON history (client, seq);
         CREATE TABLE receipts (client int, seq int, delta bigint, PRIMARY KEY (client, seq));",
    )?;
    let fill = |name: &str, count: i64, row: &dyn Fn(i64) -> String| {
        let rows: Vec<String> = (1..=count).map(row).collect();
        format!("INSERT INTO {name} VALUES {};", rows.join(","))
    };
    client.batch_execute(&fill("branches", BRANCHES, &|id| format!("({id}, 0)")))?;
    client.batch_execute(&fill("tellers", TELLERS, &|id| format!("({id}, {}, 0)", id % BRANCHES + 1)))?;
    client.batch_execute(&fill("accounts", ACCOUNTS, &|id| format!("({id}, {}, 0, '')", id % BRANCHES + 1)))?;
    Ok(())
}

/// Runs transactions of one client until the connection breaks.
pub(crate) fn work(client: &mut Client, journal: &mut Journal, random: &mut Random) {
    work_until(client, journal, random, &AtomicBool::new(false));
}

/// Runs transactions of one client until the connection breaks or `done` is set.
pub(crate) fn work_until(client: &mut Client, journal: &mut Journal, random: &mut Random, done: &AtomicBool) {
    if client
        .batch_execute(if journal.sync { "SET synchronous_commit = on" } else { "SET synchronous_commit = off" })
        .is_err()
    {
        return;
    }
    while !done.load(Ordering::Relaxed) {
        let seq = journal.intend();
        let roll_back = random.below(16) == 0;
        match transaction(client, journal.client, seq, roll_back, random) {
            Ok(()) if roll_back => journal.settle(Outcome::Aborted),
            Ok(()) => journal.settle(Outcome::Acknowledged),
            Err(error) if error.as_db_error().is_some() && !client.is_closed() => {
                let code = error.code().map_or("", SqlState::code);
                *journal.codes.entry(code.to_owned()).or_default() += 1;
                if code != RESOLUTION_UNKNOWN {
                    journal.settle(Outcome::Aborted);
                }
                // Limits the rate at which a server that refuses everything is asked.
                thread::sleep(AFTER_ERROR);
                if client.batch_execute("ROLLBACK").is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Runs one transaction, or rolls it back.
pub(crate) fn transaction(
    client: &mut Client,
    id: u64,
    seq: u64,
    roll_back: bool,
    random: &mut Random,
) -> Result<(), postgres::Error> {
    let number = |bound: i64, random: &mut Random| random.below(bound.unsigned_abs()).cast_signed() + 1;
    let (aid, tid, bid) = (number(ACCOUNTS, random), number(TELLERS, random), number(BRANCHES, random));
    let delta = random.below(10_001).cast_signed() - 5_000;
    // Half of the transactions are one string, half are single statements, so that both paths of a simple query run.
    let statements = [
        "BEGIN".to_owned(),
        format!("UPDATE accounts SET abalance = abalance + {delta} WHERE aid = {aid}"),
        format!("INSERT INTO history VALUES ({id}, {seq}, {aid}, {delta}, 'n{seq}')"),
        format!("UPDATE tellers SET tbalance = tbalance + {delta} WHERE tid = {tid}"),
        format!("UPDATE branches SET bbalance = bbalance + {delta} WHERE bid = {bid}"),
        format!("INSERT INTO receipts VALUES ({id}, {seq}, {delta})"),
        if roll_back { "ROLLBACK" } else { "COMMIT" }.to_owned(),
    ];
    if random.below(2) == 0 {
        client.batch_execute(&statements.join(";"))
    } else {
        statements.iter().try_for_each(|statement| client.batch_execute(statement))
    }
}

/// Compares the tables with the journals. `ring_shared`: whether the log's memory survived the crash.
pub(crate) fn verify(client: &mut Client, journals: &[Journal], ring_shared: bool) -> anyhow::Result<()> {
    let mut one = |sql: &str| -> anyhow::Result<i64> {
        let row = client.query_one(sql, &[]).with_context(|| sql.to_owned())?;
        Ok(row.get::<_, Option<i64>>(0).unwrap_or(0))
    };
    let accounts = one("SELECT sum(abalance)::bigint FROM accounts")?;
    let tellers = one("SELECT sum(tbalance)::bigint FROM tellers")?;
    let branches = one("SELECT sum(bbalance)::bigint FROM branches")?;
    let history = one("SELECT sum(delta)::bigint FROM history")?;
    ensure!(
        accounts == tellers && tellers == branches && branches == history,
        "sums differ: accounts {accounts}, tellers {tellers}, branches {branches}, history {history}"
    );
    let rows = one("SELECT count(*) FROM history")?;
    let indexed = one("SELECT count(*) FROM history WHERE client >= 0 AND seq > 0")?;
    ensure!(rows == indexed, "{rows} rows of history, {indexed} found by its index");
    for journal in journals {
        verify_client(client, journal, ring_shared)
            .with_context(|| format!("client {}, errors {:?}", journal.client, journal.codes))?;
    }
    Ok(())
}

/// Returns one client's transactions in a table, as sequence number and amount.
pub(crate) fn present(client: &mut Client, table: &str, id: u64) -> anyhow::Result<BTreeMap<u64, i64>> {
    let rows = client.query(&format!("SELECT seq, delta FROM {table} WHERE client = {id} ORDER BY seq"), &[])?;
    let count = rows.len();
    let found: BTreeMap<u64, i64> =
        rows.iter().map(|row| (u64::from(row.get::<_, i32>(0).unsigned_abs()), row.get(1))).collect();
    ensure!(found.len() == count, "a transaction is there twice in {table}");
    Ok(found)
}

fn verify_client(client: &mut Client, journal: &Journal, ring_shared: bool) -> anyhow::Result<()> {
    let history = present(client, "history", journal.client)?;
    let receipts = present(client, "receipts", journal.client)?;
    if history != receipts {
        let half = history.keys().chain(receipts.keys()).find(|seq| history.get(seq) != receipts.get(seq));
        bail!(
            "transaction {half:?} is there half: {:?} in history, {:?} in receipts",
            half.and_then(|s| history.get(s)),
            half.and_then(|s| receipts.get(s))
        );
    }
    let mut lost_one = false;
    for (seq, outcome) in (1..).zip(&journal.outcomes) {
        let there = history.contains_key(&seq);
        match outcome {
            Outcome::Acknowledged if journal.sync || ring_shared => {
                ensure!(there, "acknowledged transaction {seq} is lost")
            }
            // An asynchronous client may lose its last commits, but none before one that is there.
            Outcome::Acknowledged if there => ensure!(!lost_one, "transaction {seq} is there, an earlier one is lost"),
            Outcome::Acknowledged => lost_one = true,
            Outcome::Aborted => ensure!(!there, "aborted transaction {seq} is there"),
            Outcome::Unknown => {}
        }
    }
    let last = journal.outcomes.len() as u64;
    ensure!(history.keys().all(|seq| *seq <= last), "a transaction is there that was never sent");
    Ok(())
}
