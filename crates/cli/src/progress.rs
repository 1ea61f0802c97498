//! Progress of an open that takes longer than a second: a bar on a terminal, one line per second elsewhere.

use std::time::Duration;

use collie_engine::{OpenPhase, OpenProgress};
use collie_env::Clock;
use indicatif::{ProgressBar, ProgressStyle};

/// Time before anything is shown, and between two lines.
const QUIET: Duration = Duration::from_secs(1);

/// Progress of opening a directory, on standard error.
pub struct Recovery<'a> {
    clock: &'a dyn Clock,
    /// The function that prints a line if there is no terminal.
    say: fn(&str),
    pace: Pace,
    bar: Option<ProgressBar>,
}

impl<'a> Recovery<'a> {
    /// Begins now; `say` prints a line where there is no terminal.
    pub fn new(clock: &'a dyn Clock, say: fn(&str)) -> Self {
        Self { clock, say, pace: Pace::new(clock.now_ns()), bar: None }
    }

    /// Shows `progress`, if something is due.
    pub fn report(&mut self, progress: &OpenProgress) {
        let Some(line) = self.pace.line(self.clock.now_ns(), progress) else { return };
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:40} {msg}");
            ProgressBar::new(100).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_position(progress.percent());
        if bar.is_hidden() {
            (self.say)(&line);
        }
        bar.set_message(line);
    }

    /// Removes the bar.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Decides when a line is due, and what it says.
struct Pace {
    begun_ns: u64,
    said_ns: u64,
    /// When the phase began or resumed after another, and its progress at that time.
    phase: Option<(u64, OpenProgress)>,
}

impl Pace {
    fn new(now_ns: u64) -> Self {
        Self { begun_ns: now_ns, said_ns: now_ns, phase: None }
    }

    /// Returns the line to print now, if one is due.
    fn line(&mut self, now_ns: u64, progress: &OpenProgress) -> Option<String> {
        let since = |then_ns: u64| Duration::from_nanos(now_ns.saturating_sub(then_ns));
        let (phase_ns, first) = match self.phase {
            Some((ns, first)) if first.phase == progress.phase => (ns, first),
            _ => *self.phase.insert((now_ns, *progress)),
        };
        let is_early = since(self.begun_ns) < QUIET || since(self.said_ns) < QUIET;
        if is_early || progress.phase == OpenPhase::Done || progress.bytes_total == 0 {
            return None;
        }
        self.said_ns = now_ns;
        let ms = since(phase_ns).as_millis().max(1);
        let rows = progress.rows.saturating_sub(first.rows);
        let bytes = progress.bytes_done.saturating_sub(first.bytes_done);
        let (what, speed) = match progress.phase {
            OpenPhase::Verify => ("checking the log", String::new()),
            OpenPhase::Levels => ("levels", format!(", {} rows/s", u128::from(rows) * 1000 / ms)),
            OpenPhase::ScanChunks => ("log, large transactions first", String::new()),
            OpenPhase::Replay | OpenPhase::Done => ("log", format!(", {} rows/s", u128::from(rows) * 1000 / ms)),
        };
        let todo = progress.bytes_total.saturating_sub(progress.bytes_done);
        let left = match u128::from(todo) * ms / u128::from(bytes.max(1)) / 1000 {
            _ if bytes == 0 => String::new(),
            seconds => format!(", about {seconds} s left"),
        };
        let (percent, mib) = (progress.percent(), progress.bytes_total >> 20);
        Some(format!("recovery: {what}: {percent}% of {mib} MiB{speed}{left}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(phase: OpenPhase, mib_done: u64, rows: u64) -> OpenProgress {
        OpenProgress { phase, bytes_done: mib_done << 20, bytes_total: 400 << 20, rows }
    }

    /// Goal: nothing is printed in the first second, then one line per second, with the phase, its share, its speed and
    /// the time left. Method: an open of three phases with a scan in the middle of its replay.
    #[test]
    fn line_a_second_says_phase_share_speed_and_time_left() {
        let mut pace = Pace::new(SECOND);
        let mut say = |ms: u64, progress: OpenProgress| pace.line(SECOND + ms * 1_000_000, &progress);
        assert_eq!(say(0, at(OpenPhase::Levels, 0, 0)), None);
        assert_eq!(say(900, at(OpenPhase::Levels, 90, 900)), None);
        let line = say(1000, at(OpenPhase::Levels, 100, 5000));
        assert_eq!(line.as_deref(), Some("recovery: levels: 25% of 400 MiB, 5000 rows/s, about 3 s left"));
        assert_eq!(say(1500, at(OpenPhase::Levels, 150, 7000)), None, "half a second later");
        assert_eq!(say(1999, at(OpenPhase::Replay, 0, 0)), None);
        let line = say(2999, at(OpenPhase::Replay, 40, 3000));
        assert_eq!(line.as_deref(), Some("recovery: log: 10% of 400 MiB, 3000 rows/s, about 9 s left"));
        assert_eq!(say(3000, at(OpenPhase::ScanChunks, 0, 0)), None);
        let line = say(4000, at(OpenPhase::ScanChunks, 200, 0));
        assert_eq!(line.as_deref(), Some("recovery: log, large transactions first: 50% of 400 MiB, about 1 s left"));
        assert_eq!(say(4900, at(OpenPhase::Replay, 40, 3000)), None);
        let line = say(6900, at(OpenPhase::Replay, 80, 7000));
        assert_eq!(line.as_deref(), Some("recovery: log: 20% of 400 MiB, 2000 rows/s, about 16 s left"));
        assert_eq!(say(9000, at(OpenPhase::Done, 400, 9000)), None);
    }

    /// Goal: a phase in which nothing is done yet promises no time. Method: one that is stuck at its beginning.
    #[test]
    fn no_time_is_promised_before_anything_is_done() {
        let mut pace = Pace::new(0);
        assert_eq!(pace.line(0, &at(OpenPhase::Replay, 0, 0)), None);
        let line = pace.line(5 * SECOND, &at(OpenPhase::Replay, 0, 0));
        assert_eq!(line.as_deref(), Some("recovery: log: 0% of 400 MiB, 0 rows/s"));
    }
}
