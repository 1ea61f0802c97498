//! `Pair`: a primary and a replica that follows it, Collie's or PostgreSQL's, each in its own process.
//!
//! # What always holds
//! - P1. When the pair is dropped, its processes are stopped, the replica first, and their directories are removed.
//! - P2. If a figure comes from a pair, its replica had caught up with the primary before and after, and the rows that
//!   it then showed were compared with the primary's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use collie_workload::{Course, Pacing, Population, Run, Wire, drive, drive_until, target::Target as _};
use postgres::{Client, Statement};

use super::PairSettings;
use super::relay::Relay;
use crate::servers::{PEER, Server, postgresql_programs};
use crate::tpcc::{Audited, books};
use crate::{Scratch, Section};

/// The limit for a replica to catch up, far longer than one takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// The isolation level of TPC-C's writing transactions.
const ISOLATION: &str = "READ COMMITTED";
/// The names of Collie's nodes, that of the first primary first.
const NAMES: [&str; 2] = ["one", "two"];

/// Whose pair it is, and with how many workers its replica replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// The default number: what users get.
    Collie,
    Workers(usize),
    Peer,
}

impl Arm {
    /// Returns its name in tables.
    fn name(self) -> String {
        match self {
            Self::Collie => "collie".to_owned(),
            Self::Workers(1) => "collie, 1 worker".to_owned(),
            Self::Workers(workers) => format!("collie, {workers} workers"),
            Self::Peer => PEER.to_owned(),
        }
    }

    /// Returns the arguments of Collie's node `own`, whose commits may wait for the node `other`.
    fn arguments(self, settings: &PairSettings, waiting: Waiting, [own, other]: [&str; 2]) -> Vec<String> {
        let slot = format!("replication.slot={own}");
        let mut all = ["--set", &slot, "--replica-listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
        if waiting == Waiting::Yes {
            all.extend(["--set".to_owned(), format!("replication.quorum=ANY 1 ({other})")]);
        }
        all.extend(["--set".to_owned(), format!("replication.backup_rate={}", settings.backup_bytes_per_s)]);
        if let Self::Workers(workers) = self {
            all.extend(["--set".to_owned(), format!("replication.apply_workers={workers}")]);
        }
        all
    }
}

/// The totals of the delay that a primary has measured for its replica, commit by commit, at one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) commits: f64,
    pub(crate) sum_us: f64,
}

impl Totals {
    /// Returns the mean delay of the commits since `before`, in microseconds. If none has become visible since, returns
    /// for how long the oldest one has been waiting for it; `None` if none is waiting.
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
    /// The delay on the primary's clock, in microseconds; `None` if the primary does not report it, or nothing was
    /// committed.
    pub(crate) us: Option<f64>,
    /// The bytes of log that the replica's readers do not see yet.
    pub(crate) bytes: f64,
}

/// The additional options of one pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    /// The pair's name in tables; empty for the name of its arm.
    pub(crate) name: String,
    /// Arguments of the primary, and of the replica.
    pub(crate) primary: Vec<String>,
    pub(crate) replica: Vec<String>,
    /// The core to which each is pinned, the primary first; `None`: not pinned.
    pub(crate) cores: Option<[usize; 2]>,
    /// Whether there is no replica, so that no caller waits for one.
    pub(crate) alone: bool,
    /// Whether the replica follows through a relay in this process, which can hold the traffic.
    pub(crate) relayed: bool,
}

/// A primary and its replica.
pub(crate) struct Pair {
    /// `None` while the replica is stopped. Dropped first (P1).
    replica: Option<Server>,
    primary: Server,
    /// Dropped after both.
    relay: Option<Relay>,
    /// The replica's directory, while the replica is stopped.
    kept: Option<Arc<Scratch>>,
    /// The names of Collie's nodes, the primary's first.
    names: [&'static str; 2],
    arm: Arm,
    name: String,
    waiting: Waiting,
    launch: Launch,
}

/// A session with a prepared statement that returns one number.
pub(crate) struct Look {
    session: Client,
    statement: Statement,
}

impl Look {
    /// Reads the number.
    ///
    /// # Errors
    /// Those of the driver; the result is not one row.
    pub(crate) fn number(&mut self) -> anyhow::Result<i64> {
        Ok(self.session.query_one(&self.statement, &[])?.get(0))
    }
}

/// Whether commits may wait for the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    No,
    Yes,
}

/// Returns the available pairs: Collie's, and PostgreSQL's if it is installed and wanted. A missing pair is noted. No
/// commit waits for their replicas.
///
/// # Errors
/// Collie's pair does not start.
pub(crate) fn pairs(settings: &PairSettings, section: &mut Section) -> anyhow::Result<Vec<Pair>> {
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
/// It does not start.
pub(crate) fn collie(settings: &PairSettings, waiting: Waiting) -> anyhow::Result<Pair> {
    collie_arm(settings, Arm::Collie, waiting, Launch::default())
}

/// Starts the pair of `arm`; no commit waits for its replica.
///
/// # Errors
/// It is not installed, or does not start.
pub(crate) fn start(settings: &PairSettings, arm: Arm) -> anyhow::Result<Pair> {
    if arm == Arm::Peer { peer(settings, Waiting::No) } else { launch(settings, arm, Launch::default()) }
}

/// Starts the pair of `arm`, one of Collie's, like [`start`], with the options of `launch`.
///
/// # Errors
/// It does not start.
pub(crate) fn launch(settings: &PairSettings, arm: Arm, launch: Launch) -> anyhow::Result<Pair> {
    collie_arm(settings, arm, Waiting::No, launch)
}

/// Starts a pair of Collie's defaults like [`launch`], with the primary in the directory of an earlier server, whose
/// files are kept.
///
/// # Errors
/// It does not start.
pub(crate) fn launch_in(settings: &PairSettings, scratch: Arc<Scratch>, launch: Launch) -> anyhow::Result<Pair> {
    collie_in(settings, scratch, Arm::Collie, Waiting::No, launch)
}

fn collie_arm(settings: &PairSettings, arm: Arm, waiting: Waiting, launch: Launch) -> anyhow::Result<Pair> {
    let scratch = Arc::new(Scratch::new(&settings.plan.env, &settings.plan.dir)?);
    collie_in(settings, scratch, arm, waiting, launch)
}

fn collie_in(
    settings: &PairSettings,
    scratch: Arc<Scratch>,
    arm: Arm,
    waiting: Waiting,
    launch: Launch,
) -> anyhow::Result<Pair> {
    settings.plan.say("starting a primary and a replica");
    let arguments = [arm.arguments(settings, waiting, NAMES), launch.primary.clone()].concat();
    let core = launch.cores.map(|[primary, _]| primary);
    let primary = Server::collie_primary(&settings.plan, scratch, &words(&arguments), core)?;
    let name = if launch.name.is_empty() { arm.name() } else { launch.name.clone() };
    let relay = launch.relayed.then(|| Relay::to(&primary.replica_address()?)).transpose()?;
    let mut pair = Pair { replica: None, primary, relay, kept: None, names: NAMES, arm, name, waiting, launch };
    pair.replica = if pair.launch.alone { None } else { Some(pair.new_replica(settings)?) };
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
pub(crate) fn peer(settings: &PairSettings, waiting: Waiting) -> anyhow::Result<Pair> {
    settings.plan.say("starting PostgreSQL and a standby");
    let bin = postgresql_programs().context("none under /usr/lib/postgresql")?;
    let primary = Server::postgresql(&settings.plan, &bin)?;
    let arm = Arm::Peer;
    let (name, launch) = (arm.name(), Launch::default());
    let mut pair = Pair { replica: None, primary, relay: None, kept: None, names: NAMES, arm, name, waiting, launch };
    pair.replica = Some(pair.new_replica(settings)?);
    pair.until_even(settings)?;
    pair.list_standby(settings)?;
    Ok(pair)
}

impl Pair {
    /// Returns its name in tables.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether targets apply to it: only to the pair that users get.
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

    fn replica(&self) -> anyhow::Result<&Server> {
        self.replica.as_ref().context("the replica is stopped")
    }

    /// Starts a server as a replica in an empty directory, which is filled from the primary.
    fn new_replica(&self, settings: &PairSettings) -> anyhow::Result<Server> {
        let plan = &settings.plan;
        if self.is_peer() {
            return Server::postgresql_standby(plan, &self.primary, settings.backup_bytes_per_s);
        }
        self.new_replica_in(settings, Arc::new(Scratch::new(&plan.env, &plan.dir)?))
    }

    fn new_replica_in(&self, settings: &PairSettings, scratch: Arc<Scratch>) -> anyhow::Result<Server> {
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
        Server::collie_replica(&settings.plan, scratch, follows, &words(&arguments), core)
    }

    /// Returns TPC-C's connection to the primary.
    pub(crate) fn target(&self) -> Wire {
        Wire::new(self.name(), self.ring(), self.primary.config(), ISOLATION, true)
    }

    /// Opens a session on the replica.
    ///
    /// # Errors
    /// Those of the driver; the replica is stopped.
    pub(crate) fn connect_replica(&self) -> anyhow::Result<Client> {
        self.replica()?.connect().with_context(|| format!("{}: cannot connect to the replica", self.name()))
    }

    /// Opens a session on the replica that reads the number that `text` returns.
    ///
    /// # Errors
    /// Those of the driver; the replica is stopped.
    pub(crate) fn look(&self, text: &str) -> anyhow::Result<Look> {
        let mut session = self.connect_replica()?;
        let statement = session.prepare(text)?;
        Ok(Look { session, statement })
    }

    /// Returns the relay through which the replica follows.
    ///
    /// # Errors
    /// It follows without a relay.
    pub(crate) fn relay(&self) -> anyhow::Result<&Relay> {
        self.relay.as_ref().with_context(|| format!("{}: the replica follows without a relay", self.name()))
    }

    /// Opens a session on the primary.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn connect(&self) -> anyhow::Result<Client> {
        self.primary.connect().with_context(|| format!("{}: cannot connect to the primary", self.name()))
    }

    /// Reads from the primary how far its replica has been behind since `before`, the last reading; `None` while none
    /// is connected.
    ///
    /// # Errors
    /// Those of the driver.
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

    /// Waits until the replica shows the state that the primary had at the call (P2). Returns at once if the pair has
    /// no replica.
    ///
    /// # Errors
    /// Those of the driver; it takes longer than five minutes.
    pub(crate) fn until_even(&self, settings: &PairSettings) -> anyhow::Result<()> {
        if self.launch.alone {
            return Ok(());
        }
        let mut primary = self.connect()?;
        primary.batch_execute(
            "CREATE TABLE IF NOT EXISTS even (id int PRIMARY KEY, n bigint NOT NULL); \
             INSERT INTO even VALUES (1, 0) ON CONFLICT DO NOTHING",
        )?;
        let row = primary.query_one("UPDATE even SET n = n + 1 WHERE id = 1 RETURNING n", &[])?;
        let wanted: i64 = row.get(0);
        settings.plan.until(PATIENCE, &format!("{}: the replica is not even", self.name()), || {
            // While a replica is being filled, it refuses connections, and at first it does not have the table.
            let seen = self.connect_replica().and_then(|mut replica| Ok(replica.query("SELECT n FROM even", &[])?));
            let is_even = |rows: Vec<postgres::Row>| rows.first().is_some_and(|row| row.get::<_, i64>(0) >= wanted);
            Ok(seen.is_ok_and(is_even).then_some(()))
        })
    }

    /// Loads TPC-C into the primary, and waits until the replica has it.
    ///
    /// # Errors
    /// Those of the driver; the loaded rows are not consistent.
    pub(crate) fn load(&self, settings: &PairSettings) -> anyhow::Result<()> {
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
    /// Those of [`drive`].
    pub(crate) fn drive(&self, settings: &PairSettings, run: u32, pacing: Pacing) -> anyhow::Result<Run> {
        self.load_of(settings, run, pacing)()
    }

    /// Runs TPC-C like [`Self::drive`], until `stop` is set.
    ///
    /// # Errors
    /// Those of [`drive_until`].
    pub(crate) fn drive_until(
        &self,
        settings: &PairSettings,
        run: u32,
        pacing: Pacing,
        stop: &AtomicBool,
    ) -> anyhow::Result<Run> {
        let target = self.target();
        drive_until(&target, course(settings, run, pacing), &settings.plan.env.clock, stop)
            .with_context(|| format!("on {}", target.name()))
    }

    /// Returns a function that runs TPC-C on the primary and can be called from another thread.
    pub(crate) fn load_of(
        &self,
        settings: &PairSettings,
        run: u32,
        pacing: Pacing,
    ) -> impl FnOnce() -> anyhow::Result<Run> + Send + use<> {
        let (target, course) = (self.target(), course(settings, run, pacing));
        let clock = Arc::clone(&settings.plan.env.clock);
        move || drive(&target, course, &clock).with_context(|| format!("on {}", target.name()))
    }

    /// Checks the twelve conditions on both, and that the sums of both are equal (P2). Without a replica, checks the
    /// primary's conditions only.
    ///
    /// # Errors
    /// Conditions that do not hold; those of the driver.
    pub(crate) fn check(&self, settings: &PairSettings, section: &mut Section) -> anyhow::Result<()> {
        settings.plan.say(&format!("{}: consistency on both", self.name()));
        self.until_even(settings)?;
        let of = |target: &dyn Audited, whose: &str| {
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
        let replica = Wire::new(self.name(), self.ring(), self.replica()?.config(), ISOLATION, true);
        let (primary, replica) = (of(&self.target(), "primary")?, of(&replica, "replica")?);
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
        let replica = self.replica.take().context("the replica is stopped")?;
        self.kept = Some(replica.scratch());
        Ok(())
    }

    /// Starts another replica in an empty directory; the directory of the stopped one is removed.
    ///
    /// # Errors
    /// It does not start; a replica is running.
    pub(crate) fn fill_replica(&mut self, settings: &PairSettings) -> anyhow::Result<()> {
        let kept = self.kept.take().context("the replica runs")?;
        drop(kept);
        let mut primary = self.connect()?;
        // The slot of the removed replica would keep log. It may take a moment until it is inactive.
        settings.plan.until(PATIENCE, &format!("{}: the slot of a stopped replica is in use", self.name()), || {
            let used = primary.query("SELECT 1 FROM pg_replication_slots WHERE active", &[])?;
            Ok(used.is_empty().then_some(()))
        })?;
        let slots = primary.query("SELECT slot_name::text FROM pg_replication_slots", &[])?;
        for slot in slots.iter().map(|row| row.get::<_, String>(0)) {
            primary.execute("SELECT pg_drop_replication_slot($1)", &[&slot])?;
        }
        self.replica = Some(self.new_replica(settings)?);
        Ok(())
    }

    /// Makes commits on the primary wait for its replica, if the pair allows it: for PostgreSQL's pair, and for
    /// Collie's after the two have changed places.
    fn list_standby(&self, settings: &PairSettings) -> anyhow::Result<()> {
        if self.waiting == Waiting::No {
            return Ok(());
        }
        let mut session = self.connect()?;
        let is_in_force = if self.is_peer() {
            session.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
            session.batch_execute("SELECT pg_reload_conf()")?;
            // The standby becomes synchronous a moment later.
            "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        } else {
            session
                .batch_execute(&format!("CALL collie_set_option('replication.quorum', 'ANY 1 ({})')", self.names[1]))?;
            "SELECT 1 FROM collie_quorum WHERE list_before IS NULL"
        };
        settings.plan.until(PATIENCE, &format!("{}: the list of replicas is not in force", self.name()), || {
            Ok((!session.query(is_in_force, &[])?.is_empty()).then_some(()))
        })
    }

    /// Returns the configuration for sessions on the primary.
    pub(crate) fn primary_config(&self) -> postgres::Config {
        self.primary.config()
    }

    /// Returns the configuration for sessions on the replica.
    ///
    /// # Errors
    /// The replica is stopped.
    pub(crate) fn replica_config(&self) -> anyhow::Result<postgres::Config> {
        Ok(self.replica()?.config())
    }

    /// Kills the primary, as a crash would. From here on the replica takes its place in the pair, but is not promoted.
    ///
    /// # Errors
    /// The replica is stopped; those of the operating system.
    pub(crate) fn kill_primary(&mut self) -> anyhow::Result<()> {
        let replica = self.replica.take().context("the replica is stopped")?;
        let killed = std::mem::replace(&mut self.primary, replica);
        self.kept = Some(killed.scratch());
        self.names.reverse();
        killed.kill()
    }

    /// Promotes the former replica of a killed primary.
    ///
    /// # Errors
    /// It refuses; those of the driver.
    pub(crate) fn promote(&self) -> anyhow::Result<()> {
        let promoted: bool = self.connect()?.query_one("SELECT pg_promote()", &[])?.get(0);
        anyhow::ensure!(promoted, "{}: the replica was not promoted", self.name());
        Ok(())
    }

    /// Returns the last lines of output of its servers, the primary's first.
    pub(crate) fn words(&self) -> String {
        let last = |server: &Server| {
            let words = server.words();
            let lines: Vec<_> = words.lines().collect();
            lines[lines.len().saturating_sub(8)..].join("; ")
        };
        let replica = self.replica().map(last);
        format!(
            "the primary said: {}; the replica: {}",
            last(&self.primary),
            replica.unwrap_or_else(|error| error.to_string())
        )
    }

    /// Lets the killed primary follow the promoted one: Collie's returns in its own directory, PostgreSQL's standby is
    /// created again.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn rejoin(&mut self, settings: &PairSettings) -> anyhow::Result<()> {
        if !self.is_peer() {
            self.start_replica(settings)?;
            self.until_even(settings)?;
            return self.list_standby(settings);
        }
        drop(self.kept.take());
        self.replica = Some(self.new_replica(settings)?);
        self.until_even(settings)?;
        self.list_standby(settings)
    }

    /// Returns the ids of both processes, the primary's first.
    ///
    /// # Errors
    /// The replica is stopped.
    pub(crate) fn processes(&self) -> anyhow::Result<[u32; 2]> {
        Ok([self.primary.process(), self.replica()?.process()])
    }

    /// Returns the id of the primary's process.
    pub(crate) fn primary_process(&self) -> u32 {
        self.primary.process()
    }

    /// Returns the output of the primary so far.
    pub(crate) fn primary_words(&self) -> String {
        self.primary.words()
    }

    /// Stops both, the replica first. Returns the directory of the primary, and that of the replica if it runs; they
    /// stay for as long as the caller holds them.
    pub(crate) fn stop(mut self) -> (Arc<Scratch>, Option<Arc<Scratch>>) {
        let replica = self.replica.take().map(|server| server.scratch());
        (self.primary.scratch(), replica)
    }

    /// Returns the directory of the primary's files.
    pub(crate) fn primary_directory(&self) -> &Path {
        self.primary.directory()
    }

    /// Returns the directory of the replica's files.
    ///
    /// # Errors
    /// It is stopped.
    pub(crate) fn replica_directory(&self) -> anyhow::Result<&Path> {
        Ok(self.replica()?.directory())
    }

    /// Starts the replica again in its directory.
    ///
    /// # Errors
    /// It does not start; a replica is running.
    pub(crate) fn start_replica(&mut self, settings: &PairSettings) -> anyhow::Result<()> {
        let scratch = self.kept.take().context("the replica runs")?;
        let plan = &settings.plan;
        self.replica = Some(if self.is_peer() {
            Server::postgresql_in(plan, scratch, self.primary.programs())?
        } else {
            self.new_replica_in(settings, scratch)?
        });
        Ok(())
    }
}

/// Returns the description of a run.
pub(crate) fn course(settings: &PairSettings, run: u32, pacing: Pacing) -> Course {
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
