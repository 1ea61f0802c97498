//! The data of views about decisions, and about the weighed changes.

use collie_base::EPOCH_2000_US;
use collie_sql::catalog::system::{CandidateRow, DecisionRow};
use collie_train::decision::{Gain, Row, Verdict};

use super::candidate::Candidate;

/// Returns a time as views show it.
fn moment(at_s: u64) -> i64 {
    i64::try_from(at_s.saturating_mul(1_000_000)).unwrap_or(i64::MAX).saturating_sub(EPOCH_2000_US)
}

fn ends(Gain { low, expected, high }: Gain) -> (f64, f64, f64) {
    (low, expected, high)
}

/// Returns the newest row of a change as views show it.
pub(super) fn row(row: &Row) -> DecisionRow {
    let Row { id, at_s, setting, old, new, model_hash, gain, trial_p, verdict } = *row;
    DecisionRow {
        id,
        at_us: moment(at_s),
        setting: setting.key(),
        old,
        new,
        model_hash,
        gain: ends(gain),
        trial_p,
        observed_gain: match verdict {
            Verdict::Kept { gain } => Some(gain),
            _ => None,
        },
        verdict: verdict.word(),
        reason: verdict.to_string(),
    }
}

/// Returns a change that was weighed at `at_s` as views show it.
pub(super) fn candidate_row(at_s: u64, candidate: &Candidate) -> CandidateRow {
    let Candidate { setting, old, new, gain, ref outcome } = *candidate;
    CandidateRow {
        at_us: moment(at_s),
        setting: setting.key(),
        old,
        new,
        gain: gain.map(ends),
        reason: outcome.to_string(),
    }
}
