//! How long a run stays out of bound after a disturbance.

use super::WINDOW_MS;

/// The consecutive windows inside the bound after which a run has recovered.
const SETTLED_WINDOWS: usize = 5;

/// Returns the number of windows of `is_out` after which the run has recovered: from there on `in_a_row` of them are
/// inside, or all if there are fewer.
pub fn settled(is_out: &[bool], in_a_row: usize) -> Option<usize> {
    let in_a_row = in_a_row.min(is_out.len()).max(1);
    is_out.windows(in_a_row).position(|row| row.iter().all(|is_out| !is_out))
}

/// Returns the longest time from an end of the disturbance until the run was back inside the bound, in seconds, rounded
/// to windows; 0 if no window after an end was out. It is infinite if the run was not back before the next disturbance
/// or the end of the run, and `None` if the disturbance does not end.
///
/// `is_out` has a value for each window; `calms_ms` are the times without a disturbance.
pub(super) fn recovery_s(is_out: &[bool], calms_ms: &[(usize, usize)]) -> Option<f64> {
    let back_s = |&(from_ms, until_ms): &(usize, usize)| {
        let (first, last) = (from_ms.div_ceil(WINDOW_MS), (until_ms / WINDOW_MS).min(is_out.len()));
        let windows = is_out.get(first..last).unwrap_or_default();
        match settled(windows, SETTLED_WINDOWS) {
            Some(0) => 0.0,
            Some(at) => ((first + at) * WINDOW_MS - from_ms) as f64 / 1000.0,
            None => f64::INFINITY,
        }
    };
    calms_ms.iter().map(back_s).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(out: &[usize], calms_ms: &[(usize, usize)]) -> Option<f64> {
        let is_out: Vec<bool> = (0..40).map(|window| out.contains(&window)).collect();
        recovery_s(&is_out, calms_ms)
    }

    /// Goal: the time until the run has recovered, after the worst end. Method: never out, out before the end only,
    /// once and again after it, up to the last window, and two ends.
    #[test]
    fn recovery_is_the_time_until_windows_stay_inside() {
        let calm = [(10_000, 40_000)];
        assert_eq!(of(&[], &calm), Some(0.0));
        assert_eq!(of(&[8, 9], &calm), Some(0.0));
        assert_eq!(of(&[9, 10], &calm), Some(1.0));
        assert_eq!(of(&[10, 13], &calm), Some(4.0), "two windows inside are not the end of it");
        assert_eq!(of(&[10, 16], &calm), Some(1.0), "what happens five windows later is another matter");
        assert_eq!(of(&(10..40).collect::<Vec<_>>(), &calm), Some(f64::INFINITY));
        assert_eq!(of(&[11], &[(10_200, 20_000), (30_200, 40_000)]), Some(1.8));
        assert_eq!(of(&[11, 31, 32], &[(10_200, 20_000), (30_200, 40_000)]), Some(2.8));
        assert_eq!(of(&[1], &[]), None);
    }
}
