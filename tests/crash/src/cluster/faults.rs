//! [`Faults`]: the faults of a run, drawn as a swarm: each run has some kinds of faults and not others, at its own
//! pace.

use std::{thread, time::Duration};

use clap::ValueEnum;

use super::{Cluster, nodes::Nodes};
use crate::{failover::load::Load, random::Random, trio::COUNT};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// SIGKILL.
    Kill,
    /// One node loses power, or all do at the same time.
    Power,
    /// A node is stopped in order.
    Stop,
    /// SIGSTOP, then SIGCONT.
    Pause,
    /// One node is cut off, in one direction or in both.
    Isolate,
    /// Two nodes cannot reach each other.
    Part,
    /// A link becomes slow.
    Delay,
    /// A node is promoted, whether another one leads or not; or two are asked to at the same time.
    Promote,
    /// The leader hands over (switchover).
    Switch,
    /// A disk does not respond for a while.
    Stall,
    /// A disk becomes slow.
    SlowDisk,
    /// A write or a sync fails.
    DiskFails,
    /// A disk is full.
    DiskFull,
    /// A node flushes its tables.
    Checkpoint,
    /// A table is created, filled or dropped.
    Define,
}

impl Kind {
    /// Returns whether it is a statement for a server, which a witness does not take.
    const fn asks_a_server(self) -> bool {
        matches!(self, Self::Promote | Self::Switch | Self::Checkpoint | Self::Define)
    }
}

/// The quorums that runs draw from: two of three, the leader alone, one that does not list every node, and one that
/// needs both listed nodes.
const QUORUMS: [&str; 6] = ["majority", "majority", "majority", "ANY 1 (a, b, c)", "ANY 1 (b, c)", "ANY 2 (b, c)"];

/// How long a leader with a witness waits for its replica before it asks to acknowledge commits alone.
const DEGRADES: [&str; 4] = ["after 1s", "after 1s", "after 5s", "wait"];

/// How long a fault waits for a commit to be answered first.
const COMMIT_TIME: Duration = Duration::from_secs(2);

/// A repair that is scheduled with a fault.
#[derive(Clone, Copy, Debug)]
enum Repair {
    Start(usize),
    Resume(usize),
    Link(usize, usize),
    Speed(usize, usize),
    Device(usize),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Faults {
    kinds: Vec<Kind>,
    /// The longest time between two faults.
    apart: Duration,
    /// The longest duration of a fault.
    lasts: Duration,
    /// The average pause of clients.
    pub(crate) pause: Duration,
    /// The longest duration of a sync, in microseconds.
    pub(crate) sync_us: u64,
    /// Whether every writer waits for a quorum, and clients run transactions on lists, which are checked (`lists.rs`).
    pub(crate) has_lists: bool,
    /// Whether the cluster is two nodes and a witness.
    pub(crate) has_witness: bool,
    latency: (Duration, Duration),
    repairs: Vec<(u64, Repair)>,
}

fn one_of<T: Copy>(of: &[T], random: &mut Random) -> T {
    of[usize::try_from(random.below(of.len() as u64)).unwrap_or(0)]
}

impl Faults {
    /// Draws the faults of a run of `minutes`, from the kinds in `only` unless it is empty.
    pub(crate) fn draw(only: &[Kind], minutes: u64, random: &mut Random) -> Self {
        let mut kinds: Vec<Kind> = Kind::value_variants().iter().copied().filter(|_| random.below(2) == 0).collect();
        if kinds.is_empty() {
            kinds.push(Kind::Kill);
        }
        if !only.is_empty() {
            kinds = only.to_vec();
        }
        let ms = |ms: u64| Duration::from_millis(ms);
        let latency = one_of(&[50_u64, 500, 5_000, 50_000], random);
        Self {
            kinds,
            apart: one_of(&[ms(300), ms(3_000), ms(30_000)], random),
            lasts: one_of(&[ms(300), ms(3_000), ms(20_000)], random),
            // Short and long runs have about the same number of transactions, since the end of a run looks for every
            // acknowledged one.
            pause: one_of(&[ms(25), ms(100), ms(400)], random) * u32::try_from(minutes).unwrap_or(u32::MAX),
            sync_us: one_of(&[20, 1_000, 20_000], random),
            has_lists: random.below(2) == 0,
            has_witness: false,
            latency: (Duration::from_micros(latency / 5), Duration::from_micros(latency)),
            repairs: Vec::new(),
        }
    }

    /// Returns whether nodes lose power in this run.
    pub(crate) fn cuts_power(&self) -> bool {
        self.kinds.contains(&Kind::Power)
    }

    /// Draws the settings of the servers; `only`, if given, is the quorum.
    pub(crate) fn settings(&self, only: Option<&str>, random: &mut Random) -> Vec<String> {
        let drawn = one_of(&QUORUMS, random);
        let quorum = if self.has_witness { "majority" } else { drawn };
        let mut settings = vec![
            format!("replication.quorum={}", only.unwrap_or(quorum)),
            format!("replication.timeout={} ms", one_of(&[1_000, 2_000, 10_000], random)),
            format!("wal.protocol={}", one_of(&["help", "mutex", "base"], random)),
            format!("wal.ring={}", one_of(&["shared", "private"], random)),
            "wal.ring_size=256KiB".to_owned(),
            "wal.flush_bytes=64KiB".to_owned(),
            "wal.segment_size=9MiB".to_owned(),
        ];
        if random.below(2) == 0 {
            let small = ["store.write_buffer_size=16KiB", "wal.max_total_wal_size=1"];
            settings.extend(small.map(str::to_owned));
        }
        if self.has_witness {
            settings.push(format!("replication.degrade={}", one_of(&DEGRADES, random)));
        }
        settings
    }

    /// Applies faults for `length`, and repairs them. The witness suffers those of its machine.
    pub(crate) fn come(&mut self, cluster: &mut Cluster, load: &Load, length: Duration) -> anyhow::Result<()> {
        let end_ns = collie_simkernel::now_ns() + nanoseconds(length);
        for from in 0..COUNT {
            for to in (0..COUNT).filter(|to| *to != from) {
                let (from, to) = (cluster.nodes.all[from].host, cluster.nodes.all[to].host);
                from.set_latency(to, self.latency.0, self.latency.1);
            }
        }
        let mut next_ns = 0;
        let mut looks = 0;
        while collie_simkernel::now_ns() < end_ns {
            let now_ns = collie_simkernel::now_ns();
            self.mend(cluster, now_ns)?;
            if now_ns >= next_ns {
                if cluster.random.below(2) == 0 {
                    until_answered(load);
                }
                self.strike(cluster)?;
                next_ns = collie_simkernel::now_ns() + cluster.random.below(nanoseconds(self.apart));
            }
            looks += 1;
            cluster.look_after(looks)?;
            thread::sleep(Duration::from_millis(50 + cluster.random.below(100)));
        }
        self.mend(cluster, u64::MAX)
    }

    /// Does the repairs that are due by `until_ns`.
    fn mend(&mut self, cluster: &mut Cluster, until_ns: u64) -> anyhow::Result<()> {
        let (due, later) = self.repairs.drain(..).partition(|(at_ns, _)| *at_ns <= until_ns);
        self.repairs = later;
        let due: Vec<(u64, Repair)> = due;
        for (_, repair) in due {
            let nodes = &mut cluster.nodes;
            match repair {
                Repair::Start(node) if nodes.runs(node) => {}
                Repair::Start(node) => nodes.start(node)?,
                Repair::Resume(node) => nodes.pause(node, false),
                Repair::Link(from, to) => nodes.cut(from, to, false),
                Repair::Speed(from, to) => {
                    let (from, to) = (nodes.all[from].host, nodes.all[to].host);
                    from.set_latency(to, self.latency.0, self.latency.1);
                }
                Repair::Device(node) => {
                    let disk = &nodes.all[node].disk;
                    disk.set_sync_us(self.sync_us);
                    disk.set_stalled(false);
                    disk.files.set_capacity(None);
                }
            }
        }
        Ok(())
    }

    fn strike(&mut self, cluster: &mut Cluster) -> anyhow::Result<()> {
        let random = &mut cluster.random;
        let kind = one_of(&self.kinds, random);
        let node = usize::try_from(random.below(COUNT as u64))?;
        let other = (node + 1 + usize::from(random.below(2) == 0)) % COUNT;
        let servers = cluster.nodes.servers();
        let (node, other) = match kind.asks_a_server() && servers < COUNT {
            true => (node % servers, (node + 1) % servers),
            false => (node, other),
        };
        let back_ns = collie_simkernel::now_ns() + random.below(nanoseconds(self.lasts));
        let ways = random.below(3);
        let mut later = |repair| self.repairs.push((back_ns, repair));
        cluster.figures.cycles += 1;
        let nodes = &mut cluster.nodes;
        eprintln!("{kind:?} {node} {other} {ways} until {:.3}", back_ns as f64 / 1e9);
        match kind {
            // A node that is down stays down as long as was drawn.
            Kind::Kill if !nodes.runs(node) => {}
            Kind::Kill => {
                nodes.kill(node);
                cluster.figures.kills += 1;
                later(Repair::Start(node));
            }
            Kind::Power => {
                let all = ways == 0;
                for each in (0..COUNT).filter(|each| all || *each == node) {
                    if !nodes.runs(each) {
                        continue;
                    }
                    nodes.cut_power(each, cluster.random.next());
                    cluster.figures.cuts += 1;
                    // The nodes return one after the other, in any order; or one stays away for long, and the others
                    // must have everything that it answered.
                    let most_ns = nanoseconds(self.lasts) * if all && each == node { 8 } else { 1 };
                    let back_ns = collie_simkernel::now_ns() + cluster.random.below(most_ns);
                    self.repairs.push((back_ns, Repair::Start(each)));
                }
            }
            Kind::Stop => {
                nodes.stop(node);
                later(Repair::Start(node));
            }
            Kind::Pause => {
                nodes.pause(node, true);
                later(Repair::Resume(node));
            }
            Kind::Isolate => isolate(nodes, node, ways, &mut later),
            Kind::Part => {
                for (from, to) in [(node, other), (other, node)] {
                    nodes.cut(from, to, true);
                    later(Repair::Link(from, to));
                }
            }
            Kind::Delay => {
                let (from, to) = (nodes.all[node].host, nodes.all[other].host);
                from.set_latency(to, Duration::from_millis(50), Duration::from_millis(900));
                later(Repair::Speed(node, other));
            }
            Kind::Promote if ways == 0 => cluster.promote_both(node, other),
            // The leader does not learn of the promotion, and nodes that promised the new term may still be reached by
            // the old leader.
            Kind::Promote if ways == 1 && self.kinds.contains(&Kind::Isolate) => {
                let led: Vec<usize> = cluster.leading().into_iter().filter(|led| *led != node).collect();
                let links = led.iter().flat_map(|led| [(node, *led), (*led, node)]);
                links.clone().for_each(|(from, to)| cluster.nodes.cut(from, to, true));
                cluster.promote(node);
                // The promotion may have taken long, so the end of the cut is drawn now.
                let back_ns = collie_simkernel::now_ns() + cluster.random.below(nanoseconds(self.lasts));
                let mut later = |repair| self.repairs.push((back_ns, repair));
                links.for_each(|(from, to)| later(Repair::Link(from, to)));
                isolate(&cluster.nodes, node, 2, &mut later);
            }
            Kind::Promote => cluster.promote(node),
            Kind::Switch => {
                let given = cluster.execute(node, "SELECT collie_switchover(2000)".to_owned());
                cluster.figures.promotions += u64::from(given);
            }
            Kind::Stall => {
                nodes.all[node].disk.set_stalled(true);
                later(Repair::Device(node));
            }
            Kind::SlowDisk => {
                nodes.all[node].disk.set_sync_us(200_000);
                later(Repair::Device(node));
            }
            Kind::DiskFails => {
                let files = &nodes.all[node].disk.files;
                files.fail_write_or_sync(files.writes_and_syncs() + 1 + ways * 3, collie_env::Fault::Eio);
            }
            Kind::DiskFull => {
                let files = &nodes.all[node].disk.files;
                files.set_capacity(Some(files.used_bytes() + ways * 30_000));
                later(Repair::Device(node));
            }
            Kind::Checkpoint => _ = cluster.execute(node, "CHECKPOINT".to_owned()),
            Kind::Define => {
                let sql = [
                    "CREATE TABLE IF NOT EXISTS other (n int PRIMARY KEY, t text)",
                    "DROP TABLE IF EXISTS other",
                    "INSERT INTO other SELECT n, repeat('x', 100) FROM generate_series(1, 200) AS n ON CONFLICT DO NOTHING",
                ][usize::try_from(ways)?];
                cluster.execute(node, format!("SET statement_timeout = '5s'; {sql}"));
            }
        }
        Ok(())
    }
}

/// Cuts a node off: its outgoing traffic, its incoming traffic, or both.
fn isolate(nodes: &Nodes, node: usize, ways: u64, later: &mut impl FnMut(Repair)) {
    for other in (0..COUNT).filter(|other| *other != node) {
        for (from, to, is_cut) in [(node, other, ways != 1), (other, node, ways > 0)] {
            if is_cut {
                nodes.cut(from, to, true);
                later(Repair::Link(from, to));
            }
        }
    }
}

/// Waits until a commit was just answered, since a fault is most likely to lose the newest one.
fn until_answered(load: &Load) {
    let (before, start_ns) = (load.acknowledged(), collie_simkernel::now_ns());
    while load.acknowledged() == before && collie_simkernel::now_ns() - start_ns < nanoseconds(COMMIT_TIME) {
        thread::sleep(Duration::from_millis(1));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
