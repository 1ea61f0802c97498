//! `list-append`: random transactions on lists over real connections, while the server is killed now and then; all that
//! their clients were answered is checked for cycles.
//!
//! A round is a new database with its own history. Its transactions are spread over several runs of the server: each
//! but the last ends by SIGKILL under load, the last when all transactions are done. After each run the server is
//! started again, and one transaction reads every list; its reads after the last run are the history's end. All commits
//! are synchronous, so nothing acknowledged may be lost. Rounds take the mixes of levels in turn.
//!
//! With a replica the same lists are read on it at the same time (`standby.rs`): the reads of both nodes form one
//! history, in which a long fork is a cycle; at the end both nodes must have the same state.
//!
//! With failovers a round has three nodes (`failovers.rs`): at the end of each run the leader is killed, and another
//! node is promoted.
//!
//! The checker (`checker.rs`) knows only SQL's levels and lists. The seed fixes what is tried, not how threads meet.

mod census;
pub(crate) mod checker;
pub(crate) mod client;
mod failovers;
mod graph;
pub(crate) mod history;
mod standby;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, ensure};
use collie_engine::Isolation;
use collie_env::{Clock, RealClock};
use collie_netlab::Port;
use postgres::NoTls;

pub(crate) use checker::Order;
use checker::{Facts, Rules};
use client::{Client, Shared};
use history::{History, Transaction};
use standby::{Standby, settings_of_primary};

use crate::{
    journal::Outcome,
    random::Random,
    report::{Figures, Report},
    server::Server,
};

/// The arguments of the command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rounds: u64,
    /// The number for each round, including transactions that are rolled back.
    pub(crate) transactions: u64,
    /// The number for each round, besides the kill at its end.
    pub(crate) kills: u64,
    pub(crate) seed: u64,
    pub(crate) clients: u64,
    pub(crate) levels: Vec<Mix>,
    pub(crate) order: Order,
    pub(crate) server: PathBuf,
    /// Whether a replica is read at the same time, behind a bad network, and killed too.
    pub(crate) replica: bool,
    /// The number for each round, in place of kills: the leader is killed and another of three nodes is promoted. Both
    /// other nodes are read.
    pub(crate) failovers: u64,
    /// A mistake that the server makes; `server` is then this program.
    pub(crate) plant: Option<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels: Vec<_> = self.levels.iter().map(|mix| mix.name).collect();
        let order = match self.order {
            Order::None => "none",
            Order::Session => "session",
            Order::RealTime => "real-time",
        };
        let Self { rounds, transactions, kills, seed, clients, server, .. } = self;
        write!(
            f,
            "list-append --rounds {rounds} --transactions {transactions} --kills {kills} --seed {seed} --clients {clients} \
             --levels {} --order {order} --server {}",
            levels.join(","),
            server.display()
        )?;
        f.write_str(if self.replica { " --replica" } else { "" })?;
        if self.failovers > 0 {
            write!(f, " --failovers {}", self.failovers)?;
        }
        self.plant.iter().try_for_each(|mistake| write!(f, " --plant {mistake}"))
    }
}

/// The levels of a round's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    name: &'static str,
    levels: &'static [Isolation],
}

/// Every level that behaves differently from the others.
pub(crate) const MIXED: &[Isolation] =
    &[Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable, Isolation::Serializable];

/// Every mix.
const MIXES: [Mix; 4] = [
    Mix { name: "read-committed", levels: &[Isolation::ReadCommitted] },
    Mix { name: "repeatable-read", levels: &[Isolation::RepeatableRead] },
    Mix { name: "serializable", levels: &[Isolation::Serializable] },
    Mix { name: "mixed", levels: MIXED },
];

/// Parses the name of a mix.
///
/// # Errors
/// A sentence with the names of all mixes.
pub(crate) fn mix(name: &str) -> Result<Mix, String> {
    let names = || MIXES.map(|mix| mix.name).join(", ");
    MIXES.into_iter().find(|mix| mix.name == name).ok_or_else(|| format!("a mix of levels is one of {}", names()))
}

/// A round of this many transactions at one level shows the anomalies that the level allows.
const TELLING_TRANSACTIONS: u64 = 2_000;

/// A server under load that ends no transaction for this long has stopped.
const PATIENCE: Duration = Duration::from_secs(400);

/// The sums over all rounds.
#[derive(Debug, Default)]
struct Total {
    transactions: u64,
    acknowledged: u64,
    unknown: u64,
    kills: u64,
    /// Transactions on replicas.
    on_replicas: u64,
    facts: Facts,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    let mut random = Random::new(plan.seed);
    let mut total = Total::default();
    let mut pairs = Vec::new();
    for (round, mix) in (0..plan.rounds).zip(plan.levels.iter().cycle()) {
        let dir = tempfile::Builder::new().prefix("collie-appends-").tempdir()?;
        let data = dir.path().join("data");
        let mut history = History::default();
        let seed = random.next();
        let played = match plan.failovers {
            0 => play(plan, round, *mix, seed, &data, &mut history),
            _ => failovers::play(plan, *mix, seed, dir.path(), &mut history),
        };
        total.kills += played.as_ref().map_or(0, |kills| *kills);
        let facts = match played.and_then(|_| judge(plan, *mix, &history)) {
            Ok(facts) => facts,
            Err(error) => {
                let mut context = format!("round {round}, {}", mix.name);
                if plan.plant.is_none() {
                    context += &format!(", data kept in {}", dir.keep().display()); // the evidence stays
                }
                return Err(error.context(context));
            }
        };
        let count = |outcome| history.transactions.iter().filter(|t| t.outcome == outcome).count() as u64;
        total.transactions += history.transactions.len() as u64;
        total.acknowledged += count(Outcome::Acknowledged);
        total.unknown += count(Outcome::Unknown);
        total.on_replicas += history.transactions.iter().filter(|t| t.replica.is_some()).count() as u64;
        total.facts.reads += facts.reads;
        total.facts.appends += facts.appends;
        total.facts.edges += facts.edges;
        total.facts.committed += facts.committed;
        pairs.push((mix.name, facts));
    }
    let mut shown: Vec<String> = Vec::new();
    for mix in &plan.levels {
        let of = |figure: fn(&Facts) -> u64| {
            pairs.iter().filter(|(name, _)| *name == mix.name).map(|(_, f)| figure(f)).sum()
        };
        let figures: [u64; 3] = [of(|f| f.lost_updates), of(|f| f.read_skews), of(|f| f.write_skews)];
        shown.push(format!("{} {}/{}/{}", mix.name, figures[0], figures[1], figures[2]));
    }
    let seconds = Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64();
    let Total { transactions, acknowledged, unknown, kills, on_replicas, facts } = total;
    let words = format!(
        "list-append: {transactions} transactions in {} rounds with {kills} kills, {on_replicas} on replicas, {acknowledged} acknowledged, {unknown} \
         unknown, {} committed; {} appends, {} reads, {} dependencies; lost updates/read skews/write skews: {}: no cycle \
         that a level excludes; {seconds:.1} s",
        plan.rounds,
        facts.committed,
        facts.appends,
        facts.reads,
        facts.edges,
        shown.join(", ")
    );
    let figures = Figures { cycles: plan.rounds, kills, checked: transactions, acknowledged, ..Figures::default() };
    Ok(Report::new(words, figures))
}

/// Checks a round's history. Then checks that it has the anomalies that its level allows, and fails one level up.
fn judge(plan: &Plan, mix: Mix, history: &History) -> anyhow::Result<Facts> {
    let facts = checker::check(history, Rules { order: plan.order, as_level: None })?;
    let next = match mix.levels {
        [Isolation::ReadCommitted] => Isolation::RepeatableRead,
        [Isolation::RepeatableRead] => Isolation::Serializable,
        _ => return Ok(facts),
    };
    let allowed =
        if next == Isolation::RepeatableRead { facts.lost_updates.min(facts.read_skews) } else { facts.write_skews };
    if allowed > 0 {
        let found = checker::check(history, Rules { order: Order::None, as_level: Some(next) });
        ensure!(found.is_err(), "the checker passes as {next:?} what is not: {facts:?}");
    }
    ensure!(
        allowed > 0 || plan.transactions < TELLING_TRANSACTIONS || plan.clients < 4,
        "nothing that {} allows has happened: the run did not test what it is for: {facts:?}",
        mix.name
    );
    Ok(facts)
}

/// Plays one round, on a new database in `data`; returns the number of kills of the server and its replica.
fn play(plan: &Plan, round: u64, mix: Mix, seed: u64, data: &Path, history: &mut History) -> anyhow::Result<u64> {
    // A killed server leaves its ring, which must not outlive this program.
    let rings = tempfile::Builder::new().prefix("collie-appends-").tempdir_in("/dev/shm")?;
    let mut random = Random::new(seed);
    let dir = data.parent().context("a directory beside")?;
    let planted = || {
        let planted = plan.plant.iter().flat_map(|mistake| ["planted".to_owned(), mistake.clone()]);
        planted.collect::<Vec<_>>()
    };
    let port = if plan.replica { Some(Port::keep()?) } else { None };
    let start = |life: u64| {
        let protocol = ["help", "mutex", "base"][usize::try_from((round + life) % 3)?];
        let ring = ["shared", "private"][usize::try_from(round / 2 % 2)?];
        let settings = [("ring", ring), ("ring_dir", &rings.path().display().to_string()), ("protocol", protocol)];
        let mut settings = settings.map(|(name, value)| format!("wal.{name}={value}")).to_vec();
        if let Some(port) = &port {
            settings.extend(settings_of_primary(port, dir)?);
        }
        Server::start_logged(&plan.server, &planted(), data, &settings, &dir.join("primary.log"))
    };
    let shared = Shared::new(plan.transactions, Arc::new(RealClock));
    let mut server = start(0)?;
    client::create(&mut server.connect()?).context("cannot make the tables")?;
    let standby = |port: &Port| Standby::start((&plan.server, planted()), [dir, rings.path()], port, seed, &server);
    let mut standby = port.as_ref().map(standby).transpose()?;
    for life in 0..=plan.kills {
        // The shares of the runs are about equal.
        let share = plan.transactions / (plan.kills + 1);
        let target = share * life + share / 2 + random.below(share);
        let target = if life == plan.kills { u64::MAX } else { target };
        let over = AtomicBool::new(false);
        let mut lived = thread::scope(|scope| {
            let reading = Random::new(random.next());
            let reading = standby.as_mut().map(|standby| scope.spawn(|| standby.read(&shared, reading, &over)));
            let lived = live(plan, mix, server, life, target, &shared, &mut random);
            over.store(true, Ordering::SeqCst);
            let mut lived = lived?;
            if let Some(reading) = reading {
                lived.extend(reading.join().map_err(|_| anyhow::anyhow!("the replica's thread panicked"))??);
            }
            anyhow::Ok(lived)
        })?;
        server = start(life + 1).with_context(|| format!("life {life}: reopening"))?;
        // A commit without an answer that is not there after the crash will never be there.
        let opened_ns = RealClock.now_ns();
        let lost =
            |transaction: &&mut Transaction| transaction.outcome == Outcome::Unknown && transaction.replica.is_none();
        let unknown = lived.iter_mut().filter(lost);
        unknown.for_each(|transaction| transaction.ended_ns = opened_ns);
        history.transactions.append(&mut lived);
        let all = client::read_all(&mut server.connect()?, life * (plan.clients + 1), &shared)?;
        history.end = all.reads().collect();
        history.transactions.push(all);
    }
    if let Some(standby) = &mut standby {
        standby.until_equal(&server)?;
    }
    server.kill()?;
    Ok(plan.kills + 1 + standby.map_or(0, |standby| standby.kills))
}

/// Loads the server until `target` transactions of the round, or all of them, have ended, and kills it.
fn live(
    plan: &Plan,
    mix: Mix,
    server: Server,
    life: u64,
    target: u64,
    shared: &Shared,
    random: &mut Random,
) -> anyhow::Result<Vec<Transaction>> {
    let mut clients = Vec::new();
    for number in 0..plan.clients {
        let session = life * (plan.clients + 1) + number + 1;
        let connection = server.config().connect(NoTls).context("cannot connect")?;
        let client = Client::new(connection, session, Random::new(random.next()), mix.levels, shared)?;
        clients.push(thread::spawn(move || client.run()));
    }
    let (mut ended, mut still) = (0, Duration::ZERO);
    const TICK: Duration = Duration::from_millis(1);
    while shared.ended.load(Ordering::SeqCst) < target && !clients.iter().all(thread::JoinHandle::is_finished) {
        thread::sleep(TICK);
        let now = shared.ended.load(Ordering::SeqCst);
        still = if now == ended { still + TICK } else { Duration::ZERO };
        ended = now;
        ensure!(still < PATIENCE, "no transaction ended for {PATIENCE:?}");
    }
    ended = shared.ended.load(Ordering::SeqCst);
    let is_over = ended >= target || shared.left.load(Ordering::SeqCst) == 0;
    let mut lived = Vec::new();
    if is_over {
        server.kill()?;
    }
    for client in clients {
        lived.extend(client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
    }
    ensure!(is_over, "the server gave up every connection after {ended} transactions");
    Ok(lived)
}
