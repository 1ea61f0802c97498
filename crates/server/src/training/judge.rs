//! [`Judge`]: compares the predictions of models with the incoming samples.
//!
//! Each model of a unit predicts every kept sample of the unit. That shows whether a model still holds, how large its
//! error is now, and how much one more sample of a unit would tell (`collie_train::budget::Information`).

use std::collections::{BTreeMap, VecDeque};

use collie_base::EPOCH_2000_US;
use collie_obs::UNIT_SLOTS;
use collie_samples::{SampleRow, features_of, label_of, unit_of, weight_of};
use collie_sql::catalog::system::PredictionRow;
use collie_train::{
    LabelId, UnitId,
    budget::{Bucket, Information},
    model::{Coverage, Prediction},
};
use parking_lot::Mutex;

use super::models::Loaded;

/// The number of predictions that are shown.
const PREDICTIONS_MAX: usize = 1000;

/// The factor by which an error's weight fades with each further sample: the last thousand count most.
const FADE: f64 = 0.999;

/// The number of samples that are predicted under the lock: a promotion waits for it, about a tenth of a millisecond.
const LOCKED_ROWS: usize = 64;

/// The upper limit of the ratio of predicted to seen, in ln: one absurd prediction must not hide all others.
const RATIO_LN_MAX: f64 = 10.0;

/// The evaluation of one model.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    hash: u64,
    coverage: Coverage,
    error: f64,
    weight: f64,
}

impl Judged {
    /// Makes the evaluation of the package `hash`, without any samples yet.
    pub(super) fn new(hash: u64) -> Self {
        Self { hash, ..Self::default() }
    }

    /// Adds the prediction for a sample that stands for `weight` calls, and its actual value.
    pub(super) fn add(&mut self, predicted: &Prediction, seen: f64, weight: f64) {
        self.coverage.add((predicted.low..=predicted.high).contains(&seen));
        let ratio_ln = (predicted.value / seen).ln().min(RATIO_LN_MAX);
        self.error = FADE * self.error + weight * (ratio_ln.exp() - 1.0).abs();
        self.weight = FADE * self.weight + weight;
    }

    /// Returns the weighted mean absolute percentage error, 0.1 for 10 %; `None` before there was a sample.
    pub(super) fn error(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.error / self.weight)
    }

    /// Returns the coverage: how many of the newest samples lay inside their interval.
    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }
}

#[derive(Debug)]
struct Inner {
    by_model: BTreeMap<(UnitId, LabelId), Judged>,
    newest: VecDeque<PredictionRow>,
    /// For elapsed times, by unit.
    information: Vec<Information>,
}

impl Inner {
    fn new() -> Self {
        let information = (0..UNIT_SLOTS).map(|_| Information::default()).collect();
        Self { by_model: BTreeMap::new(), newest: VecDeque::new(), information }
    }

    fn take(&mut self, loaded: &Loaded, row: &SampleRow) {
        let Some(unit) = unit_of(row.sample.ou, row.sample.version) else { return };
        let (id, features, weight) = (UnitId::new(unit.id), features_of(unit, row), weight_of(row));
        for (label, field) in (0_u8..).zip(unit.labels) {
            let label_id = LabelId::new(label);
            let Some((hash, predicted)) = loaded.prediction(id, label_id, &features) else { continue };
            let seen = label_of(row, label);
            let judged = self.by_model.entry((id, label_id)).or_default();
            if judged.hash != hash {
                *judged = Judged::new(hash);
                if label == 0 {
                    self.information[usize::from(unit.id)] = Information::default();
                }
            }
            judged.add(&predicted, seen, weight);
            if label == 0 {
                let residual_ln = (seen / predicted.value).ln();
                self.information[usize::from(unit.id)].add(Bucket::of(&row.sample.features), residual_ln, weight);
            }
            if self.newest.len() == PREDICTIONS_MAX {
                self.newest.pop_front();
            }
            self.newest.push_back(PredictionRow {
                at_us: i64::try_from(row.time_us).unwrap_or(i64::MAX).saturating_sub(EPOCH_2000_US),
                unit_id: unit.id,
                unit: unit.name,
                label: field.name,
                hash,
                predicted: predicted.value,
                low: predicted.low,
                high: predicted.high,
                seen,
                is_clamped: predicted.clamped,
            });
        }
    }
}

/// Compares predictions with samples. Lock order: its own lock alone.
#[derive(Debug)]
pub(super) struct Judge {
    inner: Mutex<Inner>,
}

impl Default for Judge {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner::new()) }
    }
}

impl Judge {
    /// Takes kept samples, in order.
    ///
    /// Cost: about a microsecond for each sample and each label with a model.
    pub(super) fn take(&self, loaded: &Loaded, rows: &[SampleRow]) {
        for part in rows.chunks(LOCKED_ROWS) {
            let mut inner = self.inner.lock();
            part.iter().for_each(|row| inner.take(loaded, row));
        }
    }

    /// Returns coverage and error of a model on the newest samples, and whether it is stale, so that decisions do not
    /// use it.
    pub(super) fn of(&self, unit: UnitId, label: LabelId) -> (Option<f64>, Option<f64>, bool) {
        let inner = self.inner.lock();
        let judged = inner.by_model.get(&(unit, label));
        let is_stale = judged.is_some_and(|judged| judged.coverage.is_stale());
        (judged.and_then(|judged| judged.coverage.share()), judged.and_then(Judged::error), is_stale)
    }

    /// Returns the residual standard deviation of a unit's model in log space, and how much one more sample of it would
    /// tell: both 1 before there is a model.
    pub(super) fn worth(&self, unit: UnitId) -> (f64, f64) {
        let inner = self.inner.lock();
        let of_unit = inner.information.get(usize::from(unit.get()));
        of_unit.map_or((1.0, 1.0), |information| (information.deviation(), information.per_sample()))
    }

    /// Returns the newest predictions, oldest first.
    pub(super) fn newest(&self) -> Vec<PredictionRow> {
        self.inner.lock().newest.iter().cloned().collect()
    }

    /// Clears all evaluations, since another role has other work.
    pub(super) fn clear(&self) {
        *self.inner.lock() = Inner::new();
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::fixture::{loaded_with, package, row_reads},
        *,
    };

    const READ: UnitId = UnitId::new(9);
    const TIME: LabelId = LabelId::new(0);

    /// Goal: a model that holds has the error of its samples' noise and covers nine tenths; one that no longer holds is
    /// stale after a thousand samples, its error shows by how much, and samples of its unit are worth more. Method: a
    /// model of reads; reads as they were, then three times as slow.
    #[test]
    fn a_model_that_no_longer_holds_is_seen() {
        let loaded = loaded_with(&[package(&row_reads(2000, 1, 1))]);
        let judge = Judge::default();
        assert_eq!((judge.of(READ, TIME), judge.worth(READ)), ((None, None, false), (1.0, 1.0)));
        judge.take(&loaded, &row_reads(1500, 1, 2));
        let (coverage, error, is_stale) = judge.of(READ, TIME);
        assert!(coverage.is_some_and(|share| share > 0.85) && !is_stale, "{coverage:?}");
        assert!(error.is_some_and(|error| error < 0.1), "{error:?}");
        let (deviation, _) = judge.worth(READ);
        assert!(deviation < 0.2, "{deviation}");
        judge.take(&loaded, &row_reads(1500, 3, 3));
        let (coverage, error, is_stale) = judge.of(READ, TIME);
        assert!(coverage.is_some_and(|share| share < 0.1) && is_stale, "{coverage:?}");
        assert!(error.is_some_and(|error| (0.4..0.8).contains(&error)), "a third of what it is: {error:?}");
        assert!(judge.worth(READ).0 > 2.0 * deviation, "{:?}", judge.worth(READ));
        judge.clear();
        assert_eq!(judge.of(READ, TIME), (None, None, false));
    }

    /// Goal: the newest thousand predictions are shown with the actual values; a unit without a model does not appear;
    /// another model starts a new evaluation. Method: more than a thousand reads, a scan, another package.
    #[test]
    fn the_newest_predictions_are_shown() {
        let first = package(&row_reads(2000, 1, 1));
        let loaded = loaded_with(std::slice::from_ref(&first));
        let judge = Judge::default();
        let rows = row_reads(1200, 1, 2);
        judge.take(&loaded, &rows);
        judge.take(&loaded, &[SampleRow { time_us: 0, sample: collie_samples::sample_of_unit(13, 5) }]);
        let shown = judge.newest();
        assert_eq!(shown.len(), 1000);
        let (last, row) = (shown.last().expect("there are some"), rows.last().expect("there are some"));
        assert_eq!((last.unit, last.label, last.hash), ("ROW_READ", "elapsed_ns", first.hash()));
        assert!(last.seen == label_of(row, 0) && last.low < last.predicted && last.predicted < last.high, "{last:?}");
        judge.take(&loaded_with(&[package(&row_reads(2000, 3, 4))]), &row_reads(1, 3, 5));
        assert_eq!(judge.of(READ, TIME).0, Some(1.0), "of one sample");
    }
}
