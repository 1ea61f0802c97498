//! `Node`: a machine that differs from the others in its share of a processor and in its disk; and the samples of a
//! run on it.

use std::path::{Path, PathBuf};

use crate::replication::ReplicationSettings;
use crate::replication::pair::{Arm, Launch, Pair, launch};
use crate::replication::rate;
use crate::servers::SAMPLE_EVERYTHING;
use crate::training::cores::two_cores;
use crate::training::neighbour::Neighbour;
use crate::training::recorded::Recorded;
use crate::training::recording::{NOT_YET, arguments, record};
use crate::training::settings::TrainingSettings;

/// The factor by which a run is longer than those of other questions; less in small runs.
const LONGER: u32 = 10;
const SMALL_LONGER: u32 = 6;
/// The rate in percent of the slowest node's maximum.
const PERCENT: f64 = 50.0;
/// A disk in memory.
const MEMORY: &str = "/dev/shm";

/// The properties that distinguish the machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The name in tables.
    pub(super) name: &'static str,
    /// The number of processes that compete for its core all the time.
    neighbours: u32,
    is_in_memory: bool,
}

/// The nodes; the last one is the slowest and sets the rate.
pub(super) static NODES: [Node; 3] = [
    Node { name: "A", neighbours: 0, is_in_memory: false },
    Node { name: "B", neighbours: 1, is_in_memory: true },
    Node { name: "C", neighbours: 2, is_in_memory: false },
];

/// The runs of all nodes, in their order.
pub(super) struct Runs {
    pub(super) recorded: Vec<Recorded>,
    /// Transactions per second of each run.
    pub(super) rate: f64,
    /// Length of each, in seconds.
    pub(super) seconds: f64,
}

impl Node {
    /// Describes the node for a note.
    pub(super) fn told(self) -> String {
        let share = match self.neighbours {
            0 => "a core alone".to_owned(),
            others => format!("1/{} of a core", others + 1),
        };
        format!("{}: {share}, {}", self.name, if self.is_in_memory { "a disk in memory" } else { "the disk of --dir" })
    }

    fn on_its_disk(self, with: &ReplicationSettings) -> ReplicationSettings {
        let mut with = with.clone();
        if self.is_in_memory && Path::new(MEMORY).is_dir() {
            with.plan.dir = PathBuf::from(MEMORY);
        }
        with
    }

    /// Starts a server on the node and loads it. Its neighbours start first, since the server measures its machine.
    fn start(self, with: &ReplicationSettings) -> anyhow::Result<(Vec<Neighbour>, Pair)> {
        let cores = two_cores();
        let core = cores.map(|[first, _]| first);
        let neighbours = (0..self.neighbours).map(|_| Neighbour::start(core)).collect::<anyhow::Result<_>>()?;
        let primary = arguments(&[&[SAMPLE_EVERYTHING], &NOT_YET]);
        let (name, with) = (format!("node {}", self.name), self.on_its_disk(with));
        let pair = launch(&with, Arm::Collie, Launch { name, primary, cores, alone: true, ..Launch::default() })?;
        pair.load(&with)?;
        Ok((neighbours, pair))
    }
}

impl Runs {
    /// Runs the load on one node after the other, the slowest first; its maximum sets the rate of all.
    ///
    /// # Errors
    /// A server or a neighbour does not start; the errors of the driver.
    pub(super) fn record(settings: &TrainingSettings) -> anyhow::Result<Self> {
        let time = settings.time * if settings.small { SMALL_LONGER } else { LONGER };
        let short = |run: u64| ReplicationSettings { runs: 1, seed: settings.seed + run, ..settings.replication() };
        let mut known = None;
        let mut recorded = Vec::new();
        for (run, node) in (0..).zip(NODES.iter().rev()) {
            let with = ReplicationSettings { time, ..short(run) };
            let (_neighbours, server) = node.start(&with)?;
            let per_s = match known {
                Some(per_s) => per_s,
                None => rate::peak(&server, &short(run))? * PERCENT / 100.0,
            };
            known = Some(per_s);
            recorded.push(record(server, &with, per_s)?.0);
        }
        recorded.reverse();
        Ok(Self { recorded, rate: known.unwrap_or_default(), seconds: time.as_secs_f64() })
    }
}
