//! How much does collection cost a primary? Throughput, latency and processor time per transaction with samples on,
//! compared with the same server without: with defaults, with every call sampled, with every call sampled by six
//! system calls, and with a replica that collects.
//!
//! # What always holds
//! - O1. Both runs of a pair use one server with the same rows and the same random input; only the setting differs.
//!   Arms without replication have no replica; with one, it has applied everything when a run begins.
//! - O2. No figure is reported for a database that violates TPC-C's conditions afterwards, that lacks a row of YCSB's
//!   table, or whose replica has other rows.

use collie_server::log_lines;
use collie_workload::{Kind, Pacing};

use super::bootstrap::{in_balanced_order, paired_ratios, with_interval};
use super::cores::{note_cores, two_cores};
use super::live::{Collected, Node, set, set_samples};
use super::usage::Usage;
use crate::Section;
use crate::measures::{float, median, micros, per_s};
use crate::replication::PairSettings;
use crate::replication::pair::{self, Arm, Launch, Pair};
use crate::report::Row;
use crate::servers::{SAMPLE_EVERYTHING, SIX_CALLS};
use crate::ycsb::{self, FIELD_BYTES, FIELDS, ScrambledZipfian, THETA, UserTable, Workload};

/// The target: the largest cost in throughput and p99 of a primary with defaults.
const COST_MAX: f64 = 0.005;
/// Rows of YCSB's table; `YCSB_ROWS_SMALL` in small runs.
const YCSB_ROWS: u32 = 100_000;
const YCSB_ROWS_SMALL: u32 = 1_000;
/// The factor by which a run of YCSB is shorter than one of TPC-C: it completes more requests in half the time, and
/// there are two of it.
const YCSB_SHORTER: u32 = 2;

/// The parameters of one server's rows.
struct Case {
    subject: &'static str,
    primary: &'static [&'static str],
    /// The node on which collecting is turned on and off.
    node: Node,
    is_default: bool,
}

const CASES: [Case; 4] = [
    Case { subject: "default (a thousandth of calls)", primary: &[], node: Node::Primary, is_default: true },
    Case { subject: "every call", primary: &[SAMPLE_EVERYTHING], node: Node::Primary, is_default: false },
    Case {
        subject: "every call, six system calls",
        primary: &[SAMPLE_EVERYTHING, SIX_CALLS],
        node: Node::Primary,
        is_default: false,
    },
    Case { subject: "the replica collects", primary: &[], node: Node::Replica, is_default: false },
];

/// The load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Tpcc,
    Ycsb(Workload),
}

impl Load {
    const ALL: [Self; 3] = [Self::Tpcc, Self::Ycsb(Workload::A), Self::Ycsb(Workload::B)];

    const fn name(self) -> &'static str {
        match self {
            Self::Tpcc => "TPC-C, commits on disk",
            Self::Ycsb(Workload::A) => "YCSB A (half reads, half updates), commits in memory",
            Self::Ycsb(Workload::B) => "YCSB B (95 % reads, 5 % updates), commits in memory",
        }
    }

    const fn level(self) -> &'static str {
        match self {
            Self::Tpcc => "disk",
            Self::Ycsb(_) => "memory",
        }
    }

    /// Returns the settings of its runs.
    fn with(self, settings: &PairSettings) -> PairSettings {
        let with = settings.clone();
        match self {
            Self::Tpcc => with,
            Self::Ycsb(_) => PairSettings { time: with.time / YCSB_SHORTER, ..with },
        }
    }
}

/// The rows and requests of YCSB.
struct Ycsb {
    table: UserTable,
    items: ScrambledZipfian,
}

impl Ycsb {
    fn new(settings: &PairSettings) -> Self {
        let (rows, seed) = (if settings.small { YCSB_ROWS_SMALL } else { YCSB_ROWS }, settings.seed);
        Self { table: UserTable { rows, seed }, items: ScrambledZipfian::new(rows, THETA, seed) }
    }

    /// Checks that all rows exist, and that a replica has the same ones (O2).
    fn check(&self, pair: &Pair, section: &mut Section) -> anyhow::Result<()> {
        let (rows, primary) = (self.table.rows, self.table.checksum(&mut pair.connect()?)?);
        let mut same = "";
        if !pair.is_alone() {
            let replica = self.table.checksum(&mut pair.connect_replica()?)?;
            anyhow::ensure!(
                primary == replica,
                "{}: the replica's rows of usertable are not the primary's",
                pair.name()
            );
            same = ", and the same on the replica";
        }
        section
            .notes
            .push(format!("{}: all {rows} rows of usertable are there with all of their fields{same}", pair.name()));
        Ok(())
    }
}

/// The results of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    per_s: f64,
    p99_us: f64,
    cpu_us_per_txn: f64,
    samples_per_txn: f64,
    lost_share: f64,
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let ycsb = Ycsb::new(settings);
    let mut section = Section::new(
        "overhead",
        format!(
            "what does collecting cost a primary? (TPC-C: {} warehouses; YCSB: {} rows of {FIELDS} fields of {FIELD_BYTES} bytes, scrambled \
             zipfian {THETA}; {} clients, flat out, {} pairs of runs of {} s, of YCSB of {} s, in turn off-on-on-off; ratios with by without, \
             with the 95 % interval of their median)",
            settings.warehouses,
            ycsb.table.rows,
            settings.clients,
            settings.runs,
            settings.time.as_secs_f64(),
            Load::Ycsb(Workload::A).with(settings).time.as_secs_f64()
        ),
    );
    let cores = two_cores();
    for case in &CASES {
        one_case(settings, case, &ycsb, cores, &mut section)?;
    }
    note_cores(&mut section, cores);
    section.notes.push(
        "processor time is that of all threads of the primary's process for each transaction, of samples that are drained, thinned and written \
         too; what a disk or the load takes from a run is not in it"
            .to_owned(),
    );
    Ok(section)
}

fn one_case(
    settings: &PairSettings,
    case: &Case,
    ycsb: &Ycsb,
    cores: Option<[usize; 2]>,
    section: &mut Section,
) -> anyhow::Result<()> {
    let launch = Launch {
        name: case.subject.to_owned(),
        primary: case.primary.iter().map(|word| (*word).to_owned()).collect(),
        cores,
        alone: case.node == Node::Primary,
        ..Launch::default()
    };
    let pair = pair::launch(settings, Arm::Collie, launch)?;
    pair.load(settings)?;
    ycsb.table.fill(&mut pair.connect()?)?;
    if case.node == Node::Replica {
        // The primary does the same in both runs.
        set_samples(&settings.plan, &pair, Node::Primary, false)?;
    }
    for load in Load::ALL {
        let ran = in_balanced_order(2, settings.runs, |arm, run| {
            let with = arm == 1;
            let state = if with { "with" } else { "without" };
            settings.plan.say(&format!("{}, {state}: run {} of {}", case.subject, run + 1, settings.runs));
            turn(settings, &pair, case.node, with)?;
            // Unapplied work of the previous run must not be part of this one.
            pair.until_even(settings)?;
            one_run(settings, &pair, case.node, ycsb, load, run)
        })?;
        rows(settings, case, load, &pair, &ran, section);
    }
    turn(settings, &pair, case.node, false)?;
    pair.check(settings, section)?;
    ycsb.check(&pair, section)?;
    if case.primary.contains(&SIX_CALLS) {
        section.notes.extend(said(&pair, "beside each sample"));
    }
    Ok(())
}

/// Returns the first text of the primary's log that begins with `begins`.
fn said(pair: &Pair, begins: &str) -> Option<String> {
    let words = pair.primary_words();
    let mut texts = words.lines().map(log_lines::text_of);
    texts.find(|text| text.starts_with(begins)).map(|text| format!("{}: {text}", pair.name()))
}

/// Turns collecting on or off.
fn turn(settings: &PairSettings, pair: &Pair, node: Node, on: bool) -> anyhow::Result<()> {
    match node {
        Node::Primary => set_samples(&settings.plan, pair, node, on),
        Node::Replica => set(pair, node, "training.collection_policy", if on { "headroom" } else { "none" }),
    }
}

fn one_run(settings: &PairSettings, pair: &Pair, node: Node, ycsb: &Ycsb, load: Load, run: u32) -> anyhow::Result<Ran> {
    let with = load.with(settings);
    let process = pair.primary_process();
    let (collected, used) = (Collected::of(pair, node)?, Usage::of(process)?);
    // Processor time and samples cover the whole run with its warm-up, and so does the count that they are divided by.
    let (ended, ns, p99_ns, of_all) = match load {
        Load::Tpcc => {
            let done = pair.drive(&with, run, Pacing::FlatOut)?;
            let whole = done.ns + u64::try_from(settings.warm_up.as_nanos())?;
            let of_all = float(done.tally.ended()) * float(whole) / float(done.ns.max(1));
            (done.tally.ended(), done.ns, done.tally.of(Kind::NewOrder).latencies.at_per_mille(990), of_all)
        }
        Load::Ycsb(workload) => {
            // As with TPC-C, runs with another number draw other requests.
            let seed = with.seed ^ u64::from(run + 1) << 40;
            let clients = with.closed_loop(with.clients);
            let done = ycsb::run(workload, &ycsb.items, seed, clients, || pair.connect())?;
            let whole = done.ns + u64::try_from(settings.warm_up.as_nanos())?;
            let of_all = float(done.latencies.count()) * float(whole) / float(done.ns.max(1));
            (done.latencies.count(), done.ns, done.latencies.at_per_mille(990), of_all)
        }
    };
    anyhow::ensure!(ended > 0, "{}: nothing ended in a run of {:?}", pair.name(), with.time);
    let used = Usage::of(process)?.since(used);
    // The period that turns samples off has drained those of this run.
    turn(settings, pair, node, false)?;
    let collected = Collected::of(pair, node)?.since(collected);
    Ok(Ran {
        per_s: per_s(ended, ns),
        p99_us: micros(p99_ns),
        cpu_us_per_txn: micros(used.cpu_ns) / of_all,
        samples_per_txn: (collected.samples + collected.lost) / of_all,
        lost_share: if collected.lost > 0.0 { collected.lost / (collected.samples + collected.lost) } else { 0.0 },
    })
}

fn rows(settings: &PairSettings, case: &Case, load: Load, pair: &Pair, ran: &[Vec<Ran>], section: &mut Section) {
    let each = |arm: usize, figure: fn(&Ran) -> f64| ran[arm].iter().map(figure).collect::<Vec<_>>();
    let figures = |row: Row, arm: usize| {
        row.runs("txn_per_s", &each(arm, |of| of.per_s))
            .runs("p99_us", &each(arm, |of| of.p99_us))
            .runs("cpu_us_per_txn", &each(arm, |of| of.cpu_us_per_txn))
            .runs("samples_per_txn", &each(arm, |of| of.samples_per_txn))
            .runs("lost_share", &each(arm, |of| of.lost_share))
    };
    let row = |what: &str| Row::new(case.subject, format!("{}, {what}", load.name()), load.level(), pair.ring());
    section.rows.push(figures(row("without"), 0));
    let mut with = figures(row("with"), 1);
    let ratio = |figure: fn(&Ran) -> f64| paired_ratios(&each(1, figure), &each(0, figure));
    let ratios = [
        ("throughput_ratio_ci95", ratio(|of| of.per_s)),
        ("p99_ratio_ci95", ratio(|of| of.p99_us)),
        ("cpu_ratio_ci95", ratio(|of| of.cpu_us_per_txn)),
    ];
    for (key, ratios) in &ratios {
        with = with_interval(with, key, ratios, settings.seed);
    }
    if case.is_default {
        let [throughput, p99, _cpu] = ratios.map(|(_, ratios)| if ratios.is_empty() { 0.0 } else { median(&ratios) });
        with = with
            .target("throughput: at most 0.5 % less", throughput >= 1.0 - COST_MAX)
            .target("p99: at most 0.5 % more", p99 > 0.0 && p99 <= 1.0 + COST_MAX);
    }
    section.rows.push(with);
}
