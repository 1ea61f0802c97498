//! `Learned`: the results for models of a replica's samples, by the collection policy of the replica: a row for each
//! unit, and one for all.

use std::collections::BTreeMap;

use collie_train::policy::PolicyKind;

use super::equivalence::Equivalence;
use super::judge::{Known, ROWS_MIN, Sources, Verdict};
use crate::measures::median;
use crate::report::{Figure, Row};
use crate::training::arms::policy_name;

/// The targets for the median error of all units: an absolute limit, or a factor of the noise floor.
const ERROR_MAX: f64 = 0.15;
const BY_FLOOR_MAX: f64 = 1.1;
/// All nodes of a run keep the log on disk.
const LEVEL: &str = "disk";
const RING: &str = "auto 16 MiB";

/// Returns whether replicas use `policy` by default; targets apply only to the default.
pub(super) fn is_default(policy: PolicyKind) -> bool {
    policy == PolicyKind::Headroom
}

/// The results for a pair whose replica collected by a policy.
pub(super) struct Learned {
    policy: PolicyKind,
    /// The number of samples that the replica gave, of all units.
    replica_rows: usize,
    /// The verdicts of units with enough samples.
    verdicts: Vec<(&'static str, Verdict)>,
    /// Units without a verdict, by the source that gave too few samples.
    missing: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Learned {
    /// Makes an empty result.
    pub(super) fn new(policy: PolicyKind) -> Self {
        Self { policy, replica_rows: 0, verdicts: Vec::new(), missing: BTreeMap::new() }
    }

    pub(super) fn policy(&self) -> PolicyKind {
        self.policy
    }

    /// Returns whether any unit had enough samples.
    pub(super) fn has_verdicts(&self) -> bool {
        !self.verdicts.is_empty()
    }

    /// Fits and judges the models of a unit.
    pub(super) fn add(&mut self, unit: &'static str, sources: &Sources, seed: u64) {
        self.replica_rows += sources.replica.len();
        match Verdict::of(sources, seed) {
            Ok(verdict) => self.verdicts.push((unit, verdict)),
            Err(source) => self.missing.entry(source).or_default().push(unit),
        }
    }

    /// Returns a row for each unit, and one of all.
    pub(super) fn rows(&self) -> Vec<Row> {
        let units = self.verdicts.iter().map(|(unit, verdict)| row(self.policy, unit, verdict));
        units.chain([middle(self)]).collect()
    }

    /// Returns notes that name the units without a row.
    pub(super) fn left_out(&self) -> Vec<String> {
        let policy = policy_name(self.policy);
        if self.replica_rows == 0 {
            return vec![format!("{policy}: the replica gave no samples, so that there is nothing to fit")];
        }
        let of_source = |(source, units): (&&str, &Vec<&str>)| {
            format!("{policy}: left out, since {source} gave fewer than {ROWS_MIN} samples: {}", units.join(", "))
        };
        self.missing.iter().map(of_source).collect()
    }
}

/// Returns whether "worse" was refuted for calls in the range that the replica has seen.
fn is_known_no_worse(verdict: &Verdict) -> bool {
    let known = verdict.known.as_ref().and_then(|known| known.equivalence);
    known.is_some_and(|tests| tests.is_no_worse())
}

fn percent(error: f64) -> f64 {
    100.0 * error
}

fn count(number: usize) -> Figure {
    Figure::Count(u64::try_from(number).unwrap_or(u64::MAX))
}

fn row(policy: PolicyKind, unit: &str, verdict: &Verdict) -> Row {
    const NONE: Figure = Figure::Absent("too few");
    let mut row = Row::new(unit, format!("elapsed time, {}", policy_name(policy)), LEVEL, RING)
        .figure("rows", count(verdict.rows))
        .figure("replica_rows", count(verdict.replica.rows))
        .figure("primary_rows", count(verdict.primary.rows))
        .figure("judged_rows", count(verdict.judged))
        .runs("replica_error_pct", &[percent(verdict.replica.equal)])
        .runs("primary_error_pct", &[percent(verdict.primary.equal)]);
    row = match &verdict.offline {
        Some(offline) => row.runs("offline_error_pct", &[percent(offline.equal)]),
        None if is_default(policy) => row.figure("offline_error_pct", NONE),
        None => row,
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
    row = match &verdict.known {
        Some(known) => row_of_known(row, known),
        None => row.runs("known_pct", &[0.0]),
    };
    let row = row.beside("the primary's model", verdict.replica.equal / verdict.primary.equal);
    let Some(tests) = verdict.equivalence else {
        return row.figure("p_worse", Figure::Absent("too few blocks"));
    };
    let row = row.runs("p_worse", &[tests.p_worse]).runs("p_better", &[tests.p_better]);
    if is_default(policy) {
        row.target("within +2 points or 1.05x of the primary's (5 %)", tests.is_no_worse())
    } else {
        row
    }
}

/// Adds the figures of calls in the range that the replica has seen.
fn row_of_known(row: Row, known: &Known) -> Row {
    let row = row
        .runs("known_pct", &[percent(known.share)])
        .runs("known_replica_error_pct", &[percent(known.replica)])
        .runs("known_primary_error_pct", &[percent(known.primary)]);
    let row = match &known.ratio {
        Some(ratio) => row.figure("known_ratio_ci95", ratio.figure()),
        None => row,
    };
    match known.equivalence {
        Some(tests) => row.runs("known_p_worse", &[tests.p_worse]),
        None => row,
    }
}

/// Returns the row of all units of a policy, or one that says that there are no figures.
fn middle(learned: &Learned) -> Row {
    let row = Row::new("all units", format!("median, {}", policy_name(learned.policy)), LEVEL, RING)
        .figure("replica_rows", count(learned.replica_rows));
    if learned.verdicts.is_empty() {
        let why = if learned.replica_rows == 0 { "no samples" } else { "too few" };
        return row.figure("replica_error_pct", Figure::Absent(why));
    }
    let verdicts = || learned.verdicts.iter().map(|(_, verdict)| verdict);
    let each = |of: &dyn Fn(&Verdict) -> f64| verdicts().map(of).collect::<Vec<_>>();
    let replica = each(&|verdict| verdict.replica.equal);
    let by_floor: Vec<f64> = verdicts()
        .filter_map(|verdict| Some(verdict.replica.equal / verdict.floor?.error))
        .filter(|ratio| ratio.is_finite())
        .collect();
    let tested = |is_so: fn(&Equivalence) -> bool| {
        count(verdicts().filter(|verdict| verdict.equivalence.as_ref().is_some_and(is_so)).count())
    };
    let mut row = row
        .figure("rows", count(verdicts().map(|verdict| verdict.rows).sum()))
        .figure("judged_rows", count(verdicts().map(|verdict| verdict.judged).sum()))
        .runs("replica_error_pct", &each(&|verdict| percent(verdict.replica.equal)))
        .runs("primary_error_pct", &each(&|verdict| percent(verdict.primary.equal)))
        .figure("units", count(learned.verdicts.len()))
        .figure("no_worse_units", tested(Equivalence::is_no_worse))
        .figure("known_no_worse_units", count(verdicts().filter(|verdict| is_known_no_worse(verdict)).count()))
        .figure("equivalent_units", tested(Equivalence::is_equivalent));
    let mut is_met = median(&replica) <= ERROR_MAX;
    if !by_floor.is_empty() {
        row = row.runs("by_floor", &by_floor);
        is_met |= median(&by_floor) <= BY_FLOOR_MAX;
    }
    if is_default(learned.policy) { row.target("<= 15 % or 1.1x the noise floor", is_met) } else { row }
}

#[cfg(test)]
mod tests {
    use collie_train::model::{Complexity, Sample, Samples};

    use super::*;
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
            known: Some(Known {
                share: 0.5,
                replica: 0.3,
                primary: 0.3,
                ratio: None,
                equivalence: Some(Equivalence { p_worse: 0.04, p_better: 0.04 }),
            }),
            floor: Some(NoiseFloor { error: floor, share: 1.0 }),
        }
    }

    fn learned(policy: PolicyKind, verdicts: Vec<Verdict>) -> Learned {
        let replica_rows = verdicts.iter().map(|verdict| verdict.replica.rows).sum();
        let verdicts = verdicts.into_iter().map(|verdict| ("SCAN", verdict)).collect();
        Learned { replica_rows, verdicts, ..Learned::new(policy) }
    }

    fn met(row: &Row) -> Vec<bool> {
        row.targets.iter().map(|target| target.met).collect()
    }

    /// Goal: a row reports percent, and its target depends on the test, not on the ratio. Method: a unit that looks
    /// equal and is not shown to be; one that is.
    #[test]
    fn a_row_tells_what_the_test_says() {
        let of = |p_worse| row(PolicyKind::Headroom, "SCAN", &verdict(0.2, 0.1, p_worse));
        let shown = of(0.01);
        assert_eq!((shown.median("replica_error_pct"), shown.median("floor_pct")), (Some(20.0), Some(10.0)));
        assert_eq!((met(&shown), met(&of(0.3))), (vec![true], vec![false]));
        let known = ["known_pct", "known_replica_error_pct", "known_p_worse"].map(|key| shown.median(key));
        assert_eq!(known, [50.0, 30.0, 0.04].map(Some));
    }

    /// Goal: the median of all units is within 15 %, or near the floor. Method: small errors; large ones at the floor;
    /// large ones above it.
    #[test]
    fn the_middle_is_judged_by_the_floor_too() {
        let of = |errors: [(f64, f64); 3]| {
            let verdicts = errors.map(|(error, floor)| verdict(error, floor, 0.01));
            met(&middle(&learned(PolicyKind::Headroom, verdicts.into())))
        };
        assert_eq!(of([(0.1, 0.01), (0.12, 0.01), (0.9, 0.01)]), [true]);
        assert_eq!(of([(0.3, 0.29), (0.32, 0.3), (0.9, 0.1)]), [true]);
        assert_eq!(of([(0.3, 0.2), (0.32, 0.2), (0.9, 0.1)]), [false]);
    }

    /// Goal: non-default policies have figures and verdicts without targets, and units for which "worse" was refuted
    /// are counted. Method: one unit shown to be as good, one not, under P2.
    #[test]
    fn other_policies_are_told_without_targets() {
        let rows = learned(PolicyKind::HardLimit, vec![verdict(0.2, 0.1, 0.01), verdict(0.2, 0.1, 0.3)]).rows();
        assert_eq!(
            rows.iter().map(|row| row.case.as_str()).collect::<Vec<_>>(),
            ["elapsed time, P2 hard_limit", "elapsed time, P2 hard_limit", "median, P2 hard_limit"]
        );
        assert!(rows.iter().all(|row| row.targets.is_empty()), "{rows:?}");
        assert_eq!((rows[1].median("p_worse"), rows[2].median("replica_error_pct")), (Some(0.3), Some(20.0)));
        let counted =
            |key: &str| rows[2].figures.iter().find(|(name, _)| *name == key).map(|(_, figure)| figure.to_string());
        let counts = ["units", "no_worse_units", "known_no_worse_units"].map(|key| counted(key).unwrap());
        assert_eq!(counts, ["2", "1", "2"]);
    }

    /// Goal: a replica that gave no samples, or too few, has a row that says so, and a note. Method: no sample of any
    /// unit; some, but not enough for any unit.
    #[test]
    fn no_samples_are_told() {
        let few = || Samples::new(1, Complexity::Constant).unwrap();
        let mut some = few();
        some.push(Sample { features: &[1.0], label: 2.0, weight: 1.0, time_us: 0 }).unwrap();
        let sources = |replica| Sources { replica, primary: few(), offline: None, held_out: few() };
        for (replica, why, note) in [
            (few(), "no samples", "the replica gave no samples"),
            (some, "too few", "the primary gave fewer than 60 samples: SCAN"),
        ] {
            let mut learned = Learned::new(PolicyKind::Nothing);
            learned.add("SCAN", &sources(replica), 1);
            let rows = learned.rows();
            let said = rows[0].figures.iter().find(|(key, _)| *key == "replica_error_pct");
            assert!(matches!(said, Some((_, Figure::Absent(said))) if *said == why), "{rows:?}");
            assert_eq!((rows.len(), rows[0].case.as_str()), (1, "median, P0 none"));
            assert!(learned.left_out()[0].contains(note), "{:?}", learned.left_out());
        }
    }
}
