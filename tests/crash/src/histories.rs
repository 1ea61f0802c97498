//! `txn-histories`: random transactions on the engine in this process; the oracle checks everything that they saw.
//!
//! A round has its own database: `threads` concurrent sessions, each with its share of transactions. Then the database
//! is closed, opened again and read once more, so that the recovered state is part of the history. Rounds differ in the
//! log's protocol and in the size of the ring of transaction ids, the smallest of which is lapped all the time. The
//! garbage collector runs at the same time. The seed fixes what is tried, not how threads meet: a violation prints the
//! history's end, not a script.

mod client;
mod oracle;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    thread,
    time::Duration,
};

use anyhow::Context;
use collie_engine::{
    Db, Env, Isolation, KeyRange, Options, StatementKind, TracedSession, commits_in_log, lapped_lookups,
};
use collie_env::{Clock, RealClock};
use collie_wal::Protocol;

use crate::{
    random::Random,
    report::{Figures, Report},
};
use client::{Client, Tables};
use oracle::{Facts, History};

/// The arguments of the command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The total number of transactions, including those that are rolled back.
    pub(crate) transactions: u64,
    pub(crate) seed: u64,
    pub(crate) threads: u64,
    pub(crate) levels: Vec<Isolation>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<_> = self.levels.iter().map(|level| name(*level)).collect();
        let Self { transactions, seed, threads, .. } = self;
        let levels = levels.join(",");
        write!(f, "txn-histories --transactions {transactions} --seed {seed} --threads {threads} --levels {levels}")
    }
}

/// The transactions of a round: its history must fit into memory, at about 1 KiB for each.
const ROUND_TRANSACTIONS: u64 = 20_000;

/// The sizes of the ring of ids, in turn. With 8 and 16, a transaction that stays open during a few others is lapped.
const XID_SLOTS: [usize; 4] = [8, 16, 64, 1024];

/// All levels, and their names.
const LEVELS: [(Isolation, &str); 3] = [
    (Isolation::ReadCommitted, "read-committed"),
    (Isolation::RepeatableRead, "repeatable-read"),
    (Isolation::Serializable, "serializable"),
];

/// Parses the name of a level.
///
/// # Errors
/// A sentence with the names of all levels.
pub(crate) fn level(name: &str) -> Result<Isolation, String> {
    let found = LEVELS.iter().find(|(_, known)| *known == name);
    found
        .map(|(level, _)| *level)
        .ok_or_else(|| format!("a level is one of {}", LEVELS.map(|(_, name)| name).join(", ")))
}

fn name(level: Isolation) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).map_or("?", |(_, name)| name)
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    let mut random = Random::new(plan.seed);
    let (mut facts, mut lapped, mut left, mut round) = (Facts::default(), 0, plan.transactions, 0);
    while left > 0 {
        let transactions = left.min(ROUND_TRANSACTIONS);
        let (history, lookups) =
            play(plan, round, transactions, random.next()).with_context(|| format!("round {round}"))?;
        facts.add(oracle::check(&history).with_context(|| format!("round {round}"))?);
        lapped += lookups;
        left -= transactions;
        round += 1;
    }
    anyhow::ensure!(
        lapped > 0 || plan.transactions < ROUND_TRANSACTIONS,
        "the ring of ids was never lapped under a reader: the run did not test what it is for"
    );
    let seconds = Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64();
    let Facts { transactions, commits, reads, scans, scanned_rows, holds, own, old, lasting, skewed } = facts;
    let words = format!(
        "txn-histories: {transactions} transactions in {round} rounds, {commits} committed; {reads} reads and {scans} scans \
         of {scanned_rows} rows, {own} of own versions, {old} reads of rows that were changed later; {holds} writes and locks; \
         {lasting} reads of SERIALIZABLE that lasted, {skewed} transactions below it that others had passed; \
         {lapped} look-ups of lapped ids: snapshots are exact; {seconds:.1} s"
    );
    Ok(Report::new(words, Figures { cycles: round, checked: transactions, ..Figures::default() }))
}

/// Plays one round. Returns its history, and the number of lookups of lapped ids.
fn play(plan: &Plan, round: u64, transactions: u64, seed: u64) -> anyhow::Result<(History, u64)> {
    let dir = tempfile::Builder::new().prefix("collie-histories-").tempdir()?;
    let options = options(round);
    let (db, _) = Db::open(dir.path(), options.clone(), Env::real(), &mut |_| ())?;
    let tables = Tables::create(&db);
    let mut history = History::default();
    history.sessions.push(tables.fill(TracedSession::new(db.session()?))?);
    let heard = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..plan.threads)
        .map(|number| {
            let share = transactions / plan.threads + u64::from(number < transactions % plan.threads);
            let session = TracedSession::new(db.session()?);
            let client = Client::new(number, session, &tables, Random::new(seed ^ number << 32), &plan.levels, &heard);
            Ok(thread::spawn(move || client.run(share)))
        })
        .collect::<anyhow::Result<_>>()?;
    for client in clients {
        history.sessions.push(client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
    }
    let lapped = lapped_lookups(&db);
    db.close()?;
    drop((tables, db));

    // The recovered state is read through the oracle as well.
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).context("opening it again")?;
    history.sessions.push(read_all(&db)?);
    history.log = commits_in_log(&db)?;
    db.close()?;
    Ok((history, lapped))
}

/// Returns the settings of a round.
fn options(round: u64) -> Options {
    let turn = usize::try_from(round % 12).unwrap_or_default();
    let mut options = Options::small();
    options.log.protocol = [Protocol::Help, Protocol::Base, Protocol::Mutex][turn % 3];
    options.log.ring = collie_wal::RingKind::Private;
    options.xid_slots = XID_SLOTS[turn % XID_SLOTS.len()];
    // In every second round, commits leave the stamping of their versions to the background thread.
    options.stamped_at_commit_max = if turn % 2 == 0 { options.stamped_at_commit_max } else { 1 };
    // In the rounds with the small rings, a snapshot is cancelled as soon as it retains an old version.
    options.max_snapshot_age = (turn % 4 < 2).then_some(Duration::ZERO);
    options
}

/// Scans every family of a reopened database, in both directions.
fn read_all(db: &Db) -> anyhow::Result<Vec<collie_engine::Event>> {
    let mut session = TracedSession::new(db.session()?);
    session.begin(Isolation::RepeatableRead, true)?;
    session.begin_statement(StatementKind::ReadOnly)?;
    for cf in db.families() {
        let family = db.family(cf);
        for reverse in [false, true] {
            let all = &mut |_: &[u8], _: &[u8]| std::ops::ControlFlow::Continue(());
            let _end = session.scan(&family, &KeyRange::ALL, reverse, usize::MAX, all)?;
        }
    }
    session.commit(false)?;
    Ok(session.into_events())
}
