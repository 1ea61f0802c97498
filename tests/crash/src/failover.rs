//! `failover`: three real servers, or two and a witness, one of them the leader; each cycle applies a fault under load
//! and promotes another node.
//!
//! A round has its own database, with one of several quorums. In each of its cycles clients write at every level of
//! `synchronous_commit` and read on replicas (`load.rs`), and one client creates, fills and drops tables
//! (`definitions.rs`). At a random moment a node is killed or frozen, or the network around it is cut in one or both
//! directions. A node is promoted without force, or the one that its refusal names because it has more of the log.
//! Broken nodes return with the arguments of their first start. Then the clients stop, all nodes come to one state
//! (`nodes.rs`), and everything that clients were answered in the round is compared with it (`oracle.rs`).
//!
//! With `points` the servers are this program, and die at named places of their code (`collie_env::fault_point`): in
//! the middle of a write, of an ack, of a promise, of a promotion, of a cut of the log, of a base backup.
//!
//! The seed fixes what is tried, not how threads meet.

pub(crate) mod load;
pub(crate) mod nodes;
pub(crate) mod oracle;
#[cfg(feature = "planted-bugs")]
pub(crate) mod rules;

use std::{
    fmt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use collie_env::{Clock, RealClock};

use crate::{
    bank,
    definitions::Definitions,
    random::Random,
    report::{Figures, Report},
    trio::{COUNT, Trio as _},
};
use load::{Habits, Level, Load};
use nodes::{Nodes, TICK, Words, is_over};
use oracle::{Counts, Oracle};

/// The number of cycles in a round.
const ROUND_CYCLES: u64 = 5;

/// The numbers of writers from the beginning of a cycle, and of those that are added after the fault.
const WRITERS: [usize; 2] = [6, 5];

/// The quorums, which rounds use in turn: two of three, the leader alone, and one that does not list every node.
const QUORUMS: [&str; 3] = ["majority", "ANY 1 (a, b, c)", "ANY 1 (b, c)"];

/// The settings of two nodes that have a witness.
const WITH_WITNESS: [&str; 2] = ["replication.quorum=majority", "replication.degrade=after 1s"];

/// The places where a process may die, and the largest number of passes before that.
const POINTS: [(&str, u64); 15] = [
    ("wal.write", 80),
    ("wal.sync", 80),
    ("wal.synced", 80),
    ("stream.ship", 80),
    ("stream.received", 80),
    ("stream.ack", 80),
    ("stream.confirmed", 80),
    ("promise.write", 2),
    ("promise.written", 2),
    ("promote.won", 1),
    ("promote.record", 1),
    ("promote.control", 1),
    ("truncate.copied", 1),
    ("truncate.forgotten", 1),
    ("truncate.cut", 1),
];

/// The arguments of the command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) cycles: u64,
    pub(crate) seed: u64,
    pub(crate) server: PathBuf,
    /// Whether processes also die at named places; `server` is then this program.
    pub(crate) points: bool,
    /// Whether there are two nodes and a witness.
    pub(crate) witness: bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cycles, seed, server, points, witness } = self;
        write!(f, "failover --cycles {cycles} --seed {seed} --server {}", server.display())?;
        f.write_str(if *witness { " --witness" } else { "" })?;
        f.write_str(if *points { " --points" } else { "" })
    }
}

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Kill,
    Freeze,
    Cut { sends: bool, receives: bool },
}

/// The sums over all rounds.
#[derive(Debug, Default)]
struct Total {
    acknowledged: [u64; Level::ALL.len()],
    lost: u64,
    set_aside: u64,
    seen: u64,
    /// Answered by a leader without its quorum, with the leave of the witness.
    alone: u64,
    promotions: u64,
    /// Processes that died at a named place.
    died: u64,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    let start_ns = RealClock.now_ns();
    let mut random = Random::new(plan.seed);
    let mut total = Total::default();
    let rounds = plan.cycles.div_ceil(ROUND_CYCLES);
    let first = random.below(QUORUMS.len() as u64);
    for round in 0..rounds {
        let dir = tempfile::Builder::new().prefix("collie-failover-").tempdir()?;
        let rings = tempfile::Builder::new().prefix("collie-failover-").tempdir_in("/dev/shm")?;
        let quorum = QUORUMS[usize::try_from((first + round) % QUORUMS.len() as u64)?];
        let cycles = ROUND_CYCLES.min(plan.cycles - round * ROUND_CYCLES);
        let played = play(plan, quorum, cycles, [dir.path(), rings.path()], &mut random, &mut total);
        if let Err(error) = played {
            let kept = dir.keep(); // the evidence stays
            return Err(error.context(format!("round {round}, {quorum}, data kept in {}", kept.display())));
        }
    }
    let seconds = Duration::from_nanos(RealClock.now_ns() - start_ns).as_secs_f64();
    let levels = Level::ALL.map(|level| format!("{} {}", total.acknowledged[level as usize], level.name()));
    let Total { lost, set_aside, seen, alone, promotions, died, .. } = total;
    let words = format!(
        "failover: {} cycles in {rounds} rounds, {promotions} promotions, {died} processes died at a named place; answered: {}, {alone} of them \
         by a leader alone; of local and off {lost} lost, {set_aside} commits set aside; {seen} sightings on replicas: all oracles hold; {seconds:.1} s",
        plan.cycles,
        levels.join(", ")
    );
    let acknowledged = total.acknowledged.iter().sum();
    let figures =
        Figures { cycles: plan.cycles, promotions, checked: acknowledged, acknowledged, ..Figures::default() };
    Ok(Report::new(words, figures))
}

/// One database, over several cycles.
struct Round<'p> {
    plan: &'p Plan,
    nodes: Nodes,
    oracle: Oracle,
    definitions: Definitions,
    leader: usize,
    /// The number of the last session.
    sessions: u64,
}

fn play(
    plan: &Plan,
    quorum: &str,
    cycles: u64,
    [dir, rings]: [&Path; 2],
    random: &mut Random,
    total: &mut Total,
) -> anyhow::Result<()> {
    let mut settings = vec!["replication.timeout=1 s".to_owned()];
    match plan.witness {
        true => settings.extend(WITH_WITNESS.map(str::to_owned)),
        false => settings.push(format!("replication.quorum={quorum}")),
    }
    if random.below(2) == 0 {
        // Tables are flushed, and log is released, as often as possible.
        let small = ["store.write_buffer_size=16KiB", "wal.ring_size=256KiB", "wal.flush_bytes=64KiB"];
        settings.extend(small.map(str::to_owned));
        settings.extend(["wal.segment_size=9MiB", "wal.max_total_wal_size=1"].map(str::to_owned));
    }
    let arguments = if plan.points { vec!["planted".to_owned(), "nothing".to_owned()] } else { Vec::new() };
    let words = Words { binary: plan.server.clone(), arguments, settings, has_witness: plan.witness };
    let mut nodes = Nodes::new(words, dir, rings, random.next())?;
    (0..COUNT).try_for_each(|node| nodes.start(node, &[]))?;
    bank::create(&mut nodes.connect(0)?).context("cannot make the tables")?;
    let leader = nodes.settle()?;
    let (oracle, definitions) = (Oracle::default(), Definitions::default());
    let mut round = Round { plan, nodes, oracle, definitions, leader, sessions: 0 };
    for cycle in 0..cycles {
        let before = round.nodes.died;
        let context = round.cycle(random, total);
        let said = context.with_context(|| format!("cycle {cycle}"))?;
        total.died += round.nodes.died - before;
        if cycle + 1 == cycles {
            (0..Level::ALL.len()).for_each(|level| total.acknowledged[level] += said.acknowledged[level]);
            (total.lost, total.set_aside) = (total.lost + said.lost, total.set_aside + said.set_aside);
            (total.seen, total.alone) = (total.seen + said.seen, total.alone + said.alone);
        }
    }
    Ok(())
}

impl Round<'_> {
    /// Applies a fault, promotes a node, and checks the result.
    fn cycle(&mut self, random: &mut Random, total: &mut Total) -> anyhow::Result<Counts> {
        let habits = Habits { alone_is_kept: self.plan.witness, ..Habits::RESTLESS };
        let mut load = Load::start(self.nodes.places(), habits, self.sessions, random);
        load.add_writers(WRITERS[0], random);
        load.add_definer(self.definitions.clone(), random);
        let armed = if self.plan.points { Some(self.arm(random)?) } else { None };
        if armed.is_some() {
            load.look_at(self.nodes.places());
        }
        // The random moment of the fault is what the experiment varies.
        thread::sleep(Duration::from_millis(100 + random.below(400)));
        let (victim, fault) = self.fault(random);
        self.strike(victim, fault)?;
        load.add_writers(WRITERS[1], random);
        thread::sleep(Duration::from_millis(random.below(300)));
        // If the leader still runs, it may stay the leader.
        let keeps = victim != self.leader && random.below(3) == 0;
        if !keeps {
            self.promote(victim, random, &load)?;
            total.promotions += 1;
        }
        let before = load.acknowledged();
        if random.below(2) == 0 {
            self.nodes.heal()?;
        }
        thread::sleep(Duration::from_millis(100 + random.below(400)));
        self.nodes.heal()?;
        self.nodes.start_dead()?;
        load.look_at(self.nodes.places());
        self.until_more(&load, before)?;
        self.sessions = self.end(load)?;
        if let Some(armed) = armed.filter(|armed| self.nodes.runs(*armed)) {
            // It may come to its place while it is checked.
            self.nodes.kill(armed)?;
            self.nodes.start(armed, &[])?;
        }
        self.leader = self.nodes.settle()?;
        self.definitions.verify(&mut self.nodes.connect(self.leader)?)?;
        self.oracle.check(&self.nodes, self.leader)
    }

    /// Restarts one node so that it dies at a named place; returns the node.
    fn arm(&mut self, random: &mut Random) -> anyhow::Result<usize> {
        let (point, most) = POINTS[usize::try_from(random.below(POINTS.len() as u64))?];
        let node = usize::try_from(random.below(self.nodes.count() as u64))?;
        self.nodes.kill(node)?;
        let nth = 1 + random.below(most);
        // It may die before it listens; then it is started again later.
        let _died_already = self.nodes.start(node, &[("COLLIE_KILL_AT", format!("{point}:{nth}"))]);
        Ok(node)
    }

    /// Draws a fault and its victim.
    fn fault(&self, random: &mut Random) -> (usize, Fault) {
        let victim = if random.below(3) > 0 {
            self.leader
        } else {
            (self.leader + 1 + usize::from(random.below(2) == 0)) % COUNT
        };
        let fault = match random.below(8) {
            0..=2 => Fault::Kill,
            3 => Fault::Freeze,
            4 => Fault::Cut { sends: true, receives: true },
            5 => Fault::Cut { sends: true, receives: false },
            6 => Fault::Cut { sends: false, receives: true },
            _ => Fault::Nothing,
        };
        (victim, fault)
    }

    fn strike(&mut self, victim: usize, fault: Fault) -> anyhow::Result<()> {
        match fault {
            Fault::Nothing => Ok(()),
            Fault::Kill => self.nodes.kill(victim),
            Fault::Freeze => self.nodes.freeze(victim),
            Fault::Cut { sends, receives } => {
                self.nodes.cut(victim, sends, receives);
                Ok(())
            }
        }
    }

    /// Promotes a node other than `victim` if the others agree; if they do not, repairs the fault and tries again.
    fn promote(&mut self, victim: usize, random: &mut Random, load: &Load) -> anyhow::Result<()> {
        let start_ns = RealClock.now_ns();
        let (mut tries, mut refused) = (0, String::new());
        let (offset, count) = (random.below(COUNT as u64), self.nodes.count() as u64);
        loop {
            let candidate = usize::try_from((offset + tries) % count)?;
            tries += 1;
            if candidate != victim && candidate != self.leader && self.nodes.runs(candidate) {
                match self.nodes.promote(candidate) {
                    Ok(leader) => {
                        self.leader = leader;
                        return Ok(());
                    }
                    Err(why) => refused = why,
                }
            }
            if is_over(start_ns) {
                bail!("nobody can be promoted: {refused}");
            }
            if tries > 3 {
                // No other node can be promoted, or the one with the most log is the broken one.
                self.nodes.heal()?;
                self.nodes.start_dead()?;
                load.look_at(self.nodes.places());
                if let [leader] = self.nodes.leading()[..]
                    && leader != self.leader
                {
                    self.leader = leader;
                    return Ok(());
                }
                if let Ok(leader) = self.nodes.promote(usize::try_from(tries % count)?) {
                    self.leader = leader;
                    return Ok(());
                }
            }
            thread::sleep(TICK);
        }
    }

    /// Waits until a leader answers commits again.
    fn until_more(&mut self, load: &Load, before: u64) -> anyhow::Result<()> {
        let start_ns = RealClock.now_ns();
        let mut looks = 0;
        while load.acknowledged() == before {
            looks += 1;
            // A candidate that asked for promises and did not win leaves the cluster without a leader; an operator
            // tries again.
            if looks % 50 == 0 && self.nodes.leading().is_empty() {
                self.nodes.start_dead()?;
                let _tried_again_later = self.nodes.promote(looks / 50 % self.nodes.count());
                load.look_at(self.nodes.places());
            }
            ensure!(!is_over(start_ns), "no commit is answered any more: {:?} lead", self.nodes.leading());
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Stops the clients, and records their answers. Returns the number of the last session.
    fn end(&mut self, load: Load) -> anyhow::Result<u64> {
        load.stop();
        let start_ns = RealClock.now_ns();
        let mut looks = 0;
        while !load.has_ended() {
            looks += 1;
            if looks % 50 == 0 {
                // Commits wait for replicas, which wait for a leader.
                self.nodes.start_dead()?;
                if self.nodes.leading().is_empty() {
                    let _tried_again_later = self.nodes.promote(looks / 50 % self.nodes.count());
                }
            }
            ensure!(!is_over(start_ns), "a client is not answered any more; {:?} lead", self.nodes.leading());
            thread::sleep(TICK);
        }
        let told = load.end()?;
        self.oracle.heard(told.sessions, told.seen);
        self.definitions = told.definitions.context("a client defines")?;
        Ok(told.last_session)
    }
}
