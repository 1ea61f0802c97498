//! P7: cores for work that can wait, by the time that apply threads wait for a processor.

use super::{Grant, Policy, Signals};

/// Elastic work gives way if apply threads wait longer than this for a processor.
const RUN_QUEUE_US_MAX: f64 = 1000.0;

/// P7: the rate of q cores at which an [`ElasticBudget`](super::ElasticBudget) is filled for replayed reads and fits.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// q.
    cores: f64,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { cores: 0.01 }
    }
}

impl Tokens {
    /// Returns the time that elastic work may take of `grant`, in us per second, after the samples have taken their
    /// part.
    pub fn elastic_us_per_s(&self, grant: Grant, samples_us_per_s: f64) -> f64 {
        (grant.collect_us_per_s - samples_us_per_s).max(0.0).min(self.cores * 1e6)
    }
}

impl Policy for Tokens {
    fn tick(&mut self, signals: &Signals) -> Grant {
        let next = if signals.run_queue_us_p99 > RUN_QUEUE_US_MAX { self.cores * 0.8 } else { self.cores + 0.01 };
        self.cores = next.clamp(0.01, 1.0);
        Grant { collect_us_per_s: self.cores * 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: elastic work gives way to apply threads and grows back slowly. Method: waits below and above a
    /// millisecond.
    #[test]
    fn tokens_follow_the_run_queue() {
        let mut tokens = Tokens::default();
        let mut cores =
            |run_queue_us_p99| tokens.tick(&Signals { run_queue_us_p99, ..Signals::default() }).collect_us_per_s / 1e6;
        let calm: Vec<f64> = (0..120).map(|_| cores(1000.0)).collect();
        assert!((calm[0] - 0.02).abs() < 1e-9 && calm[119] == 1.0);
        let busy: Vec<f64> = (0..40).map(|_| cores(1001.0)).collect();
        assert!((busy[0] - 0.8).abs() < 1e-9 && busy[39] == 0.01);
    }

    /// Goal: elastic work gets the rest of the grant, and no more than its rate. Method: either is the smaller one.
    #[test]
    fn elastic_work_is_inside_the_grant() {
        let tokens = Tokens { cores: 0.5 };
        let grant = Grant { collect_us_per_s: 600_000.0 };
        assert_eq!(tokens.elastic_us_per_s(grant, 0.0), 500_000.0);
        assert_eq!(tokens.elastic_us_per_s(grant, 200_000.0), 400_000.0);
        assert_eq!(tokens.elastic_us_per_s(grant, 700_000.0), 0.0);
    }
}
