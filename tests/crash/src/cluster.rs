//! `cluster`: three whole servers, or two and a witness, with their clients in one process, over a simulated network,
//! disk, clock and thread scheduler, all of which the seed determines: hours of a cluster's operation in minutes, and
//! every violation can be repeated by its seed.
//!
//! The servers are the product's own code from the socket to the disk; `collie_simkernel` is the kernel below it. A run
//! draws which kinds of faults it has and how often they come (`faults.rs`), and consists of rounds: clients write at
//! every level of `synchronous_commit` and read on replicas while faults come; then everything is repaired, the clients
//! stop, and the nodes must come to one state, which must agree with all that clients were answered
//! (`failover/oracle.rs`). Snapshots on every node are checked all the time. In half of the runs every writer waits for
//! a quorum, and clients run transactions on lists, whose history must be one that their levels allow (`lists.rs`).
//! In a third of the runs the last machine has a witness in place of a server, and suffers the same faults; what a
//! leader acknowledges alone then has to survive as well.
//!
//! Each run is a separate process, because threads of killed servers are never cleaned up.

pub(crate) mod disk;
pub(crate) mod faults;
mod lists;
pub(crate) mod nodes;
mod runs;

use std::{fmt, panic, sync::Arc, thread, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum as _;
use collie_env::{Clock, RealClock};
use collie_simkernel::Options;
use nix::sys::personality;
use parking_lot::Mutex;

use self::{
    faults::{Faults, Kind},
    lists::Lists,
    nodes::{Nodes, View},
};
use crate::{
    appends::client::create as create_lists,
    bank,
    definitions::Definitions,
    failover::{
        load::{Habits, Level, Load},
        oracle::{Counts, Oracle},
    },
    random::Random,
    report::{Figures, Report},
    trio::{COUNT, NAMES, NotYet, Trio as _},
};

/// Printed if the system does not let a process have the same addresses each time, as in some containers.
const RANDOM_ADDRESSES: &str = "a seed may not bring a run back: the system wants addresses to be random";

/// The number of rounds of a run.
const ROUNDS: u64 = 3;

/// The limit of waits after everything was repaired, in simulated time.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a node may take to answer or to be promoted.
const ANSWER_TIME: Duration = Duration::from_secs(30);

const TICK: Duration = Duration::from_millis(100);

/// The number of writers in each round.
const WRITERS: usize = 5;

/// The arguments of the command.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) runs: u64,
    pub(crate) seed: u64,
    /// The simulated minutes of each run.
    pub(crate) minutes: u64,
    /// The only kinds of faults, if not empty.
    pub(crate) kinds: Vec<Kind>,
    /// The only quorum, if given.
    pub(crate) quorum: Option<String>,
    /// Whether every run has transactions on lists.
    pub(crate) lists: bool,
    /// Whether every cluster is two nodes and a witness.
    pub(crate) witness: bool,
    /// A mistake that is planted in the servers.
    pub(crate) plant: Option<String>,
    /// The number of runs at one time; `None` means one for each processor.
    pub(crate) jobs: Option<usize>,
    /// The processor of this process, if it is the single run of its plan.
    pub(crate) inside: Option<usize>,
    /// Whether the output of servers is shown as it comes.
    pub(crate) echo: bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster --runs {} --seed {} --minutes {}", self.runs, self.seed, self.minutes)?;
        if !self.kinds.is_empty() {
            write!(f, " --kinds {}", self.kinds())?;
        }
        self.quorum.iter().try_for_each(|quorum| write!(f, " --quorum '{quorum}'"))?;
        f.write_str(if self.lists { " --lists" } else { "" })?;
        f.write_str(if self.witness { " --witness" } else { "" })?;
        self.plant.iter().try_for_each(|mistake| write!(f, " --plant {mistake}"))
    }
}

impl Plan {
    /// Returns the kinds as the command's argument.
    fn kinds(&self) -> String {
        let names = self.kinds.iter().filter_map(|kind| kind.to_possible_value());
        names.map(|name| name.get_name().to_owned()).collect::<Vec<_>>().join(",")
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    figures: Figures,
    counts: Counts,
    /// The number of committed transactions on lists, and of their reads.
    lists: (u64, u64),
    has_witness: bool,
}

/// Runs the plan; an error is a violation.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<Report> {
    if let Some(processor) = plan.inside {
        return one(plan, processor);
    }
    let start_ns = RealClock.now_ns();
    // The addresses of objects decide the order of some maps.
    let persona = personality::get()? | personality::Persona::ADDR_NO_RANDOMIZE;
    if let Err(error) = personality::set(persona) {
        eprintln!("{RANDOM_ADDRESSES} ({error})");
    }
    let all = runs::all(plan)?;
    let (passed, minutes) = (Duration::from_nanos(RealClock.now_ns() - start_ns), plan.runs * plan.minutes);
    let words = format!(
        "cluster: {} runs of {} simulated minutes; {} faults, {} kills, {} power cuts, {} promotions; {} acknowledged: all oracles hold; {:.1} s, \
         {:.0} simulated seconds in each",
        plan.runs,
        plan.minutes,
        all.cycles,
        all.kills,
        all.cuts,
        all.promotions,
        all.acknowledged,
        passed.as_secs_f64(),
        minutes as f64 * 60.0 / passed.as_secs_f64().max(0.001)
    );
    Ok(Report::new(words, all))
}

/// Runs the plan's single run in this process.
fn one(plan: &Plan, processor: usize) -> anyhow::Result<Report> {
    runs::stay_on(processor)?;
    #[cfg(feature = "planted-bugs")]
    plan.plant.iter().for_each(|mistake| collie_sync::plant(mistake));
    let mut random = Random::new(plan.seed);
    let preempted_one_in = [0, 4, 16, 64, 256][usize::try_from(random.below(5))?];
    // With all waits; no run should take longer.
    let end = Duration::from_secs(60 * plan.minutes) + PATIENCE * 5 * u32::try_from(ROUNDS)?;
    let end_ns = u64::try_from(end.as_nanos())?;
    let options = Options { preempted_one_in, end_ns, echoes: plan.echo, ..Options::default() };
    let panics = Panics::noted();
    let ended = collie_simkernel::run(random.next(), options, || play(plan, &panics, &mut random));
    let total = ended.result?;
    let words = format!(
        "cluster --seed {}{}: {:.0} s, {} faults, {} kills, {} power cuts, {} promotions, acknowledged {:?}, {} of them alone, {} lost of local and \
         off, {} set aside, {} seen on replicas, {} transactions on lists with {} reads; {} turns, trace {:016x}",
        plan.seed,
        if total.has_witness { ", a witness" } else { "" },
        ended.passed.as_secs_f64(),
        total.figures.cycles,
        total.figures.kills,
        total.figures.cuts,
        total.figures.promotions,
        total.counts.acknowledged,
        total.counts.alone,
        total.counts.lost,
        total.counts.set_aside,
        total.counts.seen,
        total.lists.0,
        total.lists.1,
        ended.turns,
        ended.trace
    );
    Ok(Report::new(words, total.figures))
}

/// The first panic of a thread on any node; no fault excuses a panic.
#[derive(Clone, Debug)]
struct Panics(Arc<Mutex<Option<String>>>);

impl Panics {
    /// Records panics from now on.
    fn noted() -> Self {
        let (noted, before) = (Self(Arc::default()), panic::take_hook());
        let here = noted.clone();
        panic::set_hook(Box::new(move |panicked| {
            before(panicked);
            here.0.lock().get_or_insert_with(|| panicked.to_string());
        }));
        noted
    }

    fn check(&self) -> anyhow::Result<()> {
        match &*self.0.lock() {
            Some(text) => bail!("a thread {text}"),
            None => Ok(()),
        }
    }
}

/// A cluster, with its clients and oracles.
pub(crate) struct Cluster {
    pub(crate) nodes: Nodes,
    pub(crate) random: Random,
    pub(crate) figures: Figures,
    oracle: Oracle,
    definitions: Definitions,
    panics: Panics,
    sessions: u64,
    habits: Habits,
    /// Only in some runs.
    lists: Option<Lists>,
}

fn play(plan: &Plan, panics: &Panics, random: &mut Random) -> anyhow::Result<Total> {
    let mut random = Random::new(random.next());
    let mut faults = Faults::draw(&plan.kinds, plan.minutes, &mut random);
    faults.has_lists |= plan.lists;
    // Drawn apart, so that a seed has the same faults with and without.
    faults.has_witness = plan.witness || plan.quorum.is_none() && Random::new(!plan.seed).below(3) == 0;
    let settings = faults.settings(plan.quorum.as_deref(), &mut random);
    let nodes = Nodes::new(settings, faults.has_witness, faults.sync_us, &mut random)?;
    let (figures, oracle, panics) = (Figures::default(), Oracle::default(), panics.clone());
    let levels: &[Level] = if faults.has_lists { &Level::KEPT } else { &Level::ALL };
    let (power_fails, alone_is_kept) = (faults.cuts_power(), faults.has_witness);
    let habits = Habits { pause: faults.pause, power_fails, alone_is_kept, levels };
    let clock = || collie_simkernel::clock(Duration::ZERO, 0);
    let lists = faults.has_lists.then(|| Lists::new(nodes.places(), habits, clock()));
    let definitions = Definitions::default();
    let mut cluster = Cluster { nodes, random, figures, oracle, definitions, panics, sessions: 0, habits, lists };
    let played = cluster.play(plan, &mut faults);
    played.map_err(|error| {
        let (console, at_ns) = (cluster.nodes.console(), collie_simkernel::now_ns());
        error.context(format!("{faults:?}\n{console}\nat {:.6} s", at_ns as f64 / 1e9))
    })
}

impl Cluster {
    fn play(&mut self, plan: &Plan, faults: &mut Faults) -> anyhow::Result<Total> {
        (0..COUNT).try_for_each(|node| self.nodes.start(node))?;
        self.until("the first node to answer", |cluster| cluster.ask(|view| view.connect(0).is_ok()) == Some(true))?;
        let make = |view: &View| {
            let mut client = view.connect(0)?;
            create_lists(&mut client)?;
            bank::create(&mut client)
        };
        let made = self.ask(make).context("no answer")?;
        made.context("cannot make the tables")?;
        self.settle()?;
        let mut total = Total { has_witness: faults.has_witness, ..Total::default() };
        for round in 0..ROUNDS {
            let length = Duration::from_secs(plan.minutes * 60) / u32::try_from(ROUNDS)?;
            (total.counts, total.lists) = self.round(length, faults).with_context(|| format!("round {round}"))?;
        }
        self.figures.acknowledged = total.counts.acknowledged.iter().sum();
        self.figures.checked += self.figures.acknowledged + total.counts.seen + total.lists.0;
        Ok(Total { figures: self.figures, ..total })
    }

    /// Runs a load with faults for a while, repairs everything, and checks the result.
    fn round(&mut self, length: Duration, faults: &mut Faults) -> anyhow::Result<(Counts, (u64, u64))> {
        let mut load = Load::start(self.nodes.places(), self.habits, self.sessions, &mut self.random);
        load.add_definer(self.definitions.clone(), &mut self.random);
        load.add_writers(WRITERS, &mut self.random);
        self.lists.iter_mut().for_each(|lists| lists.start(&mut self.random));
        faults.come(self, &load, length)?;
        // From here on nothing is broken, so commits must be answered again, and no client may hang.
        self.nodes.heal()?;
        let before = load.acknowledged();
        self.until("a commit to be answered once everything was mended", |_| load.acknowledged() > before)
            .with_context(|| format!("the last session ended by {}", load.refusal()))?;
        load.stop();
        self.lists.iter().for_each(Lists::stop);
        self.until("clients to be answered", |cluster| {
            load.has_ended() && cluster.lists.as_ref().is_none_or(Lists::has_ended)
        })?;
        self.figures.checked += load.snapshots();
        let told = load.end()?;
        self.sessions = told.last_session;
        // The oracles need one final state.
        self.definitions = told.definitions.context("a client defines")?;
        self.oracle.heard(told.sessions, told.seen);
        let leader = self.settle()?;
        self.panics.check()?;
        let view = self.nodes.view();
        self.definitions.verify(&mut view.connect(leader)?)?;
        let counts = self.oracle.check(&view, leader)?;
        let Some(lists) = &mut self.lists else { return Ok((counts, (0, 0))) };
        let facts = lists.check(&mut view.connect(leader)?).context("transactions on lists")?;
        Ok((counts, (facts.committed, facts.reads)))
    }

    /// Runs queries on the nodes, limited to the time that working nodes may take.
    pub(crate) fn ask<T: Send + 'static>(&self, work: impl FnOnce(&View) -> T + Send + 'static) -> Option<T> {
        self.nodes.view().within(ANSWER_TIME, work)
    }

    /// Returns the nodes that say that they lead; none if one of the nodes does not answer.
    pub(crate) fn leading(&self) -> Vec<usize> {
        self.ask(View::leading).unwrap_or_default()
    }

    /// Executes a statement on a node; returns whether it succeeded.
    pub(crate) fn execute(&self, node: usize, sql: String) -> bool {
        let executed =
            self.ask(move |view| view.connect(node).is_ok_and(|mut client| client.batch_execute(&sql).is_ok()));
        executed == Some(true)
    }

    /// Asks a node to be promoted.
    pub(crate) fn promote(&mut self, node: usize) {
        let promoted = self.ask(move |view| view.promote(node).is_ok());
        self.figures.promotions += u64::from(promoted == Some(true));
    }

    /// Asks two nodes for a promotion at the same time, as two operators might.
    pub(crate) fn promote_both(&mut self, one: usize, other: usize) {
        let view = self.nodes.view();
        let racing = thread::spawn(move || view.within(ANSWER_TIME, move |view| view.promote(other).is_ok()));
        self.promote(one);
        self.figures.promotions += u64::from(racing.join().is_ok_and(|promoted| promoted == Some(true)));
    }

    /// Waits for a condition, and acts as the cluster's operator meanwhile.
    fn until(&mut self, what: &str, mut is_there: impl FnMut(&Self) -> bool) -> anyhow::Result<()> {
        let start_ns = collie_simkernel::now_ns();
        let mut looks = 0;
        while !is_there(self) {
            looks += 1;
            self.look_after(looks)?;
            let waited = Duration::from_nanos(collie_simkernel::now_ns() - start_ns);
            ensure!(waited < PATIENCE, "{PATIENCE:?} were not enough for {what}");
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Acts as an operator would: starts nodes that have ended, stops nodes that report that only a restart helps, and
    /// promotes a node if none leads.
    pub(crate) fn look_after(&mut self, looks: u64) -> anyhow::Result<()> {
        self.panics.check()?;
        if looks.is_multiple_of(10) {
            self.nodes.start_dead()?;
        }
        if looks.is_multiple_of(50) {
            self.ask(View::over).into_iter().flatten().for_each(|node| self.nodes.stop(node));
        }
        if looks.is_multiple_of(50) && self.leading().is_empty() {
            let node = usize::try_from(self.random.below(self.nodes.servers() as u64))?;
            self.promote(node);
        }
        Ok(())
    }

    /// Waits until exactly one node leads and all have equal rows at one position; nothing is written meanwhile.
    /// Returns the leader.
    fn settle(&mut self) -> anyhow::Result<usize> {
        let start_ns = collie_simkernel::now_ns();
        let (mut looks, mut last) = (0, String::new());
        loop {
            let leading = self.leading();
            match leading[..] {
                [leader] => match self.ask(move |view| view.states(leader)) {
                    Some(Ok(())) => return Ok(leader),
                    Some(Err(NotYet::Wrong(error))) => return Err(error),
                    Some(Err(NotYet::Unequal(why))) => last = why,
                    None => "a node does not answer".clone_into(&mut last),
                },
                [] => "nobody leads".clone_into(&mut last),
                _ => last = leading.iter().map(|node| NAMES[*node]).collect::<Vec<_>>().join(" and ") + " lead",
            }
            looks += 1;
            self.look_after(looks)?;
            if Duration::from_nanos(collie_simkernel::now_ns() - start_ns) > PATIENCE {
                bail!("the nodes do not come to one state: {last}");
            }
            thread::sleep(TICK);
        }
    }
}
