//! How does each policy affect a replica's delay, in a model of its apply queue? Under eight simulated disturbances,
//! with an expensive sampler and with a cheap one (`collie_train::queue`).
//!
//! P0 to P6 as they are, and P6 with the rules that a server adds to it (P2 as a guard, limits of a grant). The
//! policies' own code runs; only the replica is simulated, as a queue. The question `policies` measures a real one.

use collie_train::policy::{Governor, Policy, PolicyKind, Settings};
use collie_train::queue::{Cell, Disturbance, Tick, table};

use crate::replication::PairSettings;
use crate::report::{Figure, Row, Section};

/// Collection work offered per commit, in us: of an expensive sampler and of a cheap one.
const OFFERED_US: [f64; 2] = [40.0, 2.0];
/// Cores of the simulated machine: they limit what a guarded policy may grant.
const CORES: u32 = 4;
/// The targets: the share of windows inside the bound, and the recovery time after a burst.
const INSIDE_PCT_MIN: f64 = 99.0;
const RECOVERY_S_MAX: f64 = 2.0;

/// Returns the name of a policy in tables, by its row: P0 to P6, and P6 with its guards.
fn name(row: usize) -> String {
    match PolicyKind::ALL.get(row) {
        Some(kind) => format!("P{row} {}", kind.name()),
        None => format!("P6 {}, with its guards", PolicyKind::Headroom.name()),
    }
}

fn start(row: usize) -> Tick {
    match PolicyKind::ALL.get(row) {
        Some(kind) => {
            let mut policy: Box<dyn Policy> = kind.start(&Settings::default());
            Box::new(move |signals| policy.tick(signals))
        }
        None => {
            let mut governor = Governor::new(PolicyKind::Headroom, Settings::default(), CORES);
            Box::new(move |signals| governor.tick(signals))
        }
    }
}

/// Answers the question.
///
/// # Errors
/// None.
pub(crate) fn measure(settings: &PairSettings) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "policies-model",
        format!(
            "what does each policy do to a replica's delay, in a model of its queue? (eight disturbances, {} seeds, 120 windows of 1 s each)",
            settings.runs
        ),
    );
    let seeds: Vec<u64> = (0..settings.runs).map(|run| settings.seed + u64::from(run)).collect();
    let policies = PolicyKind::ALL.len() + 1;
    for offered_us in OFFERED_US {
        settings.plan.say(&format!("policies-model: {offered_us} us offered per commit"));
        let cells = table(&seeds, offered_us, policies, &start);
        section.rows.extend((0..policies).map(|row| all(row, offered_us, &cells[row])));
        for (column, kind) in Disturbance::ALL.into_iter().enumerate() {
            section.rows.extend((0..policies).map(|row| one(row, offered_us, kind, &cells[row][column])));
        }
    }
    section.notes.extend([
        "a model, not the product: one apply worker, 71.4 us of work per commit, 4 % of the commits ten times as heavy; runs with one seed \
         have the same commits under every policy, and a window is out when its mean delay is above max(1.1 D0, D0 + 1 ms), D0 being that \
         of the same second without collection"
            .to_owned(),
        "violation: by how much the windows were above that, summed over a run of 120 s; recovery: from the end of a disturbance until five \
         windows in a row were inside, the longest of all; collected: of what was offered; effective: the number of commits for which the \
         samples count once they are weighted, of all"
            .to_owned(),
    ]);
    Ok(section)
}

fn percent(share: f64) -> f64 {
    100.0 * share
}

/// Returns the figure of the longest recovery.
fn recovery(of: impl Iterator<Item = f64>) -> Figure {
    match of.reduce(f64::max) {
        None => Figure::Absent("it does not end"),
        Some(seconds) if seconds.is_infinite() => Figure::Absent("not back"),
        Some(seconds) => Figure::Runs(crate::Spread::of(&[seconds])),
    }
}

/// Returns the row of one policy under all disturbances: each figure is the median, with the lowest and the highest.
fn all(row: usize, offered_us: f64, cells: &[Cell]) -> Row {
    let each = |of: fn(&Cell) -> f64| cells.iter().map(of).collect::<Vec<_>>();
    let line = Row::new(name(row), format!("all eight, {offered_us} us offered per commit"), "model", "-")
        .runs("windows_out_pct", &each(|cell| percent(cell.out_share)))
        .runs("violation_ms_s", &each(|cell| cell.violation_ms_s))
        .figure("recovery_max_s", recovery(cells.iter().filter_map(|cell| cell.recovery_s)))
        .runs("collected_pct", &each(|cell| percent(cell.kept_share)))
        .runs("effective_pct", &each(|cell| percent(cell.effective_share)))
        .runs("delay_without_ms", &each(|cell| cell.without_us / 1000.0));
    if row < PolicyKind::ALL.len() {
        return line;
    }
    let out_max = cells.iter().map(|cell| percent(cell.out_share)).fold(0.0, f64::max);
    let burst = Disturbance::ALL.iter().zip(cells).find(|(kind, _)| **kind == Disturbance::Burst);
    let is_back = burst.is_some_and(|(_, cell)| cell.recovery_s.is_some_and(|seconds| seconds <= RECOVERY_S_MAX));
    line.target(format!(">= {INSIDE_PCT_MIN} % of windows inside under every one"), 100.0 - out_max >= INSIDE_PCT_MIN)
        .target(format!("back <= {RECOVERY_S_MAX} s after a burst"), is_back)
}

fn one(row: usize, offered_us: f64, kind: Disturbance, cell: &Cell) -> Row {
    Row::new(name(row), format!("{}, {offered_us} us", kind.name()), "model", "-")
        .runs("windows_out_pct", &[percent(cell.out_share)])
        .runs("violation_ms_s", &[cell.violation_ms_s])
        .figure("recovery_max_s", recovery(cell.recovery_s.into_iter()))
        .runs("collected_pct", &[percent(cell.kept_share)])
        .runs("effective_pct", &[percent(cell.effective_share)])
        .runs("delay_without_ms", &[cell.without_us / 1000.0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spread;

    fn cells(out_share: f64, recovery_s: Option<f64>) -> Vec<Cell> {
        let cell = Cell {
            out_share: 0.0,
            kept_share: 0.5,
            effective_share: 0.4,
            without_us: 3000.0,
            violation_ms_s: 1.0,
            recovery_s: None,
        };
        let mut all = vec![cell; Disturbance::ALL.len()];
        let burst = Disturbance::ALL.iter().position(|kind| *kind == Disturbance::Burst).unwrap();
        all[burst] = Cell { out_share, recovery_s, ..cell };
        all
    }

    /// Goal: the worst disturbance decides, and a policy that does not recover says so. Method: one window in a
    /// hundred out under a burst, two, and a burst without recovery.
    #[test]
    fn targets_are_of_the_worst_disturbance() {
        let guarded = PolicyKind::ALL.len();
        let met = |cells: &[Cell]| all(guarded, 40.0, cells).targets.iter().map(|of| of.met).collect::<Vec<_>>();
        assert_eq!(met(&cells(0.01, Some(2.0))), [true, true]);
        assert_eq!(met(&cells(0.02, Some(2.1))), [false, false]);
        let row = all(guarded, 40.0, &cells(0.0, Some(f64::INFINITY)));
        assert!(!row.targets[1].met);
        assert!(matches!(row.figures[2], ("recovery_max_s", Figure::Absent("not back"))), "{:?}", row.figures);
        assert!(all(1, 40.0, &cells(0.5, None)).targets.is_empty(), "only P6 as a server runs it has targets");
    }

    /// Goal: every policy has its name and its own rule. Method: the names of all rows; the first grants of some.
    #[test]
    fn rows_are_the_policies_by_number() {
        assert_eq!((name(0), name(6)), ("P0 none".to_owned(), "P6 headroom".to_owned()));
        assert_eq!(name(7), "P6 headroom, with its guards");
        let signals = collie_train::policy::Signals { offered_us_per_s: 9.0, ..Default::default() };
        let first = |row| start(row)(&signals).collect_us_per_s;
        assert_eq!((first(0), first(1), first(6), first(7)), (0.0, 9.0, 0.0, 0.0));
        let Figure::Runs(Spread { median, .. }) = recovery([1.0, 3.0].into_iter()) else { panic!("a number") };
        assert_eq!(median, 3.0);
    }
}
