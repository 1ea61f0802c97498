//! What views show of a decision.

use collie_sql::catalog::system::DecisionRow;
use collie_train::decision::{Row, Verdict};

use crate::replication::EPOCH_DIFFERENCE;

/// Returns the newest row of a change as views have it.
pub(super) fn row(row: &Row) -> DecisionRow {
    let Row { id, at_s, setting, old, new, model_hash, gain, trial_p, verdict } = *row;
    let at_us = i64::try_from(at_s.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    DecisionRow {
        id,
        at_us: at_us.saturating_sub(EPOCH_DIFFERENCE),
        setting: setting.key(),
        old,
        new,
        model_hash,
        gain: (gain.low, gain.expected, gain.high),
        trial_p,
        observed_gain: match verdict {
            Verdict::Kept { gain } => Some(gain),
            _ => None,
        },
        verdict: verdict.word(),
        reason: verdict.to_string(),
    }
}
