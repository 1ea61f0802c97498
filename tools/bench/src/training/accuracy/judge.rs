//! `Verdict`: models of one unit from three sources, each fitted to the same number of samples and judged by the same
//! rows of a run that none of them has seen.

use collie_train::TrainError;
use collie_train::model::{FitOptions, Fitted, Samples, fit, relative_error};

use super::equivalence::{BLOCKS, Equivalence, Judged, blocks_of, equivalence};
use super::noise_floor::{NoiseFloor, noise_floor};
use crate::training::bootstrap::{Interval, paired_ratios};
use crate::training::recorded::evenly;

/// A unit with fewer samples of a source, or to be judged by, is left out: a fit needs about as many.
pub(super) const ROWS_MIN: usize = 60;

/// The elapsed times of one unit's calls, by source.
pub(super) struct Sources {
    /// Taken on the replica while the primary ran the load; `primary` on that primary.
    pub(super) replica: Samples,
    pub(super) primary: Samples,
    /// Taken on a server without replica under the same load with another seed, if requested.
    pub(super) offline: Option<Samples>,
    /// Taken on a primary in another run, by which all models are judged.
    pub(super) held_out: Samples,
}

/// The errors of the models of one source, 0.1 for 10 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Errors {
    /// Fitted to the same number of samples as the models of the other sources.
    pub(super) equal: f64,
    /// Fitted to all samples that the source gave in the same time.
    pub(super) all: f64,
    /// The number of all these samples.
    pub(super) rows: usize,
}

/// The results for one unit.
pub(super) struct Verdict {
    /// The number of samples that the models were fitted to.
    pub(super) rows: usize,
    /// The number of samples that the models were judged by.
    pub(super) judged: usize,
    pub(super) replica: Errors,
    pub(super) primary: Errors,
    /// `None` if the offline runner gave too few samples or was not requested.
    pub(super) offline: Option<Errors>,
    /// The ratio of the replica model's error to the primary model's, over blocks of time.
    pub(super) ratio: Option<Interval>,
    /// Whether the replica's model is as good as the primary's; `None` if the judged run has too few blocks of time.
    pub(super) equivalence: Option<Equivalence>,
    /// The same for calls within the range that the replica has seen; `None` if the judged run has none.
    pub(super) known: Option<Known>,
    /// The error that no model of these features can go below.
    pub(super) floor: Option<NoiseFloor>,
}

/// The results for calls whose features and predictions are within the range that the replica's model was fitted to.
/// Outside of it a prediction is marked and no decision uses it: replayed reads carry no information about writes.
pub(super) struct Known {
    /// Their share of all calls.
    pub(super) share: f64,
    /// The errors of the models of equal numbers of samples.
    pub(super) replica: f64,
    pub(super) primary: f64,
    pub(super) ratio: Option<Interval>,
    pub(super) equivalence: Option<Equivalence>,
}

impl Known {
    fn of(judged: &[Judged], is_known: &[bool], seed: u64) -> Option<Self> {
        let known: Vec<Judged> =
            judged.iter().zip(is_known).filter(|(_, is_known)| **is_known).map(|(row, _)| *row).collect();
        let weight = |rows: &[Judged]| rows.iter().map(|row| row.weight).sum::<f64>();
        let mean = |of: fn(&Judged) -> f64| known.iter().map(|row| row.weight * of(row)).sum::<f64>() / weight(&known);
        (!known.is_empty()).then(|| Self {
            share: weight(&known) / weight(judged),
            replica: mean(|row| row.candidate),
            primary: mean(|row| row.reference),
            ratio: ratio(&known, seed),
            equivalence: equivalence(&known),
        })
    }
}

impl Verdict {
    /// Judges models of all sources; returns `Err` with the name of the first source that gave too few samples.
    pub(super) fn of(sources: &Sources, seed: u64) -> Result<Self, &'static str> {
        let Sources { replica, primary, offline, held_out } = sources;
        for (name, samples) in [("the primary", primary), ("the held-out run", held_out), ("the replica", replica)] {
            if samples.len() < ROWS_MIN {
                return Err(name);
            }
        }
        let offline = offline.as_ref().filter(|offline| offline.len() >= ROWS_MIN);
        let sources = [Some(replica), Some(primary), offline];
        let rows = sources.iter().flatten().map(|samples| samples.len()).min().unwrap_or(0);
        let judge = |samples: &Samples| errors_of(samples, rows, held_out).map_err(|_too_few| "a source");
        let (of_replica, of_primary) = (judge(replica)?, judge(primary)?);
        let judged: Vec<Judged> = (0..held_out.len())
            .map(|row| Judged {
                time_us: held_out.time_us(row),
                weight: held_out.weight(row),
                candidate: of_replica.each[row],
                reference: of_primary.each[row],
            })
            .collect();
        Ok(Self {
            rows,
            judged: held_out.len(),
            replica: of_replica.errors,
            primary: of_primary.errors,
            offline: offline.map(judge).transpose()?.map(|of| of.errors),
            ratio: ratio(&judged, seed),
            equivalence: equivalence(&judged),
            known: Known::of(&judged, &of_replica.is_known, seed),
            floor: noise_floor(held_out),
        })
    }
}

/// The results for the models of one source.
struct OfSource {
    errors: Errors,
    /// The errors of the model of `rows` samples by judged row; `is_known` says whether the model knows such calls.
    each: Vec<f64>,
    is_known: Vec<bool>,
}

/// Fits one model to `rows` of the samples and one to all, and judges both.
fn errors_of(samples: &Samples, rows: usize, held_out: &Samples) -> Result<OfSource, TrainError> {
    let options = FitOptions::default();
    let (each, is_known) = errors(&fit(&evenly(samples, rows), &options)?, held_out);
    let equal = mean(&each, held_out);
    let all = if samples.len() == rows { equal } else { mean(&errors(&fit(samples, &options)?, held_out).0, held_out) };
    Ok(OfSource { errors: Errors { equal, all, rows: samples.len() }, each, is_known })
}

/// Returns the relative error of each row, and whether the model knows such calls.
fn errors(model: &Fitted, judged: &Samples) -> (Vec<f64>, Vec<bool>) {
    let of_row = |row: usize| {
        let (predicted_ln, is_marked) = model.predict_ln(judged.row(row)).unwrap_or((f64::INFINITY, true));
        (relative_error(predicted_ln, judged.target_ln(row)), !is_marked)
    };
    (0..judged.len()).map(of_row).unzip()
}

fn mean(each: &[f64], judged: &Samples) -> f64 {
    let weights: f64 = judged.weights().iter().sum();
    each.iter().zip(judged.weights()).map(|(error, weight)| error * weight).sum::<f64>() / weights
}

/// Returns the ratio of the candidate's error to the reference's by block of time: the median with its interval.
fn ratio(judged: &[Judged], seed: u64) -> Option<Interval> {
    let times: Vec<u64> = judged.iter().map(|row| row.time_us).collect();
    let blocks = blocks_of(&times, BLOCKS);
    let sums = |of: fn(&Judged) -> f64| -> Vec<f64> {
        let sum = |block: &Vec<usize>| block.iter().map(|row| judged[*row].weight * of(&judged[*row])).sum();
        blocks.iter().map(sum).collect()
    };
    Interval::of(&paired_ratios(&sums(|row| row.candidate), &sums(|row| row.reference)), seed)
}

#[cfg(test)]
mod tests {
    use collie_env::{Random as _, SimRandom};
    use collie_train::model::{Complexity, Sample};

    use super::*;

    /// Makes calls that take `factor` times a power of their only feature, with uniform noise of a tenth to either
    /// side.
    fn calls(count: u32, factor: f64, seed: u64) -> Samples {
        let chance = SimRandom::new(seed);
        let mut samples = Samples::new(1, Complexity::Constant).unwrap();
        for call in 0..count {
            let feature = 1.0 + f64::from(u32::try_from(chance.below(64)).unwrap());
            let noise = f64::from(u32::try_from(chance.u64() >> 32).unwrap()) / 2.0_f64.powi(32);
            let label = factor * feature.powf(0.6) * (0.2 * (noise - 0.5)).exp();
            let time_us = u64::from(call) * 10_000;
            samples.push(Sample { features: &[feature], label, weight: 1.0, time_us }).unwrap();
        }
        samples
    }

    fn sources(replica: Samples) -> Sources {
        let offline = Some(calls(400, 50.0, 3));
        Sources { replica, primary: calls(900, 50.0, 2), offline, held_out: calls(800, 50.0, 4) }
    }

    /// Goal: a replica whose calls cost the same as the primary's is shown to be as good; all models are fitted to the
    /// same number of samples, and the floor is that of the noise. Method: a known law with noise of +-10 % from four
    /// seeds: the mean of |e^x - 1| over it is 5.0 %.
    #[test]
    fn equal_sources_are_equivalent() {
        let verdict = Verdict::of(&sources(calls(700, 50.0, 1)), 7).unwrap();
        assert_eq!((verdict.rows, verdict.judged, verdict.replica.rows, verdict.primary.rows), (400, 800, 700, 900));
        assert!(verdict.equivalence.unwrap().is_equivalent(), "{:?}", verdict.equivalence);
        let floor = verdict.floor.unwrap();
        assert!((floor.error - 0.05).abs() < 0.006, "{floor:?}");
        for errors in [verdict.replica, verdict.primary, verdict.offline.unwrap()] {
            assert!(errors.equal > 0.8 * floor.error && errors.equal < 1.3 * floor.error, "{errors:?}");
        }
        let ratio = verdict.ratio.unwrap();
        assert!(ratio.low <= 1.05 && 0.95 <= ratio.high, "{ratio:?}");
    }

    /// Goal: the model of a replica that is a fifth slower is reported as worse. Method: the same with a factor.
    #[test]
    fn a_slower_replica_is_told_from_the_primary() {
        let verdict = Verdict::of(&sources(calls(700, 60.0, 1)), 7).unwrap();
        assert!(!verdict.equivalence.unwrap().is_no_worse(), "{:?}", verdict.equivalence);
        assert!((verdict.replica.equal - 0.2).abs() < 0.05 && verdict.ratio.unwrap().low > 2.0);
    }

    /// Goal: calls that the replica has seen are judged separately. Method: a replica that has seen none above half of
    /// the largest feature, above which calls take three times as long.
    #[test]
    fn known_calls_are_judged_by_themselves() {
        let law = |count, seed, largest: u64| {
            let chance = SimRandom::new(seed);
            let mut samples = Samples::new(1, Complexity::Constant).unwrap();
            for call in 0..count {
                let feature = 1.0 + f64::from(u32::try_from(chance.below(largest)).unwrap());
                let label =
                    if feature > 32.0 { 300.0 } else { 100.0 } + f64::from(u32::try_from(chance.below(20)).unwrap());
                samples.push(Sample { features: &[feature], label, weight: 1.0, time_us: call * 10_000 }).unwrap();
            }
            samples
        };
        let sources =
            Sources { replica: law(900, 1, 32), primary: law(900, 2, 64), offline: None, held_out: law(900, 3, 64) };
        let verdict = Verdict::of(&sources, 7).unwrap();
        assert!(!verdict.equivalence.unwrap().is_no_worse(), "{:?}", verdict.equivalence);
        let known = verdict.known.unwrap();
        assert!((0.45..0.55).contains(&known.share), "{}", known.share);
        assert!(known.equivalence.unwrap().is_no_worse(), "{:?}", known.equivalence);
        assert!(known.replica < 0.1 && verdict.replica.equal > 0.25, "{}, {}", known.replica, verdict.replica.equal);
        let foreign = Sources { held_out: law(900, 3, 64), replica: calls(900, 1e6, 1), ..sources };
        assert!(
            Verdict::of(&foreign, 7).unwrap().known.is_some_and(|known| known.share > 0.9),
            "other times are no other calls"
        );
    }

    /// Goal: the source with too few samples is named, and without an offline runner the others are judged. Method:
    /// each source cut to a few rows, and the offline one to nothing.
    #[test]
    fn too_few_samples_are_named() {
        let few = || calls(59, 50.0, 5);
        let all = || sources(calls(700, 50.0, 1));
        assert_eq!(Verdict::of(&Sources { replica: few(), ..all() }, 7).err(), Some("the replica"));
        assert_eq!(Verdict::of(&Sources { primary: few(), ..all() }, 7).err(), Some("the primary"));
        assert_eq!(Verdict::of(&Sources { held_out: few(), ..all() }, 7).err(), Some("the held-out run"));
        for offline in [Some(few()), None] {
            let verdict = Verdict::of(&Sources { offline, ..all() }, 7).unwrap();
            assert!(verdict.offline.is_none() && verdict.rows == 700);
        }
    }
}
