//! Are models that are fitted to a replica's samples as good as those of the primary's? For each policy that the
//! replica can collect under.
//!
//! | file | noun |
//! |---|---|
//! | `runs` | the runs that give samples: a pair for each policy, a single server, and a pair whose primary judges |
//! | `judge` | models of one unit from each source, and their errors on the run that none has seen |
//! | `learned` | the results for all units of a policy |
//! | `equivalence`, `student` | whether one model is as good as the other within a margin: two one-sided tests |
//! | `noise_floor` | the error that no model of the same features can go below |
//!
//! # What always holds
//! - A1. Models are judged by a separate run: other rows, other requests, other processes.
//! - A2. Compared models were fitted to the same number of samples, those of replica and primary from the same pair.

mod equivalence;
mod judge;
mod learned;
mod noise_floor;
mod runs;
mod student;

use anyhow::Context as _;
use collie_obs::UNITS;

use self::judge::{ROWS_MIN, Sources};
use self::learned::{Learned, is_default};
use self::runs::Runs;
use super::cores::{note_cores, two_cores};
use crate::Section;
use crate::replication::PairSettings;

/// The largest number of samples of a unit from each source. Lower for a small run: trees take long in an unoptimized
/// program.
const ROWS_MAX: usize = 20_000;
const SMALL_ROWS_MAX: usize = 800;

/// Returns the largest number of samples of a unit that are used.
pub(crate) fn rows_max(settings: &PairSettings) -> usize {
    if settings.small { SMALL_ROWS_MAX } else { ROWS_MAX }
}

/// Records the runs, fits models of elapsed time to each unit's samples and judges them.
///
/// # Errors
/// A server does not start or keeps no samples; no unit has enough samples on both sides.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
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
    let mut learned: Vec<Learned> = runs.taught.iter().map(|taught| Learned::new(taught.policy)).collect();
    for unit in UNITS {
        settings.plan.say(&format!("accuracy: {}", unit.name));
        let [offline, held_out] = [&runs.offline, &runs.held_out].map(|of| of.samples(unit, rows_max));
        let (offline, held_out) = (offline?, held_out?);
        for (taught, learned) in runs.taught.iter().zip(&mut learned) {
            let sources = Sources {
                replica: taught.replica.samples(unit, rows_max)?,
                primary: taught.primary.samples(unit, rows_max)?,
                offline: is_default(taught.policy).then(|| offline.clone()),
                held_out: held_out.clone(),
            };
            learned.add(unit.name, &sources, settings.seed);
        }
    }
    let by_default = learned.iter().find(|learned| is_default(learned.policy())).context("the default is asked for")?;
    let left_out = by_default.left_out();
    anyhow::ensure!(by_default.has_verdicts(), "no unit has {ROWS_MIN} samples of both nodes: {}", left_out.join("; "));
    for learned in &learned {
        section.rows.extend(learned.rows());
        section.notes.extend(learned.left_out());
    }
    section.notes.push(format!(
        "six runs' samples: of a pair for each policy (the replica collects within it, the primary everything; the same rows and requests), of \
         a lone server by the same load with another seed, and of another pair's primary, which judges; {:.0} transactions a second, begun by \
         chance, {:.0} s each",
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
         more; the target, of P6, is that worse is refuted at 5 %; no_worse_units: for how many it is; known_*: the same of calls within what \
         the replica's model was fitted to, which are known_pct of all: what is outside of that is marked, and nothing is decided by it"
            .to_owned(),
    );
    note_cores(&mut section, two_cores());
    Ok(section)
}
