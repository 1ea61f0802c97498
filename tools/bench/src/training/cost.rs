//! How much of the machines' resources does collection use per thousand transactions a second? Primary and replica
//! with defaults, compared with the same two without collection, at the same arrival rate.

use collie_workload::Pacing;

use super::bootstrap::{in_balanced_order, with_interval};
use super::cores::{note_cores, two_cores};
use super::knee::knee;
use super::live::{Collected, Node, set, set_samples};
use super::usage::Usage;
use crate::Section;
use crate::measures::float;
use crate::replication::PairSettings;
use crate::replication::catchup::bytes_in;
use crate::replication::pair::{self, Arm, Launch, Pair};
use crate::report::Row;

/// The share of the knee: a rate that both keep, so that both runs of a pair complete the requested work.
const SHARE: f64 = 0.6;
const NODES: [(Node, &str); 2] = [(Node::Primary, "primary"), (Node::Replica, "replica")];
/// Bytes of a mebibyte.
const MIB: f64 = 1_048_576.0;

/// The resources that one run used per transaction; memory is that at its end.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// By node.
    cpu_us: [f64; 2],
    written_bytes: [f64; 2],
    resident_bytes: [f64; 2],
    samples: [f64; 2],
    spent_us: [f64; 2],
    file_bytes: [f64; 2],
    /// Bytes over the loopback, including the load; the difference of a pair is the traffic of collection.
    network_bytes: f64,
}

pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "cost",
        format!(
            "what does collecting cost, for each 1,000 transactions a second? (TPC-C, {} warehouses, {} % of the knee, commits on disk, {} pairs \
             of runs of {} s, in turn off-on-on-off; on less off, with the 95 % interval of the median)",
            settings.warehouses,
            SHARE * 100.0,
            settings.runs,
            settings.time.as_secs_f64()
        ),
    );
    let cores = two_cores();
    let pair = pair::launch(settings, Arm::Collie, Launch { cores, ..Launch::default() })?;
    pair.load(settings)?;
    turn(settings, &pair, false)?;
    let per_s = SHARE * knee(&pair, settings, 0)?;
    let used = in_balanced_order(2, settings.runs, |arm, run| {
        let state = if arm == 1 { "with" } else { "without" };
        settings.plan.say(&format!("cost: {state} collecting, run {} of {}", run + 1, settings.runs));
        turn(settings, &pair, arm == 1)?;
        one_run(settings, &pair, run, per_s)
    })?;
    turn(settings, &pair, false)?;
    pair.check(settings, &mut section)?;
    for (node, (_, name)) in NODES.iter().enumerate() {
        section.rows.push(node_row(settings, &pair, name, node, &used, per_s));
    }
    section.rows.push(network_row(settings, &pair, &used, per_s));
    note_cores(&mut section, cores);
    section.notes.push(
        "memory is not given back when collecting ends: the difference of a pair is what came and went, what stays is in both runs (a lane of \
         384 KiB for each thread that ever took a sample)"
            .to_owned(),
    );
    Ok(section)
}

/// Makes both nodes collect as by default, or neither.
fn turn(settings: &PairSettings, pair: &Pair, on: bool) -> anyhow::Result<()> {
    for (node, _) in NODES {
        set_samples(&settings.plan, pair, node, on)?;
    }
    set(pair, Node::Replica, "training.collection_policy", if on { "headroom" } else { "none" })
}

/// Returns the number of bytes that this machine has sent to itself.
fn loopback_bytes() -> Option<f64> {
    let devices = std::fs::read_to_string("/proc/net/dev").ok()?;
    let line = devices.lines().find_map(|line| line.trim_start().strip_prefix("lo:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn one_run(settings: &PairSettings, pair: &Pair, run: u32, per_s: f64) -> anyhow::Result<Used> {
    let processes = pair.processes()?;
    let usage = || -> anyhow::Result<_> { Ok([Usage::of(processes[0])?, Usage::of(processes[1])?]) };
    let collected =
        || -> anyhow::Result<_> { Ok([Collected::of(pair, NODES[0].0)?, Collected::of(pair, NODES[1].0)?]) };
    let before = (collected()?, usage()?, loopback_bytes());
    let done = pair.drive(settings, run, Pacing::Poisson(per_s))?;
    pair.until_even(settings)?;
    let after = (usage()?, loopback_bytes(), collected()?);
    // Usage covers the whole run with its warm-up, which has the same rate of transactions.
    let whole_ns = float(done.ns) + settings.warm_up.as_secs_f64() * 1e9;
    let count = float(done.tally.ended()) * whole_ns / float(done.ns.max(1));
    anyhow::ensure!(count > 0.0, "nothing ended in a run of {:?}", settings.time);
    let directories = [pair.primary_directory(), pair.replica_directory()?];
    let mut used = Used::default();
    for (node, directory) in directories.iter().enumerate() {
        let of = after.0[node].since(before.1[node]);
        let samples = after.2[node].since(before.0[node]);
        used.cpu_us[node] = float(of.cpu_ns) / 1e3 / count;
        used.written_bytes[node] = float(of.written_bytes) / count;
        used.resident_bytes[node] = float(of.resident_bytes);
        used.samples[node] = samples.samples / count;
        used.spent_us[node] = samples.spent_us / count;
        used.file_bytes[node] = float(bytes_in(&directory.join("data/samples")));
    }
    used.network_bytes = after.1.zip(before.2).map_or(0.0, |(after, before)| (after - before) / count);
    Ok(used)
}

/// Returns the difference of on and off for each pair.
fn differences(used: &[Vec<Used>], figure: impl Fn(&Used) -> f64) -> Vec<f64> {
    let [off, on] = used else { return Vec::new() };
    on.iter().zip(off).map(|(on, off)| figure(on) - figure(off)).collect()
}

fn node_row(settings: &PairSettings, pair: &Pair, name: &str, node: usize, used: &[Vec<Used>], per_s: f64) -> Row {
    let each = |arm: usize, figure: &dyn Fn(&Used) -> f64| used[arm].iter().map(figure).collect::<Vec<_>>();
    // For a thousand transactions a second: 1000 us per transaction are one core, and bytes per transaction are
    // kilobytes a second.
    let row = Row::new(name, "default, less nothing collected", "disk", pair.ring())
        .at(per_s)
        .runs("txn_cpu_us_without", &each(0, &|of| of.cpu_us[node]));
    let row = with_interval(
        row,
        "cpu_percent_of_a_core_ci95",
        &differences(used, |of| of.cpu_us[node] / 10.0),
        settings.seed,
    );
    let row = with_interval(row, "disk_kb_per_s_ci95", &differences(used, |of| of.written_bytes[node]), settings.seed);
    with_interval(row, "memory_mib_ci95", &differences(used, |of| of.resident_bytes[node] / MIB), settings.seed)
        .runs("samples_per_txn", &each(1, &|of| of.samples[node]))
        .runs("own_account_us_per_txn", &each(1, &|of| of.spent_us[node]))
        .runs("file_kb", &each(1, &|of| of.file_bytes[node] / 1e3))
}

fn network_row(settings: &PairSettings, pair: &Pair, used: &[Vec<Used>], per_s: f64) -> Row {
    let row = Row::new("both", "default, less nothing collected", "disk", pair.ring()).at(per_s);
    with_interval(row, "network_kb_per_s_ci95", &differences(used, |of| of.network_bytes), settings.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the figures are on minus off, pair by pair. Method: two pairs.
    #[test]
    fn differences_are_of_pairs() {
        let of = |network_bytes: f64| Used { network_bytes, ..Used::default() };
        let used = [vec![of(10.0), of(20.0)], vec![of(11.0), of(18.0)]];
        assert_eq!(differences(&used, |of| of.network_bytes), [1.0, -2.0]);
    }
}
