//! Probabilities for simulated loads: each tick has as many samples as the probabilities of the tick before give.

use super::{super::switch::Switch, *};

const LOG_APPEND: u8 = 1;
const READ: u8 = 9;
const GC: u8 = 20;
const LOAD: May = May::Collect { us_per_s: 20_000.0 };

fn one(_: UnitId) -> (f64, f64) {
    (1.0, 1.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of this file")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Units with call rates, sampled from one source.
struct Load {
    rates: Rates,
    calls: Vec<(u8, f64)>,
    source: Source,
    cost_us: f64,
}

impl Load {
    fn new(calls: &[(u8, f64)], source: Source) -> Self {
        Self { rates: Rates::default(), calls: calls.to_vec(), source, cost_us: 1.0 }
    }

    /// Performs ticks of a tenth of a second. Returns the last table.
    fn ticks(&mut self, count: usize, may: May, switches: &Switches) -> RateTable {
        let mut table = RateTable::off();
        for _ in 0..count {
            let mut taken = [[0; SOURCES]; UNIT_SLOTS];
            for (unit, calls) in &self.calls {
                let samples = (calls / 10.0 * self.rates.of(*unit).p).round();
                taken[usize::from(*unit)][usize::from(self.source.number())] = whole(samples);
            }
            self.rates.saw(&taken, &[0; UNIT_SLOTS], 0.1, self.cost_us);
            table = self.rates.decide(may, switches, &one).0;
        }
        table
    }

    /// Returns the cost of the probabilities in force with the actual call rates.
    fn costs_us_per_s(&self) -> f64 {
        let each = |(unit, calls): &(u8, f64)| self.rates.of(*unit).p * calls * self.cost_us;
        self.calls.iter().map(each).sum()
    }
}

/// Goal: B1 with initially unknown call rates: after the first tick the cost is within the limit, within seconds each
/// call of a unit that is called once a second is sampled, and no unit gives more samples than R3 allows. Method: a
/// million appends, twenty thousand reads and one round of garbage collection per second.
#[test]
fn calls_are_found_out_within_what_may_be_spent() {
    let mut load = Load::new(&[(LOG_APPEND, 1e6), (READ, 20_000.0), (GC, 1.0)], Source::Apply);
    load.ticks(1, LOAD, &Switches::default());
    assert_eq!(load.rates.of(READ).p, f64::from(stepped(PROBABILITY_MIN)), "nothing is known of its calls");
    for tick in 0..100 {
        load.ticks(1, LOAD, &Switches::default());
        assert!(load.costs_us_per_s() <= 20_000.0, "tick {tick}: {}", load.costs_us_per_s());
    }
    let of = |unit| load.rates.of(unit);
    assert!((0.9e6..1.2e6).contains(&of(LOG_APPEND).calls_per_s.unwrap()), "{:?}", of(LOG_APPEND));
    assert!(of(LOG_APPEND).p * 1e6 <= SAMPLES_PER_S_MAX && of(LOG_APPEND).p > 0.002, "{:?}", of(LOG_APPEND));
    assert!((0.1..=0.25).contains(&of(READ).p), "{:?}", of(READ));
    assert_eq!((of(GC).p, of(GC).is_shed), (1.0, false));
}

/// Goal: TRAIN-6: a primary is sampled as calibration alone, a thousandth of its calls, and less if that would cost
/// more than half a percent of a core. Method: few calls, and so many that a thousandth is too much; the table of each
/// source.
#[test]
fn a_primary_is_calibrated_within_its_part() {
    let mut load = Load::new(&[(READ, 50_000.0)], Source::Calibration);
    let table = load.ticks(50, May::Calibrate, &Switches::default());
    assert_eq!(table.get(READ, Source::Calibration), stepped(PROBABILITY_MIN));
    for unit in UNITS {
        for source in [Source::Apply, Source::Local, Source::ReplayedRead] {
            assert_eq!(table.get(unit.id, source), 0.0);
        }
    }
    let mut load = Load::new(&[(READ, 40e6)], Source::Calibration);
    load.ticks(50, May::Calibrate, &Switches::default());
    assert!((2000.0..=CALIBRATION_US_PER_S).contains(&load.costs_us_per_s()), "{}", load.costs_us_per_s());
}

/// Goal: every call of a benchmark's primary is sampled, whatever the call rates and the cost, from its own source,
/// except where that was switched off; and it is calibrated again afterwards. Method: more calls than R3 allows samples
/// of; one switch.
#[test]
fn every_call_is_sampled_where_a_benchmark_says_so() {
    let mut load = Load::new(&[(READ, 1e6)], Source::Calibration);
    let mut switches = Switches::default();
    Switch::parse("GC_TICK:*=off").unwrap().put(&mut switches);
    let table = load.ticks(50, May::Everything, &switches);
    let of = |unit, source| table.get(unit, source);
    assert_eq!([of(READ, Source::Calibration), of(LOG_APPEND, Source::Calibration)], [1.0, 1.0]);
    assert_eq!([of(GC, Source::Calibration), of(READ, Source::Local)], [0.0, 0.0]);
    let table = load.ticks(1, May::Calibrate, &switches);
    assert!(table.get(READ, Source::Calibration) <= stepped(PROBABILITY_MIN));
}

/// Goal: R1, R2: a replica is sampled from its own sources, and not where that was switched off; a unit that is off for
/// all of them takes nothing of the limit. Method: one switch, then all of a unit.
#[test]
fn switches_stand_above_what_is_granted() {
    let mut switches = Switches::default();
    let mut load = Load::new(&[(READ, 1000.0), (GC, 1.0)], Source::Local);
    Switch::parse("ROW_READ:replayed_read=off").unwrap().put(&mut switches);
    let table = load.ticks(50, LOAD, &switches);
    let of = |source| table.get(READ, source);
    assert_eq!([Source::ReplayedRead, Source::Calibration].map(of), [0.0, 0.0]);
    assert!(of(Source::Local) > 0.9 && of(Source::Apply) == of(Source::Local));
    Switch::parse("ROW_READ:*=off").unwrap().put(&mut switches);
    let table = load.ticks(1, LOAD, &switches);
    assert!(Source::ALL.iter().all(|source| table.get(READ, *source) == 0.0));
    assert!(table.get(GC, Source::Apply) > 0.9 && load.rates.of(READ).p == 0.0);
}

/// Goal: with a limit of 0 nothing is sampled, at once, nothing is shed for it, and known call rates are kept. Method:
/// a load, a pause of each kind, the load again.
#[test]
fn nothing_is_sampled_where_nothing_may_be_spent() {
    for pause in [May::Nothing, May::Collect { us_per_s: 0.0 }] {
        let mut load = Load::new(&[(READ, 2000.0)], Source::Apply);
        load.ticks(50, LOAD, &Switches::default());
        let before = load.rates.of(READ);
        let (table, changes) = load.rates.decide(pause, &Switches::default(), &one);
        assert_eq!((table, changes), (RateTable::off(), vec![]));
        load.ticks(30, pause, &Switches::default());
        load.ticks(1, LOAD, &Switches::default());
        assert_eq!(load.rates.of(READ).p, before.p, "{pause:?}");
    }
}

/// Goal: a unit for which even the least probability is too expensive is shed as a whole, the one with the least
/// information first, and is restored later. Method: two units that cost 10 us at the least, with grants for one of
/// them and for both, and with different information.
#[test]
fn units_are_shed_when_little_is_granted() {
    let mut load = Load::new(&[(READ, 10_000.0), (LOG_APPEND, 10_000.0)], Source::Apply);
    let mut switches = Switches::default();
    Switch::parse("*:*=off").unwrap().put(&mut switches);
    for on in ["ROW_READ:apply=on", "LOG_APPEND:apply=on"] {
        Switch::parse(on).unwrap().put(&mut switches);
    }
    load.ticks(50, LOAD, &switches);
    let worth = |unit: UnitId| if unit.get() == READ { (1.0, 2.0) } else { (1.0, 1.0) };
    let poor = May::Collect { us_per_s: 15.0 };
    let (table, changes) = load.rates.decide(poor, &switches, &worth);
    assert_eq!(changes, [Switched { unit: UnitId::new(LOG_APPEND), on: false }]);
    assert!(table.get(READ, Source::Apply) > 0.0 && table.get(LOG_APPEND, Source::Apply) == 0.0);
    assert!(load.rates.of(LOG_APPEND).is_shed);
    let (_, changes) = load.rates.decide(LOAD, &switches, &worth);
    assert_eq!(changes, [Switched { unit: UnitId::new(LOG_APPEND), on: true }]);
}

/// Goal: samples that were not drained in time count as calls: otherwise a unit that is called too often for its lanes
/// would seem to be called only as often as these can hold. Method: as many dropped as taken.
#[test]
fn dropped_samples_count_as_calls() {
    let mut rates = Rates::default();
    let (mut taken, mut dropped) = ([[0; SOURCES]; UNIT_SLOTS], [0; UNIT_SLOTS]);
    rates.decide(May::Calibrate, &Switches::default(), &one);
    (taken[usize::from(READ)][0], dropped[usize::from(READ)]) = (50, 50);
    rates.saw(&taken, &dropped, 1.0, 1.0);
    let calls = rates.of(READ).calls_per_s.unwrap();
    let p = rates.of(READ).p;
    assert!((calls - 101.0 / p).abs() < 1.0, "{calls}");
}

/// Goal: a probability is rounded down, by less than a fifth, and the least one stays. Method: some values.
#[test]
fn probabilities_go_by_steps() {
    for p in [1.0, 0.7, 0.31, 0.01, 0.0011] {
        let step = f64::from(stepped(p));
        assert!(step <= p * (1.0 + 1e-6) && step > 0.8 * p, "{p}: {step}");
    }
    assert!((f64::from(stepped(PROBABILITY_MIN)) - PROBABILITY_MIN).abs() < 1e-9);
    assert_eq!([0.0, -1.0, f64::NAN].map(stepped), [0.0; 3]);
    assert_eq!([2.0, f64::INFINITY].map(stepped), [1.0; 2]);
}
