//! The sweeps of the log on simulated disks (`collie_wal::lab`), with a progress line and a summary.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use collie_env::{Clock, RealClock};
use collie_wal::lab::{self, Bits, StatesPlan, StatesReport};

use crate::report::{Figures, Report};

/// The result of a sweep, and the command that repeats it.
type Outcome = (anyhow::Result<Report>, String);

/// Shows the progress of a sweep: in a single line on a terminal, in a new line every ten seconds elsewhere.
struct Progress {
    start_ns: u64,
    shown_ns: u64,
    terminal: bool,
}

impl Progress {
    fn new() -> Self {
        let start_ns = RealClock.now_ns();
        Self { start_ns, shown_ns: start_ns, terminal: std::io::stderr().is_terminal() }
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(RealClock.now_ns() - self.start_ns)
    }

    fn show(&mut self, line: impl FnOnce(Duration) -> String) {
        let now = RealClock.now_ns();
        let pause_ns = if self.terminal { 200_000_000 } else { 10_000_000_000 };
        if now - self.shown_ns < pause_ns {
            return;
        }
        self.shown_ns = now;
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        // A failure to show progress is ignored.
        let _unseen = write!(std::io::stderr(), "{before}{}{after}", line(self.elapsed()));
    }

    fn done(&self) {
        if self.terminal {
            let _unseen = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Visits crash states of logs without threads.
pub(crate) fn states(states: u64, seed: u64, json: bool) -> Outcome {
    let mut progress = Progress::new();
    let checked = lab::check_states(&StatesPlan::new(states, seed), &mut |report| {
        progress.show(|time| {
            let rate = lab::per_second(report.states, time);
            format!("log-states: {} of {states} states, {rate} states/s", report.states)
        });
    });
    progress.done();
    match checked {
        Ok(report) => {
            let summary = if json { states_json } else { states_text };
            let words = summary(&report, seed, progress.elapsed());
            (Ok(Report::new(words, Figures { cycles: report.states, ..Figures::default() })), String::new())
        }
        Err(violation) => {
            let repeat = format!("log-states --states {} --seed {}", violation.states, violation.seed);
            (Err(violation.into()), repeat)
        }
    }
}

fn states_text(report: &StatesReport, seed: u64, time: Duration) -> String {
    format!(
        "log-states: {} states checked, {} of them after second crashes; {} crash points ({} with all their states), \
         {} workloads (seeds {seed} to {}), {} records compared: all promises hold; {:.1} s, {} states/s",
        report.states,
        report.second_crash_states,
        report.crash_points,
        report.exhausted_points,
        report.workloads,
        seed + report.workloads - 1,
        report.records,
        time.as_secs_f64(),
        lab::per_second(report.states, time)
    )
}

fn states_json(report: &StatesReport, seed: u64, time: Duration) -> String {
    format!(
        "{{\"states_count\": {}, \"second_crash_states_count\": {}, \"crash_points_count\": {}, \
         \"workloads_count\": {}, \"records_count\": {}, \"first_seed\": {seed}, \"time_ms\": {}, \
         \"states_per_second\": {}}}",
        report.states,
        report.second_crash_states,
        report.crash_points,
        report.workloads,
        report.records,
        time.as_millis(),
        lab::per_second(report.states, time)
    )
}

/// Visits crash states of logs with threads.
pub(crate) fn threads(rounds: u64, seed: u64) -> Outcome {
    let mut progress = Progress::new();
    let checked = lab::check_threads(rounds, seed, &mut |report| {
        progress.show(|_| format!("log-threads: {} of {rounds} rounds, {} states", report.rounds, report.states));
    });
    progress.done();
    let summary = checked.map(|report| {
        format!(
            "log-threads: {} states of {} moments in {} rounds, {} records compared: all promises hold; {:.1} s",
            report.states,
            report.moments,
            report.rounds,
            report.records,
            progress.elapsed().as_secs_f64()
        )
    });
    (summary.map(Report::from).map_err(Into::into), format!("log-threads --rounds {rounds} --seed {seed}"))
}

/// Flips bits of a log's files.
pub(crate) fn flips(seed: u64, one_bit: bool) -> Outcome {
    let mut progress = Progress::new();
    let bits = if one_bit { Bits::One } else { Bits::All };
    let swept = lab::sweep_flips(seed, bits, &mut |report| {
        progress.show(|_| format!("log-flips: {} flips, {} reported", report.flips, report.reported));
    });
    progress.done();
    let repeat = format!("log-flips --seed {seed}{}", if one_bit { " --one-bit" } else { "" });
    let summary = swept.map(|report| {
        format!(
            "log-flips: {} bits flipped, {} of them in the {} bytes that carry the log, all reported; {} elsewhere, all \
             harmless; {:.1} s",
            report.flips,
            report.reported,
            report.protected_bytes,
            report.harmless,
            progress.elapsed().as_secs_f64()
        )
    });
    (summary.map(Report::from).map_err(Into::into), repeat)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the keys of the JSON figures name their units, and rate, time and count agree. Method: the numbers of a
    /// report.
    #[test]
    fn json_keys_carry_units_and_figures_agree() {
        let report = StatesReport { states: 90_000, workloads: 3, ..StatesReport::default() };
        let text = states_json(&report, 5, Duration::from_millis(4_500));
        let mut numbers = std::collections::BTreeMap::new();
        for pair in text.trim_matches(['{', '}']).split(", ") {
            let (key, value) = pair.split_once(": ").unwrap();
            numbers.insert(key.trim_matches('"'), value.parse::<u64>().unwrap());
        }
        assert_eq!(numbers["states_per_second"] * numbers["time_ms"], numbers["states_count"] * 1_000);
        let units = ["_count", "_ms", "_per_second", "_seed"];
        assert!(numbers.keys().all(|key| units.iter().any(|unit| key.ends_with(unit))), "{text}");
    }
}
