//! The samples and models that decisions see.

use std::{path::Path, sync::Arc};

use collie_env::{Env, SimClock};
use collie_samples::{sample_of_unit, unit_of};

use super::*;
use crate::{
    config,
    training::{
        fixture::{package, row_reads},
        sampler::tests::Told,
    },
};

const SECOND_US: u64 = 1_000_000;
const READ: u8 = 9;

fn unit() -> &'static UnitSchema {
    unit_of(READ, 1).expect("a unit")
}

/// Returns samples of these times, each standing for four calls.
fn rows(times_us: impl IntoIterator<Item = u64>) -> Vec<SampleRow> {
    let sample = collie_obs::Sample { p: 0.25, ..sample_of_unit(READ, 5) };
    times_us.into_iter().map(|time_us| SampleRow { time_us, sample }).collect()
}

/// Goal: calls are counted by the weights of samples, since the oldest one. Method: samples by hand: ten in five
/// seconds; several at the oldest time, of which others may be dropped; samples of hours ago; a clock that was set
/// back; none.
#[test]
fn calls_are_counted_since_the_oldest_sample() {
    let of = |rows: &[SampleRow], now_us: u64| recent(unit(), rows, now_us);
    let ten = rows((0..10).map(|half| 1000 * SECOND_US + half * SECOND_US / 2));
    let found = of(&ten, 1005 * SECOND_US);
    assert_eq!((found.calls_per_s, found.calls.len()), (9.0 * 4.0 / 5.0, 10));
    assert_eq!((found.calls[0].weight, found.calls[0].features.len()), (4.0, unit().features.len()));
    let full = rows([7, 7, 7, 7 + SECOND_US]);
    assert_eq!(of(&full, 7 + 2 * SECOND_US).calls_per_s, 4.0 / 2.0);
    let old = rows([0, SECOND_US, 7200 * SECOND_US, 7201 * SECOND_US]);
    let found = of(&old, 7201 * SECOND_US);
    assert_eq!((found.calls_per_s, found.calls.len()), (8.0 / 3600.0, 2));
    assert_eq!(of(&ten, 900 * SECOND_US).calls_per_s, 0.0);
    assert_eq!(of(&[], 7), Recent::default());
}

/// Goal: a run of calls counts with its length, and its features are those of one call; rows of another version are
/// left out. Method: a sample of a run of eight; one of a later version.
#[test]
fn runs_count_as_their_calls() {
    let mut both = rows([0, SECOND_US]);
    both[1].sample.calls = 8;
    let found = recent(unit(), &both, 2 * SECOND_US);
    assert_eq!((found.calls_per_s, found.calls[1].weight), (16.0, 32.0));
    both[1].sample.version += 1;
    assert_eq!(recent(unit(), &both, 2 * SECOND_US).calls.len(), 1);
}

/// Goal: decisions see the newest samples of the collector and the models in use, and no prediction for a call outside
/// of the training ranges. Method: a training with samples and without a model, then with one; another role, which has
/// other work.
#[test]
fn decisions_see_samples_and_models() {
    let clock = Arc::new(SimClock::new());
    let (env, _disk) = Env::simulated(1);
    clock.advance_ns(9_000_000_000);
    let env = Env { clock, ..env };
    let told = Arc::new(Told::default());
    let training = Training::over(config::Training::default(), 2, Path::new("/data"), env, told);
    let predictor: &dyn Predictor = &training;
    assert_eq!(predictor.recent(unit()), Recent::default());
    let call = [8.0, 100.0, 10.0, 1.0];
    assert_eq!((predictor.predict(unit(), &call), predictor.model_hash(unit())), (None, None));
    let reads = row_reads(200, 1, 1);
    let model = package(&reads);
    training.collection().models.store(&model).expect("a disk that works");
    assert_eq!(training.load_models(), 1);
    let predicted = predictor.predict(unit(), &call).expect("it has seen such calls");
    assert!((500.0..700.0).contains(&predicted.value) && !predicted.clamped, "{predicted:?}");
    assert_eq!((predictor.model_hash(unit()), predictor.is_stale(unit())), (Some(model.hash()), false));
    assert_eq!(predictor.predict(unit(), &[8.0, 100.0, 1e6, 1.0]), None);
    let now_us = u64::try_from(training.env.clock.wall_us()).expect("after 1970");
    let newest = |row: &SampleRow| SampleRow { time_us: now_us - SECOND_US, ..*row };
    training.collection().recent.add(&reads.iter().map(newest).collect::<Vec<_>>());
    assert_eq!(predictor.recent(unit()).calls.len(), 200);
    let slow = row_reads(1000, 50, 2);
    training.collection().judge.take(&training.collection().models.loaded(), &slow);
    assert!(predictor.is_stale(unit()), "the model holds no more");
    training.begin();
    assert_eq!(predictor.recent(unit()), Recent::default());
}
