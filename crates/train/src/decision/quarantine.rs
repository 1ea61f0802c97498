//! `Quarantine`: settings that were rolled back too often.

use std::collections::BTreeMap;

use super::Setting;

/// This many rollbacks within [`SPAN_S`] are too many.
const ROLLBACKS_MAX: usize = 3;

/// How long a rollback counts, and how long a setting is left alone: 24 h.
const SPAN_S: u64 = 86_400;

/// The times of the newest rollbacks of each setting.
#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    rollbacks_s: BTreeMap<Setting, Vec<u64>>,
}

impl Quarantine {
    /// Notes a rollback.
    pub fn note(&mut self, setting: Setting, now_s: u64) {
        let times = self.rollbacks_s.entry(setting).or_default();
        times.push(now_s);
        // Only the newest ones matter.
        if times.len() > ROLLBACKS_MAX {
            times.remove(0);
        }
    }

    /// Returns whether a setting is left alone. A later time than now was noted before the clock was set back, and
    /// counts as now (D3).
    pub fn holds(&mut self, setting: Setting, now_s: u64) -> bool {
        let Some(times) = self.rollbacks_s.get_mut(&setting) else { return false };
        times.iter_mut().for_each(|time| *time = (*time).min(now_s));
        let [first, .., last] = times.as_slice() else { return false };
        times.len() == ROLLBACKS_MAX && last.saturating_sub(*first) < SPAN_S && now_s.saturating_sub(*last) < SPAN_S
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: D2. Method: three rollbacks within a day, three that are further apart, a day later, and three by a clock
    /// that is nine days ahead.
    #[test]
    fn three_rollbacks_within_a_day_quarantine() {
        let held = |times: &[u64], now_s| {
            let mut quarantine = Quarantine::default();
            times.iter().for_each(|time| quarantine.note(Setting::FlushDelay, *time));
            assert!(!quarantine.holds(Setting::FlushBytes, now_s), "each setting by itself");
            quarantine.holds(Setting::FlushDelay, now_s)
        };
        assert!(!held(&[100, 200], 200));
        assert!(held(&[100, 200, 300], 300) && held(&[100, 200, 300], 300 + SPAN_S - 1));
        assert!(!held(&[100, 200, 300], 300 + SPAN_S));
        assert!(!held(&[0, 100, SPAN_S], SPAN_S));
        let mut ahead = Quarantine::default();
        (0..3).for_each(|hour| ahead.note(Setting::FlushDelay, 9 * SPAN_S + hour * 3600));
        assert!(ahead.holds(Setting::FlushDelay, 100) && ahead.holds(Setting::FlushDelay, 99 + SPAN_S));
        assert!(!ahead.holds(Setting::FlushDelay, 100 + SPAN_S), "D3: a day, whatever the clock was");
        assert!(held(&[0, SPAN_S, SPAN_S + 1, SPAN_S + 2], SPAN_S + 3));
    }
}
