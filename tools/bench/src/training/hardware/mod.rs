//! How well does a model of other machines predict a machine that it has not seen?
//!
//! | file | noun |
//! |---|---|
//! | `nodes` | three machines, simulated on this one, with different core shares and disks; a run on each |
//!
//! The arithmetic is that of `collie_train`, which a fleet uses for the samples of its nodes ([`leave_one_node_out`]).
//!
//! # What always holds
//! - H1. The judged node contributes to the model of the others only the samples for the correction, which are older
//!   than those that judge.

mod nodes;

use std::collections::BTreeMap;

use collie_obs::{UNITS, UnitSchema};
use collie_samples::schema_hash;
use collie_train::TrainError;
use collie_train::model::{FitOptions, NodeError, NodeSamples, Samples, fit, leave_one_node_out, merge};

use self::nodes::{NODES, Runs};
use super::accuracy::rows_max;
use super::recorded::evenly;
use super::settings::TrainingSettings;
use crate::Section;
use crate::measures::median;
use crate::report::{Figure, Row};

/// A unit with fewer samples of a node is left out: a fifth of them judges, and the rest must be enough for a model.
const ROWS_MIN: usize = 120;
/// The target for the median error of all units on the unseen node.
const ERROR_MAX: f64 = 0.25;
const LEVEL: &str = "disk";
const RING: &str = "auto 16 MiB";

/// The errors of models on a node that they have not seen, 0.1 for 10 %.
#[derive(Clone, Copy, Debug, PartialEq)]
struct OnNode {
    /// With the constants of machines as features: of the model itself, and with the node's correction.
    with: NodeError,
    /// Without these constants.
    without: NodeError,
}

/// The results of one unit.
struct OfUnit {
    name: &'static str,
    /// The number of samples of each node.
    rows: usize,
    /// In the order of nodes.
    nodes: Vec<OnNode>,
}

/// Records a run on each node, and judges on each a model of the others.
///
/// # Errors
/// A server does not start or keeps no samples; no unit has enough samples on all nodes.
pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "hardware",
        format!(
            "how well do models of two machines predict a third? (TPC-C, {} warehouses, elapsed time of each operating unit)",
            settings.warehouses
        ),
    );
    let runs = Runs::record(settings)?;
    let constants = runs.recorded.iter().map(|node| node.constants()).collect::<anyhow::Result<Vec<_>>>()?;
    let (mut units, mut few) = (Vec::new(), Vec::new());
    for unit in UNITS {
        settings.plan.say(&format!("hardware: {}", unit.name));
        let samples = runs.recorded.iter().map(|node| node.samples(unit, rows_max(settings)));
        let samples = samples.collect::<anyhow::Result<Vec<_>>>()?;
        let rows = samples.iter().map(Samples::len).min().unwrap_or(0);
        if rows < ROWS_MIN {
            few.push(unit.name);
            continue;
        }
        // The same number of each node, so that no node dominates the model of the others.
        let samples: Vec<Samples> = samples.iter().map(|samples| evenly(samples, rows)).collect();
        let judged = |constants: &[Vec<f64>]| leave_one_out(unit, &samples, constants);
        let (with, without) = (judged(&constants)?, judged(&vec![Vec::new(); constants.len()])?);
        let nodes = with.into_iter().zip(without).map(|(with, without)| OnNode { with, without }).collect();
        units.push(OfUnit { name: unit.name, rows, nodes });
    }
    anyhow::ensure!(!units.is_empty(), "no unit has {ROWS_MIN} samples on every node");
    let last = NODES.len() - 1;
    section.rows.extend(units.iter().map(|unit| row(unit, last)));
    section.rows.extend((0..NODES.len()).rev().map(|node| middle(&units, node)));
    note(&mut section, &runs, &constants, &few);
    Ok(section)
}

/// Judges models of elapsed time for each node, from the samples of the others with `constants` of their machines.
fn leave_one_out(
    unit: &'static UnitSchema,
    samples: &[Samples],
    constants: &[Vec<f64>],
) -> Result<Vec<NodeError>, TrainError> {
    let (schema, options) = (schema_hash(unit), FitOptions::default());
    let nodes: Vec<NodeSamples> = (0..)
        .zip(samples.iter().zip(constants))
        .map(|(node, (samples, constants))| NodeSamples {
            node,
            schema,
            hardware: constants.clone(),
            samples: samples.clone(),
        })
        .collect();
    let newest_us = samples.iter().flat_map(|of| (0..of.len()).map(|row| of.time_us(row))).max().unwrap_or(0);
    let fit_others = |others: &[usize]| {
        let others: Vec<NodeSamples> = others.iter().map(|other| nodes[*other].clone()).collect();
        fit(&merge(&others, schema, &BTreeMap::new(), newest_us)?, &options)
    };
    leave_one_node_out(&nodes, fit_others, |own| fit(own, &options))
}

fn percent(error: f64) -> f64 {
    100.0 * error
}

/// Returns the row of one unit on one node.
fn row(unit: &OfUnit, node: usize) -> Row {
    let OnNode { with, without } = unit.nodes[node];
    let rows = Figure::Count(u64::try_from(unit.rows).unwrap_or(u64::MAX));
    Row::new(unit.name, format!("on {}", NODES[node].name), LEVEL, RING)
        .figure("rows", rows)
        .runs("corrected_pct", &[percent(with.pooled)])
        .runs("uncorrected_pct", &[percent(with.uncorrected)])
        .runs("corrected_no_constants_pct", &[percent(without.pooled)])
        .runs("uncorrected_no_constants_pct", &[percent(without.uncorrected)])
        .runs("own_pct", &[percent(with.own)])
        .beside("the node's own model", with.pooled / with.own)
        .target("the correction is no worse than none", with.pooled <= with.uncorrected)
}

/// Returns the row of the median of all units on one node.
fn middle(units: &[OfUnit], node: usize) -> Row {
    let each = |of: fn(&OnNode) -> f64| units.iter().map(|unit| percent(of(&unit.nodes[node]))).collect::<Vec<_>>();
    let corrected = each(|on| on.with.pooled);
    let is_met = median(&corrected) <= percent(ERROR_MAX);
    Row::new("all units", format!("median on {}", NODES[node].name), LEVEL, RING)
        .runs("corrected_pct", &corrected)
        .runs("uncorrected_pct", &each(|on| on.with.uncorrected))
        .runs("corrected_no_constants_pct", &each(|on| on.without.pooled))
        .runs("uncorrected_no_constants_pct", &each(|on| on.without.uncorrected))
        .runs("own_pct", &each(|on| on.with.own))
        .target("<= 25 %", is_met)
}

fn note(section: &mut Section, runs: &Runs, constants: &[Vec<f64>], few: &[&str]) {
    let notes = &mut section.notes;
    let told: Vec<String> = NODES.iter().map(|node| node.told()).collect();
    notes.push(format!(
        "{}; each is this machine with less of a core: {:.0} transactions a second, begun by chance, {:.0} s each, everything sampled",
        told.join("; "),
        runs.rate,
        runs.seconds
    ));
    let named = collie_samples::Constants::default().named();
    let tables: Vec<String> = named
        .iter()
        .enumerate()
        .map(|(at, (name, _))| {
            let values: Vec<String> = constants.iter().map(|of| format!("{:.1}", of[at])).collect();
            format!("{name} {}", values.join(", "))
        })
        .collect();
    notes.push(format!("what was measured of the nodes, in their order: {}", tables.join("; ")));
    notes.push(
        "the model of the other nodes is judged by the newest fifth of a node's samples; its correction is fitted to the older ones, and so is \
         the node's own model. no_constants: without what was measured of the machines"
            .to_owned(),
    );
    if !few.is_empty() {
        notes.push(format!("left out, with fewer than {ROWS_MIN} samples on a node: {}", few.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use collie_env::SimRandom;
    use collie_samples::{complexity_of, unit_of};
    use collie_train::model::Sample;

    use super::*;

    /// Returns reads of rows on a node that takes `factor` times as long.
    fn reads(factor: f64, seed: u64) -> Samples {
        let (unit, chance) = (unit_of(9, 1).unwrap(), SimRandom::new(seed));
        let mut samples = Samples::new(unit.features.len(), complexity_of(unit, 0)).unwrap();
        for call in 0..400 {
            let bytes = 1.0 + f64::from(u32::try_from(chance.below(1000)).unwrap());
            let noise = f64::from(u32::try_from(chance.below(100)).unwrap()) / 500.0;
            let label = factor * bytes.sqrt() * noise.exp();
            samples.push(Sample { features: &[8.0, bytes, 1.0, 1.0], label, weight: 1.0, time_us: call }).unwrap();
        }
        samples
    }

    /// Goal: on a node of another speed the correction repairs what the others' model cannot know, and the targets say
    /// so. Method: two nodes of one speed and one that is three times slower; the same law for all.
    #[test]
    fn a_node_of_another_speed_is_met_by_its_correction() {
        let samples = [reads(100.0, 1), reads(100.0, 2), reads(300.0, 3)];
        let unit = unit_of(9, 1).unwrap();
        let judged = |constants: [f64; 3]| leave_one_out(unit, &samples, &constants.map(|of| vec![of])).unwrap();
        let (with, without) =
            (judged([1.0, 1.0, 3.0]), leave_one_out(unit, &samples, &[vec![], vec![], vec![]]).unwrap());
        assert!(without[2].uncorrected > 0.5 && without[2].pooled < 0.2, "{without:?}");
        let nodes = with.into_iter().zip(without).map(|(with, without)| OnNode { with, without }).collect();
        let units = [OfUnit { name: "ROW_READ", rows: 400, nodes }];
        let met = |row: Row| row.targets.iter().map(|target| target.met).collect::<Vec<_>>();
        assert_eq!((met(row(&units[0], 2)), met(middle(&units, 2))), (vec![true], vec![true]));
        assert!(row(&units[0], 2).median("own_pct").unwrap() < 10.0);
    }

    /// Goal: a node's description matches its parameters. Method: the three of them.
    #[test]
    fn nodes_say_what_they_are() {
        assert_eq!(NODES[0].told(), "A: a core alone, the disk of --dir");
        assert_eq!(NODES[1].told(), "B: 1/2 of a core, a disk in memory");
        assert_eq!(NODES[2].told(), "C: 1/3 of a core, the disk of --dir");
    }
}
