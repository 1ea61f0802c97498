//! [`Show`]: the load, with a line about it every few seconds, until it is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context as _;
use collie_env::Clock;
use collie_workload::{LoadDone, TpccLoad};
use tokio::{
    task::JoinHandle,
    time::{interval, sleep, timeout},
};

use super::{
    Stops, blame, either_ends,
    figures::{Figures, Views},
    node::Node,
    say,
};

/// Time between two lines. The policy has a control window every five seconds: lines at that interval could show
/// nothing else.
const EVERY: Duration = Duration::from_secs(4);
/// How long the load may take to end the transactions that it has begun.
const END: Duration = Duration::from_secs(10);

/// The load on a primary and its replica, and how long it runs.
pub(super) struct Show<'a> {
    pub(super) primary: &'a mut Node,
    pub(super) replica: &'a mut Node,
    pub(super) clock: &'a dyn Clock,
    /// `None`: until a signal stops it.
    pub(super) time: Option<Duration>,
}

/// The load, on its own thread.
struct Running {
    stop: Arc<AtomicBool>,
    load: JoinHandle<anyhow::Result<LoadDone>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

impl Running {
    fn begin(load: Arc<TpccLoad>, clients: u32, rate: f64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::task::spawn_blocking({
            let stop = stop.clone();
            move || load.run(clients, rate, &stop)
        });
        Self { stop, load }
    }

    /// Waits until the load has ended by itself, which it does only after an error.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future loses nothing.
    async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.load).await {
            Ok(Ok(_)) => anyhow::anyhow!("the load has ended"),
            Ok(Err(error)) => error.context("the load has failed"),
            Err(error) => anyhow::Error::new(error).context("the load has failed"),
        }
    }

    /// Stops the load and returns its results.
    async fn end(mut self) -> anyhow::Result<LoadDone> {
        self.stop.store(true, Relaxed);
        let ended = timeout(END, &mut self.load).await;
        ended.context("the load does not end: the primary does not answer")?.context("the load has failed")?
    }
}

impl Show<'_> {
    /// Runs the load and prints its progress; then prints a summary.
    ///
    /// # Errors
    /// Those of the load; one of the servers has ended, with its last message.
    pub(super) async fn run(
        self,
        load: Arc<TpccLoad>,
        clients: u32,
        rate: f64,
        stops: &mut Stops,
    ) -> anyhow::Result<()> {
        let Self { primary, replica, clock, time } = self;
        let views = match Views::connect(&primary.url(), &replica.url()).await {
            Ok(views) => views,
            Err(error) => return Err(blame(error, primary, replica).await),
        };
        let mut running = Running::begin(load, clients, rate);
        let begun_ns = clock.now_ns();
        let over = async {
            match time {
                Some(time) => sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let lines = lines(&views, clock, begun_ns);
        tokio::select! {
            () = stops.come() => {}
            () = over => {}
            never = lines => match never {},
            // A server that has ended is the cause of a failing load.
            ended = either_ends(primary, replica) => return Err(ended),
            failed = running.failed() => return Err(blame(failed, primary, replica).await),
        }
        let last = views.look().await;
        let done = running.end().await?;
        for line in summary(&done, &last) {
            say(&line);
        }
        Ok(())
    }
}

/// Prints the current figures every few seconds.
async fn lines(views: &Views, clock: &dyn Clock, begun_ns: u64) -> std::convert::Infallible {
    let mut ticks = interval(EVERY);
    let (mut before, mut before_ns) = (views.look().await, clock.now_ns());
    ticks.tick().await; // completes at once
    loop {
        ticks.tick().await;
        let (now, now_ns) = (views.look().await, clock.now_ns());
        let rate = now.rate(&before, Duration::from_nanos(now_ns.saturating_sub(before_ns)));
        let seconds = Duration::from_nanos(now_ns.saturating_sub(begun_ns)).as_secs();
        say(&format!("{seconds:>5} s  {}", now.line(rate)));
        (before, before_ns) = (now, now_ns);
    }
}

/// Returns the results, in lines.
#[expect(clippy::cast_precision_loss, reason = "counts of a demo")]
fn summary(done: &LoadDone, last: &Figures) -> [String; 3] {
    let LoadDone { transactions, retried, backlog, time, latencies } = done;
    let seconds = time.as_secs_f64();
    let ms = |per_mille| latencies.at_per_mille(per_mille) as f64 / 1e6;
    [
        format!(
            "{transactions} transactions in {seconds:.1} s, {:.1} a second; p50 {:.1} ms, p99 {:.1} ms from when each was due",
            *transactions as f64 / seconds.max(f64::MIN_POSITIVE),
            ms(500),
            ms(990)
        ),
        format!(
            "{retried} attempts were refused and made again, {backlog} transactions were due and not begun; {}",
            last.judged()
        ),
        last.learnt(),
    ]
}

#[cfg(test)]
mod tests {
    use collie_base::Latencies;

    use super::*;

    /// Goal: the summary gives the number and the rate of transactions. Method: two hundred transactions in four
    /// seconds, with no figures of the servers.
    #[test]
    fn the_summary_says_what_was_done() {
        let mut latencies = Latencies::default();
        (0..200).for_each(|_| latencies.record(2_000_000));
        let done = LoadDone { transactions: 200, retried: 3, backlog: 1, time: Duration::from_secs(4), latencies };
        let lines = summary(&done, &Figures::default());
        assert_eq!(lines[0], "200 transactions in 4.0 s, 50.0 a second; p50 2.0 ms, p99 2.0 ms from when each was due");
        assert!(lines[1].starts_with("3 attempts were refused and made again, 1 transactions were due"), "{lines:?}");
        assert_eq!(lines[2], "samples -, models -, changes weighed -, decisions -, reads replayed -");
    }
}
