//! P6 keeps every window inside the bound under every disturbance, and the other policies are out as often as found
//! before.
//!
//! The model is `collie_train::queue`. The figures for comparison come from its first version, in another language with
//! other random numbers: five of its seeds gave the ranges below.

use collie_train::{
    policy::{Aimd, Always, Governor, HardLimit, Headroom, Policy, PolicyKind, Settings, Sigma, Switchback},
    queue::{self, Cell, Tick},
};

/// These give 4,800 windows per policy. `cargo run --example policies` prints the figures, also for other seeds.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

fn bare(mut policy: impl Policy + 'static) -> Tick {
    Box::new(move |signals| policy.tick(signals))
}

fn headroom(utilisation_max: f64) -> Headroom {
    Headroom::new(&Settings { utilisation_max, ..Settings::default() })
}

fn lowest_and_highest(row: &[Cell], of: impl Fn(&Cell) -> f64) -> (f64, f64) {
    row.iter().map(|cell| 100.0 * of(cell)).fold((f64::INFINITY, 0.0), |(low, high), x| (low.min(x), high.max(x)))
}

/// Goal: P6 has no window out of bound under any disturbance and at any cost of samples, by itself and under its
/// guards, and still collects. Method: every disturbance, an expensive and a cheap sampler, utilisation limits of 0.80
/// and 0.85.
#[test]
fn headroom_keeps_every_window_inside_the_bound() {
    for (offered_us, kept_most) in [(40.0, 60.0), (2.0, 85.0)] {
        let cells = queue::table(&SEEDS, offered_us, 3, &|row| match row {
            0 => bare(headroom(0.85)),
            1 => bare(headroom(0.80)),
            _ => {
                let mut governor = Governor::new(PolicyKind::Headroom, Settings::default(), 4);
                Box::new(move |signals| governor.tick(signals))
            }
        });
        for row in &cells {
            for (kind, cell) in queue::Disturbance::ALL.iter().zip(row) {
                assert_eq!(cell.out_share, 0.0, "{kind:?}, {offered_us} us: {row:?}");
                assert!(cell.kept_share > 0.0, "{kind:?}, {offered_us} us: nothing is collected");
            }
        }
        let (_, most) = lowest_and_highest(&cells[0], |cell| cell.kept_share);
        assert!(most > kept_most, "{offered_us} us: at best {most} % of the work is kept");
    }
}

/// Goal: the other policies behave as found before: always on diverges, a hard limit oscillates, k-sigma lifts its own
/// limit. Method: the lowest and the highest share of windows out over the disturbances, within 5 points of the earlier
/// figures.
#[test]
fn the_other_policies_are_out_as_often_as_found_before() {
    let start = |row: usize| match row {
        0 => bare(Always),
        1 => bare(HardLimit::new(100_000.0)),
        2 => bare(Sigma::default()),
        3 => bare(Switchback::new(0.10)),
        4 => bare(Aimd::new(2000.0)),
        _ => bare(headroom(0.90)),
    };
    let heavy = [(40.0, 100.0), (24.0, 97.0), (27.0, 100.0), (0.0, 32.0), (1.0, 9.0), (0.0, 1.2)];
    let cheap = [(0.0, 5.0), (0.0, 5.0), (0.0, 0.2), (0.0, 3.0), (0.0, 1.3), (0.0, 0.0)];
    for (offered_us, found) in [(40.0, heavy), (2.0, cheap)] {
        let cells = queue::table(&SEEDS, offered_us, found.len(), &start);
        for (row, (low, high)) in cells.iter().zip(found) {
            let (lowest, highest) = lowest_and_highest(row, |cell| cell.out_share);
            assert!(
                (lowest - low).abs() <= 5.0 && (highest - high).abs() <= 5.0,
                "{offered_us} us: {low}-{high}: {row:?}"
            );
        }
    }
}
