//! Are models that are fitted to a replica's samples as good as those of the primary's?
//!
//! | file | noun |
//! |---|---|
//! | `runs` | the runs that samples are taken from: a pair, a lone server, and a pair whose primary judges |
//! | `judge` | models of one unit from each source, and how far they are off on the run that none has seen |
//! | `equivalence`, `student` | whether one is as good as the other within a margin: two one-sided tests |
//! | `noise_floor` | what no model of the same features gets below |
//!
//! # What always holds
//! - A1. Models are judged by a run of its own: other rows, other requests, other processes.
//! - A2. Models that are compared were fitted to as many samples.

mod equivalence;
mod judge;
mod noise_floor;
mod runs;
mod student;

use std::collections::BTreeMap;

use collie_obs::UNITS;

use self::judge::{ROWS_MIN, Sources, Verdict};
use self::runs::Runs;
use super::cores::{note_cores, two_cores};
use super::settings::TrainingSettings;
use crate::Section;
use crate::measures::median;
use crate::report::{Figure, Row};

/// Most samples of a unit from each source. Of a small run fewer: trees take long in a program that was not optimized.
const ROWS_MAX: usize = 20_000;
const SMALL_ROWS_MAX: usize = 800;
/// What the middle of all units' errors is to be, or by which factor of the noise floor.
const ERROR_MAX: f64 = 0.15;
const BY_FLOOR_MAX: f64 = 1.1;
/// What takes part in a run keeps the log on disk.
const LEVEL: &str = "disk";
const RING: &str = "auto 16 MiB";

/// Returns how many samples of a unit are looked at.
pub(crate) fn rows_max(settings: &TrainingSettings) -> usize {
    if settings.small { SMALL_ROWS_MAX } else { ROWS_MAX }
}

/// Records the runs, fits models of elapsed time to each unit's samples and judges them.
///
/// # Errors
/// A server does not start or keeps no samples; no unit has enough samples on both sides.
pub(crate) fn measure(settings: &TrainingSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "accuracy",
        format!(
            "are models of a replica's samples as good as those of its primary's? (TPC-C, {} warehouses, elapsed time of each operating unit, \
             judged by another run of the primary)",
            settings.warehouses
        ),
    );
    let runs = Runs::record(settings)?;
    let rows_max = rows_max(settings);
    let (mut verdicts, mut missing) = (Vec::new(), BTreeMap::new());
    for unit in UNITS {
        settings.plan.say(&format!("accuracy: {}", unit.name));
        let sources = Sources {
            replica: runs.replica.samples(unit, rows_max)?,
            primary: runs.primary.samples(unit, rows_max)?,
            offline: runs.offline.samples(unit, rows_max)?,
            held_out: runs.held_out.samples(unit, rows_max)?,
        };
        match Verdict::of(&sources, settings.seed) {
            Ok(verdict) => verdicts.push((unit.name, verdict)),
            Err(source) => missing.entry(source).or_insert_with(Vec::new).push(unit.name),
        }
    }
    anyhow::ensure!(!verdicts.is_empty(), "no unit has {ROWS_MIN} samples of both nodes: {missing:?}");
    section.rows.extend(verdicts.iter().map(|(unit, verdict)| row(unit, verdict)));
    section.rows.push(middle(&verdicts.iter().map(|(_, verdict)| verdict).collect::<Vec<_>>()));
    for (source, units) in missing {
        section
            .notes
            .push(format!("left out, since {source} gave fewer than {ROWS_MIN} samples: {}", units.join(", ")));
    }
    section.notes.push(format!(
        "four runs' samples: of a pair (the replica collects within P6, the primary everything), of a lone server by the same load with another \
         seed, and of another pair's primary, which judges; {:.0} transactions a second, begun by chance, {:.0} s each",
        runs.rate, runs.seconds
    ));
    section.notes.push(
        "errors are weighted means of |predicted / seen - 1|, in percent, of models that were fitted to as many samples of each source (rows); \
         .._all: fitted to everything the source gave in the same time. ratio_ci95: the replica's error by the primary's over 20 blocks of \
         time, with the 95 % interval of its median"
            .to_owned(),
    );
    section.notes.push(
        "p_worse, p_better: two one-sided tests that the replica's error differs by two points, or a twentieth of the primary's where that is \
         more; the target is that worse is refuted at 5 %"
            .to_owned(),
    );
    note_cores(&mut section, two_cores());
    Ok(section)
}

fn percent(error: f64) -> f64 {
    100.0 * error
}

fn count(number: usize) -> Figure {
    Figure::Count(u64::try_from(number).unwrap_or(u64::MAX))
}

fn row(unit: &str, verdict: &Verdict) -> Row {
    const NONE: Figure = Figure::Absent("too few");
    let mut row = Row::new(unit, "elapsed time", LEVEL, RING)
        .figure("rows", count(verdict.rows))
        .figure("replica_rows", count(verdict.replica.rows))
        .figure("primary_rows", count(verdict.primary.rows))
        .figure("judged_rows", count(verdict.judged))
        .runs("replica_error_pct", &[percent(verdict.replica.equal)])
        .runs("primary_error_pct", &[percent(verdict.primary.equal)]);
    row = match &verdict.offline {
        Some(offline) => row.runs("offline_error_pct", &[percent(offline.equal)]),
        None => row.figure("offline_error_pct", NONE),
    };
    row = row
        .runs("replica_all_error_pct", &[percent(verdict.replica.all)])
        .runs("primary_all_error_pct", &[percent(verdict.primary.all)]);
    row = match verdict.floor {
        Some(floor) => row.runs("floor_pct", &[percent(floor.error)]).runs("floor_rows_pct", &[percent(floor.share)]),
        None => row.figure("floor_pct", Figure::Absent("no repeats")),
    };
    row = match &verdict.ratio {
        Some(ratio) => row.figure("ratio_ci95", ratio.figure()),
        None => row.figure("ratio_ci95", NONE),
    };
    let row = row.beside("the primary's model", verdict.replica.equal / verdict.primary.equal);
    match verdict.equivalence {
        Some(tests) => row
            .runs("p_worse", &[tests.p_worse])
            .runs("p_better", &[tests.p_better])
            .target("within +2 points or 1.05x of the primary's (5 %)", tests.is_no_worse()),
        None => row.figure("p_worse", Figure::Absent("too few blocks")),
    }
}

/// The middle of all units.
fn middle(verdicts: &[&Verdict]) -> Row {
    let each = |of: &dyn Fn(&Verdict) -> f64| verdicts.iter().map(|verdict| of(verdict)).collect::<Vec<_>>();
    let replica = each(&|verdict| verdict.replica.equal);
    let by_floor: Vec<f64> = verdicts
        .iter()
        .filter_map(|verdict| Some(verdict.replica.equal / verdict.floor?.error))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let is_equivalent = |verdict: &&&Verdict| verdict.equivalence.is_some_and(|tests| tests.is_equivalent());
    let mut row = Row::new("all units", "median", LEVEL, RING)
        .figure("rows", count(verdicts.iter().map(|verdict| verdict.rows).sum()))
        .figure("judged_rows", count(verdicts.iter().map(|verdict| verdict.judged).sum()))
        .runs("replica_error_pct", &each(&|verdict| percent(verdict.replica.equal)))
        .runs("primary_error_pct", &each(&|verdict| percent(verdict.primary.equal)))
        .figure("equivalent_units", count(verdicts.iter().filter(is_equivalent).count()));
    let mut is_met = median(&replica) <= ERROR_MAX;
    if !by_floor.is_empty() {
        row = row.runs("by_floor", &by_floor);
        is_met |= median(&by_floor) <= BY_FLOOR_MAX;
    }
    row.target("<= 15 % or 1.1x the noise floor", is_met)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::accuracy::equivalence::Equivalence;
    use crate::training::accuracy::judge::Errors;
    use crate::training::accuracy::noise_floor::NoiseFloor;

    fn verdict(replica: f64, floor: f64, p_worse: f64) -> Verdict {
        let errors = |equal| Errors { equal, all: equal, rows: 100 };
        Verdict {
            rows: 100,
            judged: 50,
            replica: errors(replica),
            primary: errors(0.2),
            offline: None,
            ratio: None,
            equivalence: Some(Equivalence { p_worse, p_better: 0.01 }),
            floor: Some(NoiseFloor { error: floor, share: 1.0 }),
        }
    }

    fn met(row: &Row) -> Vec<bool> {
        row.targets.iter().map(|target| target.met).collect()
    }

    /// Goal: a row says percent, and its target is the test's, not the ratio's. Method: a unit that looks equal and is not shown to be; one
    /// that is.
    #[test]
    fn a_row_tells_what_the_test_says() {
        let shown = row("SCAN", &verdict(0.2, 0.1, 0.01));
        assert_eq!((shown.median("replica_error_pct"), shown.median("floor_pct")), (Some(20.0), Some(10.0)));
        assert_eq!((met(&shown), met(&row("SCAN", &verdict(0.2, 0.1, 0.3)))), (vec![true], vec![false]));
    }

    /// Goal: the middle of all units is within 15 %, or near the floor. Method: small errors; large ones at the floor; large ones above it.
    #[test]
    fn the_middle_is_judged_by_the_floor_too() {
        let of = |errors: [(f64, f64); 3]| {
            let verdicts = errors.map(|(error, floor)| verdict(error, floor, 0.01));
            met(&middle(&verdicts.iter().collect::<Vec<_>>()))
        };
        assert_eq!(of([(0.1, 0.01), (0.12, 0.01), (0.9, 0.01)]), [true]);
        assert_eq!(of([(0.3, 0.29), (0.32, 0.3), (0.9, 0.1)]), [true]);
        assert_eq!(of([(0.3, 0.2), (0.32, 0.2), (0.9, 0.1)]), [false]);
    }
}
