//! Progress of work that takes longer than a second: a bar on a terminal, a line a second elsewhere.

use std::time::Duration;

use collie_engine::OpenProgress;
use collie_env::Clock;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows nothing before this.
const QUIET: Duration = Duration::from_secs(1);

/// Progress of opening a directory.
pub(crate) struct Recovery<'a> {
    clock: &'a dyn Clock,
    begun_ns: u64,
    last_ns: u64,
    bar: Option<ProgressBar>,
}

impl<'a> Recovery<'a> {
    pub(crate) fn new(clock: &'a dyn Clock) -> Self {
        let now = clock.now_ns();
        Self { clock, begun_ns: now, last_ns: now, bar: None }
    }

    pub(crate) fn report(&mut self, progress: &OpenProgress) {
        let now = self.clock.now_ns();
        let since_begin = Duration::from_nanos(now - self.begun_ns);
        if since_begin < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style =
                ProgressStyle::with_template("recovery {bar:40} {percent}% {bytes}/{total_bytes} {msg}, {eta} left");
            ProgressBar::new(progress.bytes_total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let rows_per_s = u128::from(progress.rows) * 1_000 / since_begin.as_millis().max(1);
        bar.set_position(progress.bytes_done);
        bar.set_message(format!("{rows_per_s} rows/s"));
        if bar.is_hidden() && Duration::from_nanos(now - self.last_ns) >= QUIET {
            self.last_ns = now;
            let percent = progress.bytes_done * 100 / progress.bytes_total.max(1);
            let left = since_begin.as_secs() * (100 - percent.min(100)) / percent.max(1);
            eprintln!(
                "recovery: {percent}% of {} bytes of log, {rows_per_s} rows/s, about {left} s left",
                progress.bytes_total
            );
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
