//! [`Slices`]: a statement that takes its processor time in slices. It is the client of the statement: about once a
//! millisecond the statement asks it to drain its output; then it pays for the time used and waits for the next slice.
//! It receives the rows and drops them.

use std::time::Duration;

use collie_engine::CancelHandle;
use collie_env::Env;
use collie_sql::{
    analyze::bound::ResultColumn,
    error::{Report, Result, SqlError},
    session::{Client, CopyInput, Formats, NoticeLevel, disconnected},
    types::{Value, io::TextContext},
};
use collie_train::policy::ElasticBudget;
use tokio::time::sleep;

/// The length of a slice.
pub(super) const SLICE_US: u64 = 1000;

/// The time between two attempts to take a slice.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// See the module's documentation.
pub(super) struct Slices<'a> {
    elastic: &'a ElasticBudget,
    env: &'a Env,
    cancel: CancelHandle,
    since_us: u64,
}

impl<'a> Slices<'a> {
    /// Waits for the first slice, until `until_us` on the monotonic clock; returns `None` if there was none by then.
    pub(super) async fn first(
        elastic: &'a ElasticBudget,
        env: &'a Env,
        cancel: CancelHandle,
        until_us: u64,
    ) -> Option<Self> {
        let mut slices = Self { elastic, env, cancel, since_us: 0 };
        slices.wait(until_us).await.then_some(slices)
    }

    fn now_us(&self) -> u64 {
        self.env.clock.now_ns() / 1000
    }

    /// Pays for the time used since the last slice began.
    pub(super) fn pay(&mut self) {
        let now_us = self.now_us();
        self.elastic.spend(now_us.saturating_sub(self.since_us));
        self.since_us = now_us;
    }

    /// Waits for a slice; returns whether there was one in time.
    async fn wait(&mut self, until_us: u64) -> bool {
        loop {
            let now_us = self.now_us();
            if self.elastic.take(now_us, SLICE_US) {
                self.since_us = now_us;
                return true;
            }
            if now_us >= until_us {
                return false;
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Client for Slices<'_> {
    fn columns(&mut self, _: &[ResultColumn], _: &Formats) {}

    fn row(&mut self, _: &[Value], _: &[ResultColumn], _: &Formats, _: &TextContext) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) {}

    fn empty(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _: NoticeLevel, _: &Report) {}

    fn error(&mut self, _: &SqlError, _: &str) {}

    fn copy_in(&mut self, _: usize) {}

    fn copy_out(&mut self, _: usize) {}

    fn copy_data(&mut self, _: &[u8]) {}

    fn copy_done(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }

    async fn drain(&mut self) -> Result<()> {
        self.pay();
        // The statement itself checks whether it was cancelled, which its time limit does too.
        while self.cancel.reason().is_none() {
            if self.wait(0).await {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
        // Whether a slice or a cancel came first, no time was used while waiting.
        self.since_us = self.now_us();
        Ok(())
    }

    async fn next_copy(&mut self) -> Result<CopyInput> {
        Err(disconnected())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use collie_engine::{Db, Options};
    use collie_env::SimClock;

    use super::*;

    /// Goal: the statement pays for the time used, not for the wait for a slice, even if a cancel ends the wait.
    /// Method: 2 ms of work, and 5 s of waiting at a rate of 0, by a clock that the test moves.
    #[tokio::test]
    async fn waiting_for_a_slice_is_not_paid_for() {
        let clock = Arc::new(SimClock::new());
        let env = Env { clock: clock.clone(), ..Env::simulated(1).0 };
        let mut options = Options { background: false, ..Options::small() };
        options.log.threads = false;
        let (db, _report) = Db::open("/db".as_ref(), options, env.clone(), &mut |_| ()).unwrap();
        let session = db.session().unwrap();
        let cancel = session.cancel_handle();
        let elastic = ElasticBudget::new();
        elastic.set_rate(1_000_000);
        assert!(Slices::first(&elastic, &env, cancel.clone(), 0).await.is_none(), "nothing has come in yet");
        clock.advance_ns(10_000_000);
        let mut slices = Slices::first(&elastic, &env, cancel.clone(), 0).await.expect("a slice has come in");
        clock.advance_ns(2_000_000);
        elastic.set_rate(0);
        let later = async {
            sleep(Duration::from_millis(20)).await;
            clock.advance_ns(5_000_000_000);
            cancel.cancel();
        };
        let (drained, ()) = tokio::join!(slices.drain(), later);
        assert!(drained.is_ok());
        slices.pay();
        assert_eq!(elastic.spent_us(), 2000);
    }
}
