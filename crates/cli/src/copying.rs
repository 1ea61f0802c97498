//! Progress of copying, summing and checking files, if that takes longer than a second: a bar on a terminal, one line
//! per second elsewhere.

use std::time::Duration;

use collie_engine::{CopyPhase, CopyProgress};
use collie_env::Clock;
use indicatif::{ProgressBar, ProgressStyle};

/// Time before anything is shown, and between two lines.
const QUIET: Duration = Duration::from_secs(1);

/// Progress of copying, summing and checking files.
pub(crate) struct Copying<'a> {
    clock: &'a dyn Clock,
    phase: Option<CopyPhase>,
    begun_ns: u64,
    last_ns: u64,
    bar: Option<ProgressBar>,
}

impl<'a> Copying<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        let now = clock.now_ns();
        Self { clock, phase: None, begun_ns: now, last_ns: now, bar: None }
    }

    pub(crate) fn report(&mut self, progress: &CopyProgress) {
        let now = self.clock.now_ns();
        let &CopyProgress { phase, bytes_done, bytes_total } = progress;
        if self.phase.replace(phase) != Some(phase) {
            (self.begun_ns, self.last_ns) = (now, now);
            if let Some(bar) = self.bar.take() {
                bar.finish_and_clear();
            }
        }
        let elapsed = Duration::from_nanos(now - self.begun_ns);
        if elapsed < QUIET {
            return;
        }
        let what = match phase {
            CopyPhase::Levels => "copying levels",
            CopyPhase::Log => "copying the log",
            CopyPhase::Summing => "computing checksums",
            CopyPhase::Checking => "checking",
            CopyPhase::Restoring => "restoring",
            _ => "copying",
        };
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "{prefix} {bar:20} {percent}% of {total_bytes}, {bytes_per_sec}, {eta} left",
            );
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(bytes_total).with_style(style).with_prefix(what).with_elapsed(elapsed)
        });
        bar.set_length(bytes_total);
        bar.set_position(bytes_done);
        if bar.is_hidden() && Duration::from_nanos(now - self.last_ns) >= QUIET {
            self.last_ns = now;
            let percent = bytes_done.saturating_mul(100) / bytes_total.max(1);
            let left = elapsed.as_secs() * (100 - percent.min(100)) / percent.max(1);
            eprintln!("{what}: {percent}% of {bytes_total} bytes, about {left} s left");
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
