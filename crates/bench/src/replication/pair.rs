//! `Pair`: a primary and a replica that follows it, Collie's or PostgreSQL's, each a process of its own.
//!
//! # What always holds
//! - P1. What was started is stopped, the replica first, and its directories go, when the pair goes.
//! - P2. Where a figure comes from a pair, its replica was even with the primary before and after, and what it then showed was compared
//!   with what the primary shows.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use postgres::Client;

use super::follower::{Follower, Look};
use super::live::LiveThesis;
use super::relay::Relay;
use super::settings::ReplicationSettings;
use crate::servers::{PEER, Server, postgresql_programs};
use crate::tpcc::{Course, Pacing, Population, Run, Tables, Target, Wire, books, drive, drive_until};
use crate::{Scratch, Section};

/// How long a replica may take to be even: far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// Between two looks at a position.
const LOOK: Duration = Duration::from_millis(2);
/// The names of Collie's nodes, that of the first primary first.
const NAMES: [&str; 2] = ["one", "two"];

/// Whose pair it is, and how its replica replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// By rows, with as many workers as there are by default: what users get.
    Collie,
    /// By rows, with so many workers.
    Workers(usize),
    /// By the begin of transactions, in this process.
    Thesis,
    Peer,
}

impl Arm {
    /// Returns its name in tables.
    fn name(self) -> String {
        match self {
            Self::Collie => "collie".to_owned(),
            Self::Workers(1) => "collie, 1 worker".to_owned(),
            Self::Workers(workers) => format!("collie, {workers} workers"),
            Self::Thesis => "replay by begin (thesis)".to_owned(),
            Self::Peer => PEER.to_owned(),
        }
    }

    /// Level of TPC-C's transactions that write: replay by begin needs writers under snapshot isolation (H3 of `thesis.rs`).
    fn isolation(self) -> &'static str {
        if self == Self::Thesis { "REPEATABLE READ" } else { "READ COMMITTED" }
    }

    /// What Collie's node of the first name is started with, whose commits may wait for the other one.
    fn arguments(self, settings: &ReplicationSettings, waiting: Waiting, [own, other]: [&str; 2]) -> Vec<String> {
        let slot = format!("replication.slot={own}");
        let mut all = ["--set", &slot, "--replica-listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
        if waiting == Waiting::Yes {
            all.extend(["--set".to_owned(), format!("replication.quorum=ANY 1 ({other})")]);
        }
        all.extend(["--set".to_owned(), format!("replication.backup_rate={}", settings.backup_bytes_per_s)]);
        if let Self::Workers(workers) = self {
            all.extend(["--set".to_owned(), format!("replication.apply_workers={workers}")]);
        }
        if self == Self::Thesis {
            all.push("--note-commit-times".to_owned());
        }
        all
    }
}

/// What a primary has measured of its replica's delay by a look, commit by commit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) commits: f64,
    pub(crate) sum_us: f64,
}

impl Totals {
    /// Returns the mean delay of the commits since `before`, in microseconds; where none was shown, for how long the oldest has been owed, if one
    /// is; `None` where nothing was committed.
    pub(crate) fn mean_since(self, before: Self, oldest_us: f64) -> Option<f64> {
        let commits = self.commits - before.commits;
        if commits > 0.0 {
            return Some((self.sum_us - before.sum_us) / commits);
        }
        (oldest_us > 0.0).then_some(oldest_us)
    }
}

/// How far behind a primary sees its replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Behind {
    /// In time, on the primary's clock, in microseconds; `None` where it does not say, or nothing was committed.
    pub(crate) us: Option<f64>,
    /// In bytes of the log that the replica's readers do not see yet.
    pub(crate) bytes: f64,
}

/// What a pair's servers are started with beside what those of every pair are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    /// What the pair is called in tables; empty for the name of its arm.
    pub(crate) name: String,
    /// Arguments of the primary, and of the replica.
    pub(crate) primary: Vec<String>,
    pub(crate) replica: Vec<String>,
    /// On which core each has to stay, the primary first; `None`: wherever the scheduler puts them.
    pub(crate) cores: Option<[usize; 2]>,
    /// There is no replica, and nobody waits for one.
    pub(crate) alone: bool,
    /// The replica follows through a relay of this process, which can hold back what passes.
    pub(crate) relayed: bool,
}

/// A primary and its replica.
pub(crate) struct Pair {
    /// `None` while it is stopped. Goes first (P1).
    replica: Option<Follower>,
    primary: Server,
    /// Goes after both.
    relay: Option<Relay>,
    /// The replica's, while it is stopped.
    kept: Option<Arc<Scratch>>,
    /// The names of Collie's nodes, the primary's first.
    names: [&'static str; 2],
    arm: Arm,
    name: String,
    waiting: Waiting,
    launch: Launch,
}

/// Whether commits may wait for the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    No,
    Yes,
}

/// Returns the pairs that there are: Collie's, and PostgreSQL's where it is installed and wanted. What is missing is noted. Nobody waits
/// for their replicas.
///
/// # Errors
/// Collie's do not start.
pub(crate) fn pairs(settings: &ReplicationSettings, section: &mut Section) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = vec![collie(settings, Waiting::No)?];
    if settings.peer {
        match peer(settings, Waiting::No) {
            Ok(pair) => pairs.push(pair),
            Err(error) => section.notes.push(format!("no rows of PostgreSQL: {error:#}")),
        }
    }
    Ok(pairs)
}

/// Starts Collie's pair.
///
/// # Errors
/// It does not start; it has no list of replicas that are waited for.
pub(crate) fn collie(settings: &ReplicationSettings, waiting: Waiting) -> anyhow::Result<Pair> {
    collie_arm(settings, Arm::Collie, waiting, Launch::default())
}

/// Starts the pair of `arm`, for whose replica nobody waits.
///
/// # Errors
/// It is not installed, or does not start.
pub(crate) fn start(settings: &ReplicationSettings, arm: Arm) -> anyhow::Result<Pair> {
    if arm == Arm::Peer { peer(settings, Waiting::No) } else { launch(settings, arm, Launch::default()) }
}

/// As [`start`], of an arm of Collie's, with what `launch` says besides.
///
/// # Errors
/// It does not start.
pub(crate) fn launch(settings: &ReplicationSettings, arm: Arm, launch: Launch) -> anyhow::Result<Pair> {
    collie_arm(settings, arm, Waiting::No, launch)
}

/// As [`launch`], of Collie's defaults, with the primary in a directory in which a server was before: what that left is there.
///
/// # Errors
/// It does not start.
pub(crate) fn launch_in(settings: &ReplicationSettings, scratch: Arc<Scratch>, launch: Launch) -> anyhow::Result<Pair> {
    collie_in(settings, scratch, Arm::Collie, Waiting::No, launch)
}

fn collie_arm(settings: &ReplicationSettings, arm: Arm, waiting: Waiting, launch: Launch) -> anyhow::Result<Pair> {
    let scratch = Arc::new(Scratch::new(&settings.plan.env, &settings.plan.dir)?);
    collie_in(settings, scratch, arm, waiting, launch)
}

fn collie_in(
    settings: &ReplicationSettings,
    scratch: Arc<Scratch>,
    arm: Arm,
    waiting: Waiting,
    launch: Launch,
) -> anyhow::Result<Pair> {
    settings.plan.say("starting a primary and a replica");
    let arguments = [arm.arguments(settings, waiting, NAMES), launch.primary.clone()].concat();
    let core = launch.cores.map(|[primary, _]| primary);
    let primary = Server::collie_primary(scratch, program(settings)?, &words(&arguments), core)?;
    let name = if launch.name.is_empty() { arm.name() } else { launch.name.clone() };
    let relay = launch.relayed.then(|| Relay::to(&primary.replica_address()?)).transpose()?;
    let mut pair = Pair { replica: None, primary, relay, kept: None, names: NAMES, arm, name, waiting, launch };
    pair.replica = match arm {
        _ if pair.launch.alone => None,
        Arm::Thesis => Some(Follower::Thesis(Box::new(LiveThesis::start(&settings.plan, &pair.primary)?))),
        _ => Some(Follower::Server(pair.new_replica(settings)?)),
    };
    pair.until_even(settings)?;
    Ok(pair)
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Starts PostgreSQL's pair.
///
/// # Errors
/// It is not installed, or does not start.
pub(crate) fn peer(settings: &ReplicationSettings, waiting: Waiting) -> anyhow::Result<Pair> {
    settings.plan.say("starting PostgreSQL and a standby");
    let bin = postgresql_programs().context("none under /usr/lib/postgresql")?;
    let primary = Server::postgresql(&settings.plan, &bin)?;
    let arm = Arm::Peer;
    let (name, launch) = (arm.name(), Launch::default());
    let mut pair = Pair { replica: None, primary, relay: None, kept: None, names: NAMES, arm, name, waiting, launch };
    pair.replica = Some(Follower::Server(pair.new_replica(settings)?));
    pair.until_even(settings)?;
    pair.list_standby(settings)?;
    Ok(pair)
}

fn program(settings: &ReplicationSettings) -> anyhow::Result<&Path> {
    settings.plan.server.as_deref().context("no program was named that serves")
}

impl Pair {
    /// Returns its name in tables.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether targets are asked of it: of what users get.
    pub(crate) fn has_targets(&self) -> bool {
        self.arm == Arm::Collie
    }

    pub(crate) fn is_peer(&self) -> bool {
        self.primary.is_peer()
    }

    /// Returns where the primary keeps the log in memory.
    pub(crate) fn ring(&self) -> &'static str {
        self.primary.ring()
    }

    fn follower(&self) -> anyhow::Result<&Follower> {
        self.replica.as_ref().context("the replica is stopped")
    }

    /// Starts a server as a replica in an empty directory, which is filled from the primary.
    fn new_replica(&self, settings: &ReplicationSettings) -> anyhow::Result<Server> {
        let plan = &settings.plan;
        if self.is_peer() {
            return Server::postgresql_standby(plan, &self.primary, settings.backup_bytes_per_s);
        }
        self.new_replica_in(settings, Arc::new(Scratch::new(&plan.env, &plan.dir)?))
    }

    fn new_replica_in(&self, settings: &ReplicationSettings, scratch: Arc<Scratch>) -> anyhow::Result<Server> {
        let [primary, own] = self.names;
        let of_node = self.arm.arguments(settings, self.waiting, [own, primary]);
        let arguments = [of_node, self.launch.replica.clone()].concat();
        let core = self.launch.cores.map(|[_, replica]| replica);
        let address = self.primary.replica_address()?;
        let address = match &self.relay {
            Some(relay) => relay.lead_to(&address)?,
            None => address,
        };
        let follows = (&self.primary, &*address);
        Server::collie_replica(scratch, program(settings)?, follows, &words(&arguments), core)
    }

    /// Returns TPC-C's line to the primary.
    pub(crate) fn target(&self) -> Wire {
        Wire::new(self.name(), self.ring(), self.primary.config(), self.arm.isolation(), true)
    }

    /// Opens a session on the replica.
    ///
    /// # Errors
    /// The driver's; the replica is stopped, or no server.
    pub(crate) fn connect_replica(&self) -> anyhow::Result<Client> {
        let server = self.follower()?.server()?;
        server.connect().with_context(|| format!("{}: cannot connect to the replica", self.name()))
    }

    /// Opens a session on the replica that looks at the number that `text` returns.
    ///
    /// # Errors
    /// The driver's; the replica is stopped.
    pub(crate) fn look(&self, text: &str) -> anyhow::Result<Look> {
        self.follower()?.look(text).with_context(|| format!("{}: cannot look at the replica", self.name()))
    }

    /// Returns what the replica follows through.
    ///
    /// # Errors
    /// It follows without one.
    pub(crate) fn relay(&self) -> anyhow::Result<&Relay> {
        self.relay.as_ref().with_context(|| format!("{}: the replica follows without a relay", self.name()))
    }

    /// Fails if the replica is known to have stopped by itself.
    ///
    /// # Errors
    /// Why it has.
    pub(crate) fn ensure_follows(&self) -> anyhow::Result<()> {
        self.follower()?.ensure_alive()
    }

    /// Opens a session on the primary.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn connect(&self) -> anyhow::Result<Client> {
        self.primary.connect().with_context(|| format!("{}: cannot connect to the primary", self.name()))
    }

    /// Asks the primary how far its replica has been behind since `before`, the last look; `None` while none is connected.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn behind(&self, primary: &mut Client, before: &mut Totals) -> anyhow::Result<Option<Behind>> {
        let text = if self.is_peer() {
            "SELECT (extract(epoch FROM replay_lag) * 1e6)::float8, \
             pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::float8 FROM pg_stat_replication WHERE state = 'streaming'"
        } else {
            "SELECT NULL::float8, behind_bytes::float8, measured_commits::float8, measured_us::float8, oldest_us::float8 \
             FROM collie_replication WHERE state = 'streaming'"
        };
        let rows = primary.query(text, &[])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let bytes = row.get::<_, Option<f64>>(1).unwrap_or(f64::MAX);
        if self.is_peer() {
            return Ok(Some(Behind { us: row.get(0), bytes }));
        }
        let now = Totals { commits: row.get(2), sum_us: row.get(3) };
        let us = now.mean_since(std::mem::replace(before, now), row.get(4));
        Ok(Some(Behind { us, bytes }))
    }

    /// Waits until the replica shows what the primary had when this was called (P2); of a pair that has none, for nothing.
    ///
    /// # Errors
    /// The driver's; it is not in five minutes.
    pub(crate) fn until_even(&self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        if self.launch.alone {
            return Ok(());
        }
        let clock = &settings.plan.env.clock;
        let begun = clock.now_ns();
        let mut primary = self.connect()?;
        primary.batch_execute(
            "CREATE TABLE IF NOT EXISTS even (id int PRIMARY KEY, n bigint NOT NULL); \
             INSERT INTO even VALUES (1, 0) ON CONFLICT DO NOTHING",
        )?;
        let row = primary.query_one("UPDATE even SET n = n + 1 WHERE id = 1 RETURNING n", &[])?;
        let wanted: i64 = row.get(0);
        if let Follower::Thesis(thesis) = self.follower()? {
            return thesis.until_applied(self.target().log_position()?, PATIENCE);
        }
        loop {
            // A replica that is being filled refuses connections, and does not have the table at first.
            let seen = self.connect_replica().and_then(|mut replica| Ok(replica.query("SELECT n FROM even", &[])?));
            if seen.as_ref().is_ok_and(|rows| rows.first().is_some_and(|row| row.get::<_, i64>(0) >= wanted)) {
                return Ok(());
            }
            let waited = u128::from(clock.now_ns() - begun);
            anyhow::ensure!(
                waited < PATIENCE.as_nanos(),
                "{}: the replica is not even after {} s: {:?}",
                self.name(),
                PATIENCE.as_secs(),
                seen.map(|rows| rows.len())
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Loads TPC-C into the primary, and waits until the replica has it.
    ///
    /// # Errors
    /// The driver's; what was loaded is not consistent.
    pub(crate) fn load(&self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        let (plan, target) = (&settings.plan, self.target());
        let population = Population::new(settings.scale(), settings.seed, plan.env.clock.wall_us());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (on_progress, name) = (Arc::clone(&plan.on_progress), self.name());
        target.load(&population, threads, &|what| on_progress(&format!("{name}: {what}")))?;
        self.until_even(settings)
    }

    /// Runs TPC-C on the primary.
    ///
    /// # Errors
    /// As of [`drive`].
    pub(crate) fn drive(&self, settings: &ReplicationSettings, run: u32, pacing: Pacing) -> anyhow::Result<Run> {
        self.load_of(settings, run, pacing)()
    }

    /// As [`Self::drive`], until somebody sets `stop`.
    ///
    /// # Errors
    /// As of [`drive_until`].
    pub(crate) fn drive_until(
        &self,
        settings: &ReplicationSettings,
        run: u32,
        pacing: Pacing,
        stop: &AtomicBool,
    ) -> anyhow::Result<Run> {
        let target = self.target();
        drive_until(&target, course(settings, run, pacing), &settings.plan.env.clock, stop)
            .with_context(|| format!("on {}", target.name()))
    }

    /// Returns what runs TPC-C on the primary, wherever it is called.
    pub(crate) fn load_of(
        &self,
        settings: &ReplicationSettings,
        run: u32,
        pacing: Pacing,
    ) -> impl FnOnce() -> anyhow::Result<Run> + Send + use<> {
        let (target, course) = (self.target(), course(settings, run, pacing));
        let clock = Arc::clone(&settings.plan.env.clock);
        move || drive(&target, course, &clock).with_context(|| format!("on {}", target.name()))
    }

    /// Checks the twelve conditions on both, and that both add up to the same (P2); of a pair without a replica, those of the primary.
    ///
    /// # Errors
    /// What does not hold; the driver's.
    pub(crate) fn check(&self, settings: &ReplicationSettings, section: &mut Section) -> anyhow::Result<()> {
        settings.plan.say(&format!("{}: consistency on both", self.name()));
        self.until_even(settings)?;
        let of = |target: &dyn Target, whose: &str| {
            let verdict = books::check(target, &settings.scale())?;
            verdict.ensure(&format!("{}'s {whose}", self.name()), "after the runs")?;
            books::sums(target, &settings.scale()).map(|sums| (verdict, sums))
        };
        let things = |verdict: &books::Verdict| verdict.checked.iter().sum::<u64>();
        if self.launch.alone {
            let (verdict, _sums) = of(&self.target(), "primary")?;
            let conditions = "all twelve consistency conditions of TPC-C hold";
            section.notes.push(format!("{}: {conditions}, of {} things", self.name(), things(&verdict)));
            return Ok(());
        }
        let replica: Box<dyn Target> = match self.follower()? {
            Follower::Server(server) => {
                Box::new(Wire::new(self.name(), self.ring(), server.config(), "READ COMMITTED", true))
            }
            Follower::Thesis(thesis) => {
                Box::new(Tables::of(self.name(), self.ring(), thesis.lines()?, "READ COMMITTED", true))
            }
        };
        let (primary, replica) = (of(&self.target(), "primary")?, of(&*replica, "replica")?);
        anyhow::ensure!(primary == replica, "{}: the replica's rows are not the primary's", self.name());
        section.notes.push(format!(
            "{}: all twelve consistency conditions of TPC-C hold on the primary and on the replica, of {} things, and both add up to \
             the same",
            self.name(),
            things(&primary.0)
        ));
        Ok(())
    }

    /// Returns whether the replica is stopped.
    pub(crate) fn is_alone(&self) -> bool {
        self.replica.is_none()
    }

    /// Stops the replica; its directory stays.
    ///
    /// # Errors
    /// It is stopped already.
    pub(crate) fn stop_replica(&mut self) -> anyhow::Result<()> {
        let replica = self.replica.take().context("the replica is stopped")?.into_server()?;
        self.kept = Some(replica.scratch());
        Ok(())
    }

    /// Starts another replica, in an empty directory; that of the one that was stopped goes.
    ///
    /// # Errors
    /// It does not start; one runs.
    pub(crate) fn fill_replica(&mut self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        let kept = self.kept.take().context("the replica runs")?;
        drop(kept);
        let mut primary = self.connect()?;
        // The slot of the one that is gone would keep log. It may take a moment to be free.
        let begun = settings.plan.now_ns();
        while !primary.query("SELECT 1 FROM pg_replication_slots WHERE active", &[])?.is_empty() {
            let waited = u128::from(settings.plan.now_ns() - begun);
            anyhow::ensure!(waited < PATIENCE.as_nanos(), "{}: the slot of a stopped replica is in use", self.name());
            std::thread::sleep(LOOK);
        }
        let slots = primary.query("SELECT slot_name::text FROM pg_replication_slots", &[])?;
        for slot in slots.iter().map(|row| row.get::<_, String>(0)) {
            primary.execute("SELECT pg_drop_replication_slot($1)", &[&slot])?;
        }
        self.replica = Some(Follower::Server(self.new_replica(settings)?));
        Ok(())
    }

    /// Has commits on the primary wait for its replica, where they may: of PostgreSQL's pair, and of Collie's after the two have changed places.
    fn list_standby(&self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        if self.waiting == Waiting::No {
            return Ok(());
        }
        let mut session = self.connect()?;
        if !self.is_peer() {
            session
                .batch_execute(&format!("CALL collie_set_option('replication.quorum', 'ANY 1 ({})')", self.names[1]))?;
            let begun = settings.plan.now_ns();
            while session.query("SELECT 1 FROM collie_quorum WHERE list_before IS NULL", &[])?.is_empty() {
                let waited = u128::from(settings.plan.now_ns() - begun);
                anyhow::ensure!(waited < PATIENCE.as_nanos(), "the change of replication.quorum does not end");
                std::thread::sleep(LOOK);
            }
            return Ok(());
        }
        session.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        session.batch_execute("SELECT pg_reload_conf()")?;
        let begun = settings.plan.now_ns();
        // The setting is read, and the standby told of, a moment later.
        while session.query("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'", &[])?.is_empty() {
            let waited = u128::from(settings.plan.now_ns() - begun);
            anyhow::ensure!(waited < PATIENCE.as_nanos(), "its standby does not become a synchronous one");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns how to open a session on the primary.
    pub(crate) fn primary_config(&self) -> postgres::Config {
        self.primary.config()
    }

    /// Returns how to open a session on the replica.
    ///
    /// # Errors
    /// It is stopped, or in this process.
    pub(crate) fn replica_config(&self) -> anyhow::Result<postgres::Config> {
        Ok(self.follower()?.server()?.config())
    }

    /// Ends the primary at once, as a crash would. The replica has its place from here on, but is not promoted.
    ///
    /// # Errors
    /// The replica is stopped; the operating system's.
    pub(crate) fn kill_primary(&mut self) -> anyhow::Result<()> {
        let replica = self.replica.take().context("the replica is stopped")?.into_server()?;
        let killed = std::mem::replace(&mut self.primary, replica);
        self.kept = Some(killed.scratch());
        self.names.reverse();
        killed.kill()
    }

    /// Promotes what was the replica of a primary that was killed.
    ///
    /// # Errors
    /// It says that it is none; the driver's.
    pub(crate) fn promote(&self) -> anyhow::Result<()> {
        let promoted: bool = self.connect()?.query_one("SELECT pg_promote()", &[])?.get(0);
        anyhow::ensure!(promoted, "{}: the replica was not promoted", self.name());
        Ok(())
    }

    /// Returns the last things that its servers said, those of the primary first.
    pub(crate) fn words(&self) -> String {
        let last = |server: &Server| {
            let words = server.words();
            let lines: Vec<_> = words.lines().collect();
            lines[lines.len().saturating_sub(8)..].join("; ")
        };
        let replica = self.follower().and_then(|follower| follower.server().map(last));
        format!(
            "the primary said: {}; the replica: {}",
            last(&self.primary),
            replica.unwrap_or_else(|error| error.to_string())
        )
    }

    /// Has the primary that was killed follow the one that was promoted: Collie's comes back where it is, PostgreSQL's standby is made
    /// anew.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn rejoin(&mut self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        if !self.is_peer() {
            self.start_replica(settings)?;
            self.until_even(settings)?;
            return self.list_standby(settings);
        }
        drop(self.kept.take());
        self.replica = Some(Follower::Server(self.new_replica(settings)?));
        self.until_even(settings)?;
        self.list_standby(settings)
    }

    /// Returns the ids of both processes, the primary's first.
    ///
    /// # Errors
    /// The replica is stopped, or in this process.
    pub(crate) fn processes(&self) -> anyhow::Result<[u32; 2]> {
        Ok([self.primary.process(), self.follower()?.server()?.process()])
    }

    /// Returns the id of the primary's process.
    pub(crate) fn primary_process(&self) -> u32 {
        self.primary.process()
    }

    /// Returns what the primary has said so far.
    pub(crate) fn primary_words(&self) -> String {
        self.primary.words()
    }

    /// Stops both, the replica first, and returns the directory of the primary, and of the replica if it runs: they stay for as long as
    /// somebody holds them.
    ///
    /// # Errors
    /// The replica is in this process.
    pub(crate) fn stop(mut self) -> anyhow::Result<(Arc<Scratch>, Option<Arc<Scratch>>)> {
        let replica = self.replica.take().map(Follower::into_server).transpose()?;
        Ok((self.primary.scratch(), replica.map(|server| server.scratch())))
    }

    /// Returns where the primary's files are.
    pub(crate) fn primary_directory(&self) -> &Path {
        self.primary.directory()
    }

    /// Returns where the replica's files are.
    ///
    /// # Errors
    /// It is stopped.
    pub(crate) fn replica_directory(&self) -> anyhow::Result<&Path> {
        Ok(self.follower()?.server()?.directory())
    }

    /// Starts the replica again where it was.
    ///
    /// # Errors
    /// It does not start; it runs.
    pub(crate) fn start_replica(&mut self, settings: &ReplicationSettings) -> anyhow::Result<()> {
        let scratch = self.kept.take().context("the replica runs")?;
        let plan = &settings.plan;
        self.replica = Some(Follower::Server(if self.is_peer() {
            Server::postgresql_in(plan, scratch, self.primary.programs())?
        } else {
            self.new_replica_in(settings, scratch)?
        }));
        Ok(())
    }
}

/// Returns how a run goes.
pub(crate) fn course(settings: &ReplicationSettings, run: u32, pacing: Pacing) -> Course {
    Course {
        scale: settings.scale(),
        seed: settings.seed,
        run,
        clients: settings.clients,
        warm_up: settings.warm_up,
        time: settings.time,
        pacing,
        deferred: true,
    }
}
