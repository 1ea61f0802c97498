//! [`Controller`]: the decisions of one tick: the grant C by the governor, the part of it for elastic work by P7, and
//! whether the second was out of bound. Pure: the same signals give the same decisions (TRAIN-7).

use collie_train::policy::{
    Governor, Halt, Policy as _, PolicyKind, PolicyState, Settings, Signals, TickDelay, Tokens, Windows,
};

/// For this many ticks the delay of one counts as the newest known delay.
const NEWEST_TICKS: u32 = 10;

/// The decisions of a tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    /// The signals on which it is based, sanitized.
    pub(super) signals: Signals,
    /// C, in us per second.
    pub(super) collect_us_per_s: f64,
    /// The part of it for elastic work.
    pub(super) elastic_us_per_s: f64,
    /// Why C is 0, if the policy did not decide it.
    pub(super) halt: Option<Halt>,
    /// The visible state of the policy.
    pub(super) state: PolicyState,
    /// D of the newest tick with measured commits, unless that is a second or more ago.
    pub(super) delay_us: Option<f64>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Controller {
    governor: Governor,
    tokens: Tokens,
    windows: Windows,
    /// D, and its age in ticks.
    newest: Option<(f64, u32)>,
}

impl Controller {
    /// Starts from the beginning on a machine with `cores`, except that it continues to count `windows`.
    pub(super) fn new(kind: PolicyKind, settings: Settings, cores: u32, windows: Windows) -> Self {
        Self { governor: Governor::new(kind, settings, cores), tokens: Tokens::default(), windows, newest: None }
    }

    /// Takes the signals since the last tick, and the present cost of samples, in us per second: elastic work gets a
    /// part of the rest.
    pub(super) fn tick(&mut self, signals: &Signals, samples_us_per_s: f64) -> Decided {
        let grant = self.governor.tick(signals);
        let signals = signals.sanitized();
        let is_stale = signals.is_stale();
        if is_stale {
            self.tokens.silence();
        } else {
            self.tokens.tick(&signals);
        }
        let state = self.governor.state();
        let delay = match signals.delay_us {
            _ if is_stale => TickDelay::Unknown,
            Some(us) => TickDelay::Measured { us, commits: signals.commits_per_s.max(1.0) },
            None => TickDelay::NoCommit,
        };
        self.windows.tick(delay, state.bound_us);
        self.newest = match (signals.delay_us, self.newest) {
            (Some(us), _) => Some((us, 0)),
            (None, newest) => newest.map(|(us, ticks)| (us, ticks + 1)).filter(|(_, ticks)| *ticks < NEWEST_TICKS),
        };
        Decided {
            signals,
            collect_us_per_s: grant.collect_us_per_s,
            elastic_us_per_s: self.tokens.elastic_us_per_s(grant, samples_us_per_s),
            halt: self.governor.halt(),
            state,
            delay_us: self.newest.map(|(us, _)| us),
        }
    }

    /// Returns the windows so far.
    pub(super) fn windows(&self) -> Windows {
        self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = include_str!("../../../train/tests/recorded/signals.tsv");

    /// Returns the recorded signals with the grant of `policy`.
    fn recorded(policy: &str) -> Vec<(Signals, f64)> {
        let mut lines = RECORDED.lines();
        let head: Vec<&str> = lines.next().expect("a head").trim_start_matches("# ").split(' ').collect();
        let place = head.iter().position(|name| *name == policy).expect("a policy of the record");
        let row = |line: &str| {
            let fields: Vec<f64> = line.split('\t').map(|field| field.parse().expect("a number")).collect();
            let signals = Signals {
                delay_us: Some(fields[0]).filter(|us| !us.is_nan()),
                age_us: fields[1],
                commits_per_s: fields[2],
                busy_us: fields[3],
                spent_us: fields[4],
                offered_us_per_s: fields[5],
                heartbeat_us: fields[6],
                run_queue_us_p99: fields[7],
                workers: if fields[8] == 1.0 { 1 } else { 2 },
            };
            (signals, fields[place])
        };
        lines.map(row).collect()
    }

    /// Goal: TRAIN-7 through all steps of a server: recorded signals give the recorded grants, elastic work gets no
    /// more than these, and silence stops both. Method: the record of `collie-train`, with the policy that is the
    /// default there and here.
    #[test]
    fn recorded_signals_give_the_recorded_grants() {
        let mut controller = Controller::new(PolicyKind::Headroom, Settings::default(), 4, Windows::default());
        let (mut granted, mut silent) = (0, 0);
        for (tick, (signals, recorded)) in recorded("headroom").into_iter().enumerate() {
            let decided = controller.tick(&signals, 0.0);
            let (collect, elastic) = (decided.collect_us_per_s, decided.elastic_us_per_s);
            assert!((collect - recorded).abs() <= 1e-6 * recorded.abs(), "tick {tick}: {collect} for {recorded}");
            assert!((0.0..=collect).contains(&elastic), "tick {tick}: {elastic} of {collect}");
            granted += u64::from(elastic > 0.0);
            silent += u64::from(decided.halt == Some(Halt::Silent));
            assert!(decided.halt.is_none() || collect == 0.0, "tick {tick}");
        }
        assert!(granted > 100 && silent >= 5, "{granted} ticks with a grant, {silent} silent");
        let windows = controller.windows();
        assert!(windows.judged > 10 && windows.unknown > 0, "{windows:?}");
    }

    /// Goal: the shown delay is that of the newest commits, for a second. Method: a tick with commits, then ticks
    /// without.
    #[test]
    fn the_delay_of_the_newest_commits_is_shown_for_a_second() {
        let mut controller = Controller::new(PolicyKind::Headroom, Settings::default(), 4, Windows::default());
        assert_eq!(controller.tick(&Signals::default(), 0.0).delay_us, None);
        controller.tick(&Signals { delay_us: Some(300.0), ..Signals::default() }, 0.0);
        let shown = (1..=11).map(|_| controller.tick(&Signals::default(), 0.0).delay_us);
        assert_eq!(shown.take_while(|us| *us == Some(300.0)).count(), 9);
    }

    /// Goal: apply threads that wait for a processor reduce elastic work, and nothing else. Method: long waits on a
    /// replica that is otherwise idle, then none.
    #[test]
    fn waiting_apply_threads_come_first() {
        let calm = Signals { delay_us: Some(300.0), offered_us_per_s: 1e6, ..Signals::default() };
        let mut controller = Controller::new(PolicyKind::Headroom, Settings::default(), 4, Windows::default());
        (0..40).for_each(|_| _ = controller.tick(&calm, 0.0));
        let before = controller.tick(&calm, 0.0);
        let crowded = Signals { run_queue_us_p99: 5000.0, ..calm };
        let after = controller.tick(&crowded, 0.0);
        assert!(after.elastic_us_per_s < before.elastic_us_per_s, "{after:?}");
        assert!(after.collect_us_per_s > after.elastic_us_per_s);
        let calmed = controller.tick(&calm, 0.0);
        assert!(calmed.elastic_us_per_s > after.elastic_us_per_s, "{calmed:?}");
        let left = calmed.collect_us_per_s - 1.0;
        assert!(controller.tick(&calm, left).elastic_us_per_s <= 1.0 + 1e-6, "samples come before work that can wait");
    }
}
