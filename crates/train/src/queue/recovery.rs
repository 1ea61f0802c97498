//! How long a run stays out of bound once a disturbance is over.

use super::WINDOW_MS;

/// So many windows in a row inside the bound, and it is back.
const SETTLED_WINDOWS: usize = 5;

/// Returns after how many of `is_out` it is back: the place from which on `in_a_row` of them are inside, or all there are if that is fewer.
pub fn settled(is_out: &[bool], in_a_row: usize) -> Option<usize> {
    let in_a_row = in_a_row.min(is_out.len()).max(1);
    is_out.windows(in_a_row).position(|row| row.iter().all(|is_out| !is_out))
}

/// Returns the longest time from an end of the disturbance until the run was back inside the bound, in seconds, to a window; 0 where no window
/// after an end was out. Infinite where it was not back before the disturbance began again, or the run ended; none if nothing ends.
///
/// `is_out` says it of each window; `calms_ms` are times in which there is no disturbance.
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

    /// Goal: the time until it is back for good, of the worst end. Method: never out, out before the end only, once and again after it, to
    /// the last window, and two ends.
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
