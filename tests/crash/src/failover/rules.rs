//! `replica-rules`: rules of replication, each tested by one fault on its own servers. `failover` tests them at random;
//! here nothing is random, so that each mistake that breaks a rule is found each time.
//!
//! Rules, each with its fault, and the planted mistakes that it must find:
//!
//! - R7, R12. A commit at `on` is answered once its replica has it on disk; a commit that needs no replica waits for
//!   none. The disk of a replica hangs. `ACKED_BEFORE_FLUSH`.
//! - R4. A replica shows what a quorum has, and no more, also after a restart. One of two needed replicas is dead.
//!   `SHOW_IGNORED`, `OPENED_UNSETTLED`.
//! - R8. A node that has promised a term confirms nothing of a lower one. A primary is cut off from the promoted node.
//!   `STALE_TERM_ACKED`.
//! - R14. Each commit without its replicas has a warning. The replica is dead. `DEGRADED_SILENTLY`.
//! - A slot keeps no more log than it may. A replica is dead, and four times as much log is written.
//!   `SLOT_CAP_IGNORED`.

use std::{
    fmt,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use collie_env::{Clock, RealClock};
use postgres::{Client, NoTls, types::FromSqlOwned};

use super::nodes::{Nodes, TICK, Words, is_over};
use crate::trio::{NAMES, Trio as _};

/// How long a test watches for an event that must not happen. A mistake causes it within a few milliseconds.
const WATCH: Duration = Duration::from_millis(1500);

/// How long the log must not grow until it counts as quiet: twice the time after which a time mark is written after
/// commits.
const QUIET: Duration = Duration::from_secs(2);

/// The arguments of the command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) server: PathBuf,
    pub(crate) rule: Option<String>,
    pub(crate) plant: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("replica-rules")?;
        self.rule.iter().try_for_each(|rule| write!(f, " --rule {rule}"))?;
        self.plant.iter().try_for_each(|mistake| write!(f, " --plant {mistake}"))
    }
}

type Rule = fn(&Ground) -> anyhow::Result<()>;

const RULES: [(&str, Rule); 5] = [
    ("flush", a_commit_is_on_the_replicas_disk_when_it_is_answered),
    ("show", a_replica_shows_what_a_quorum_has),
    ("term", who_has_promised_a_term_confirms_nothing_below),
    ("degrade", commits_without_replicas_say_so),
    ("slot", a_slot_keeps_no_more_log_than_it_may),
];

/// The directories of the servers of one rule.
struct Ground<'p> {
    plan: &'p Plan,
    dir: &'p Path,
    rings: &'p Path,
}

/// Runs the rules; the error is the first violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<String> {
    let mut held = Vec::new();
    for (name, rule) in RULES {
        if plan.rule.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let dir = tempfile::Builder::new().prefix("collie-rules-").tempdir()?;
        let rings = tempfile::Builder::new().prefix("collie-rules-").tempdir_in("/dev/shm")?;
        let ground = Ground { plan, dir: dir.path(), rings: rings.path() };
        rule(&ground).with_context(|| format!("rule {name}"))?;
        held.push(name);
    }
    ensure!(!held.is_empty(), "there is no such rule: {:?}", RULES.map(|(name, _)| name));
    Ok(format!("replica-rules: {} hold", held.join(", ")))
}

impl Ground<'_> {
    /// Returns nodes with the planted mistake and further settings; the first is started and has a table.
    fn nodes(&self, settings: &[&str]) -> anyhow::Result<Nodes> {
        let mistake = self.plan.plant.clone().unwrap_or_else(|| "nothing".to_owned());
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let arguments = vec!["planted".to_owned(), mistake];
        let words = Words { binary: self.plan.server.clone(), arguments, settings, has_witness: false };
        let mut nodes = Nodes::new(words, self.dir, self.rings, 1)?;
        nodes.start(0, &[])?;
        let make = "SET synchronous_commit = local; CREATE TABLE t (n int PRIMARY KEY)";
        nodes.connect(0)?.batch_execute(make)?;
        Ok(nodes)
    }
}

/// Returns a client, and a flag that is set when the client gets a warning.
fn warned(nodes: &Nodes, node: usize, level: &str) -> anyhow::Result<(Client, Arc<AtomicBool>)> {
    let port = nodes.places()[node].context("it runs")?.port();
    let warned = Arc::new(AtomicBool::new(false));
    let hears = warned.clone();
    let mut config = postgres::Config::new();
    config.host("127.0.0.1").port(port).user("collie").dbname("collie");
    config.notice_callback(move |notice| hears.store(notice.code().code() == "01000", Ordering::SeqCst));
    let mut client = config.connect(NoTls)?;
    client.batch_execute(&format!("SET synchronous_commit = {level}; SET statement_timeout = '60s'"))?;
    Ok((client, warned))
}

fn insert(client: &mut Client, n: i32) -> Result<(), postgres::Error> {
    client.execute("INSERT INTO t VALUES ($1)", &[&n]).map(drop)
}

fn ask<T: FromSqlOwned>(nodes: &Nodes, node: usize, sql: &str) -> anyhow::Result<T> {
    Ok(nodes.connect(node)?.query_one(sql, &[])?.try_get(0)?)
}

fn rows(nodes: &Nodes, node: usize) -> anyhow::Result<i64> {
    ask(nodes, node, "SELECT count(*) FROM t")
}

/// Waits until `done` returns true; errors are retried.
fn until(what: &str, mut done: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start_ns = RealClock.now_ns();
    loop {
        match done() {
            Ok(true) => return Ok(()),
            Err(error) if is_over(start_ns) => return Err(error.context(what.to_owned())),
            Ok(false) if is_over(start_ns) => bail!("waited in vain: {what}"),
            Ok(false) | Err(_) => thread::sleep(TICK),
        }
    }
}

/// Waits until the nodes `others` show as many rows as the first one.
fn until_equal(nodes: &Nodes, others: &[usize]) -> anyhow::Result<()> {
    let expected = rows(nodes, 0)?;
    others
        .iter()
        .try_for_each(|node| until(&format!("{} has it", NAMES[*node]), || Ok(rows(nodes, *node)? == expected)))
}

/// Waits until `others` replicas have all of the first one's log and the log does not grow. A replica with more log
/// than the candidate would have to lead in its place.
fn until_quiet(nodes: &Nodes, others: i64) -> anyhow::Result<()> {
    let who_has_it =
        "SELECT count(*), pg_current_wal_lsn()::text FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_lsn()";
    let (mut last, mut since_ns) = (String::new(), RealClock.now_ns());
    until("nothing more comes", || {
        let row = nodes.connect(0)?.query_one(who_has_it, &[])?;
        let (have_it, end): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
        if have_it < others || end != last {
            (last, since_ns) = (end, RealClock.now_ns());
        }
        Ok(Duration::from_nanos(RealClock.now_ns() - since_ns) >= QUIET)
    })
}

/// Commits one row on a thread, which returns whether the commit was answered without a warning.
fn committing(nodes: &Nodes, n: i32) -> anyhow::Result<JoinHandle<bool>> {
    let (mut client, warned) = warned(nodes, 0, "on")?;
    Ok(thread::spawn(move || insert(&mut client, n).is_ok() && !warned.load(Ordering::SeqCst)))
}

/// Fails if the commit is answered while it is watched.
fn must_wait(commit: &JoinHandle<bool>, why: &str) -> anyhow::Result<()> {
    let start_ns = RealClock.now_ns();
    while Duration::from_nanos(RealClock.now_ns() - start_ns) < WATCH {
        ensure!(!commit.is_finished(), "a commit is answered at on {why}");
        thread::sleep(TICK);
    }
    Ok(())
}

/// Fails if a node shows a second row while it is watched; the node may refuse to answer.
fn watch_rows(nodes: &Nodes, node: usize, wrong: &str) -> anyhow::Result<()> {
    let start_ns = RealClock.now_ns();
    while Duration::from_nanos(RealClock.now_ns() - start_ns) < WATCH {
        ensure!(rows(nodes, node).unwrap_or(1) == 1, "{wrong}, and that a failover may take back");
        thread::sleep(TICK);
    }
    Ok(())
}

fn a_commit_is_on_the_replicas_disk_when_it_is_answered(ground: &Ground) -> anyhow::Result<()> {
    let mut nodes = ground.nodes(&["replication.quorum=ANY 1 (b)"])?;
    let held = ground.dir.join("held");
    nodes.start(1, &[("COLLIE_HOLD_AT", format!("wal.sync:{}", held.display()))])?;
    insert(&mut warned(&nodes, 0, "on")?.0, 0)?;
    until_equal(&nodes, &[1])?;
    File::create(&held)?;
    let commit = committing(&nodes, 1)?;
    must_wait(&commit, "while the disk of its replica stands still")?;
    // R12: if one of these commits waited, its statement would end by its timeout.
    for (level, from) in [("local", 100), ("off", 200)] {
        let (mut client, warned) = warned(&nodes, 0, level)?;
        for n in from..from + 50 {
            insert(&mut client, n).with_context(|| format!("{level} waits for the replica"))?;
        }
        ensure!(!warned.load(Ordering::SeqCst), "{level} asks for no replica");
    }
    ensure!(!commit.is_finished(), "a commit is answered at on while the disk of its replica stands still");
    ensure!(rows(&nodes, 1)? == 1, "the replica answers readers, and shows nothing that it may lose");
    let oldest_us: i64 = ask(&nodes, 0, "SELECT max(oldest_us)::bigint FROM collie_replication")?;
    let watched_us = i64::try_from(WATCH.as_micros())?;
    ensure!(oldest_us >= watched_us / 2, "a replica that stands still for {WATCH:?} is {oldest_us} us behind");
    fs::remove_file(&held)?;
    until("the commit is answered", || Ok(commit.is_finished()))?;
    ensure!(commit.join().is_ok_and(|is_told| is_told), "the commit is answered, without a warning");
    until_equal(&nodes, &[1])
}

fn a_replica_shows_what_a_quorum_has(ground: &Ground) -> anyhow::Result<()> {
    let mut nodes = ground.nodes(&["replication.quorum=ANY 2 (b, c)"])?;
    nodes.start(1, &[])?;
    nodes.start(2, &[])?;
    insert(&mut warned(&nodes, 0, "on")?.0, 0)?;
    until_equal(&nodes, &[1, 2])?;
    nodes.kill(2)?;
    insert(&mut warned(&nodes, 0, "local")?.0, 1)?;
    let has_it =
        "SELECT bool_or(application_name = 'b' AND flush_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication";
    until("b has it on its disk", || Ok(ask::<Option<bool>>(&nodes, 0, has_it)? == Some(true)))?;
    watch_rows(&nodes, 1, "b shows a commit that c does not have")?;
    // Nor does a restarted replica show it, whose log has the commit and which no primary has sent a position yet.
    nodes.kill(1)?;
    nodes.start(1, &[])?;
    watch_rows(&nodes, 1, "b, started again, shows a commit that c does not have")?;
    nodes.start(2, &[])?;
    until_equal(&nodes, &[1, 2])
}

fn who_has_promised_a_term_confirms_nothing_below(ground: &Ground) -> anyhow::Result<()> {
    // With the default, long timeout: a new connection would make the new term known.
    let mut nodes = ground.nodes(&["replication.quorum=ANY 1 (b, c)"])?;
    nodes.start(1, &[])?;
    nodes.start(2, &[])?;
    insert(&mut warned(&nodes, 0, "on")?.0, 0)?;
    until_quiet(&nodes, 2)?;
    nodes.part(0, 1);
    until("b is promoted", || nodes.promote(1).map(|node| node == 1).map_err(anyhow::Error::msg))?;
    // The connection may be refused or closed; then the commit is not answered.
    if let Ok(commit) = committing(&nodes, 1) {
        let start_ns = RealClock.now_ns();
        while !commit.is_finished() && Duration::from_nanos(RealClock.now_ns() - start_ns) < WATCH {
            thread::sleep(TICK);
        }
        if commit.is_finished() {
            let is_told = commit.join().is_ok_and(|is_told| is_told);
            ensure!(!is_told, "a commit is answered at on by a primary of a term that is over");
        }
    }
    insert(&mut warned(&nodes, 1, "local")?.0, 2)?;
    nodes.heal()?;
    let leader = nodes.settle()?;
    ensure!(leader == 1, "b was promoted, {} leads", NAMES[leader]);
    let found: i64 = ask(&nodes, 0, "SELECT sum(n)::bigint FROM t")?;
    ensure!(found == 2, "the row of the term that is over is gone, the other is there: {found}");
    Ok(())
}

fn commits_without_replicas_say_so(ground: &Ground) -> anyhow::Result<()> {
    let mut nodes = ground.nodes(&["replication.quorum=ANY 1 (b)", "replication.degrade=after 200ms"])?;
    nodes.start(1, &[])?;
    let (mut client, warned) = warned(&nodes, 0, "on")?;
    insert(&mut client, 0)?;
    until_equal(&nodes, &[1])?;
    nodes.kill(1)?;
    for n in 1..10 {
        warned.store(false, Ordering::SeqCst);
        insert(&mut client, n)?;
        ensure!(warned.load(Ordering::SeqCst), "a commit that no replica has is answered as if one had it");
    }
    nodes.start(1, &[])?;
    until_equal(&nodes, &[1])
}

fn a_slot_keeps_no_more_log_than_it_may(ground: &Ground) -> anyhow::Result<()> {
    let small =
        ["wal.ring_size=256KiB", "wal.flush_bytes=128KiB", "wal.segment_size=9MiB", "replication.slot_bytes=10MiB"];
    let mut nodes = ground.nodes(&small)?;
    nodes.start(1, &[])?;
    until_equal(&nodes, &[1])?;
    nodes.kill(1)?;
    let mut client = warned(&nodes, 0, "local")?.0;
    client.batch_execute("CREATE TABLE bulk (n int PRIMARY KEY, t text)")?;
    for part in 0..4 {
        let from = part * 100;
        let bulk =
            format!("INSERT INTO bulk SELECT n, repeat('x', 99000) FROM generate_series({from}, {}) AS n", from + 99);
        client.batch_execute(&bulk)?;
        client.batch_execute("CHECKPOINT")?;
    }
    let start_ns = RealClock.now_ns();
    loop {
        let expired: Option<String> = ask(&nodes, 0, "SELECT expired_by FROM collie_slots WHERE slot = 'b'")?;
        if expired.as_deref() == Some("bytes") {
            return Ok(());
        }
        let waited = Duration::from_nanos(RealClock.now_ns() - start_ns);
        ensure!(waited < 20 * WATCH, "40 MB are kept for a slot that may keep 10 MiB: it is not expired");
        thread::sleep(TICK);
    }
}
