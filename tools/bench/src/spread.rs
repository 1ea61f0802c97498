//! `Spread`: the results of several runs of one measurement: median, lowest, highest.

/// Median and range of some runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// The middle value; of an even number of runs, the mean of the two in the middle.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Spread {
    /// Summarizes `values`, at least one.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "a figure comes from at least one run");
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Self { median, low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the median is the middle of the sorted values. Method: odd, even and single counts, out of order.
    #[test]
    fn median_is_the_middle() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, low: 1.0, high: 4.0 });
        assert_eq!(Spread::of(&[7.0]), Spread { median: 7.0, low: 7.0, high: 7.0 });
    }
}
