//! `FlushDelayOverride`: while a shipper follows the log closely (`replication.flush_delay`), records that
//! no caller waits for are flushed sooner than `wal.flush_delay` says.
//!
//! It costs writers nothing: only the background flusher reads it, when it is about to wait.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::Flusher;
use crate::WalError;

/// The longest override, as for `wal.flush_delay`.
const DELAY_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Requested {
    delays: BTreeMap<u64, Duration>,
    next_id: u64,
    /// The delay that replaces the requested ones, since a call changed it.
    instead: Option<Duration>,
}

/// The requested delays.
#[derive(Debug, Default)]
pub(super) struct Delays(Mutex<Requested>);

impl Delays {
    /// Returns the shortest one, or its replacement; `None` if none is requested.
    fn shortest_requested(&self) -> Option<Duration> {
        let requested = self.0.lock();
        let shortest = requested.delays.values().copied().min()?;
        Some(requested.instead.unwrap_or(shortest))
    }

    /// Returns the override if it is below `usual`, else `usual`.
    pub(super) fn shortest(&self, usual: Duration) -> Duration {
        self.shortest_requested().map_or(usual, |delay| delay.min(usual))
    }
}

/// A delay that is requested until this is dropped.
#[derive(Debug)]
pub(crate) struct FlushDelayOverride {
    delays: Arc<Delays>,
    id: u64,
}

impl Drop for FlushDelayOverride {
    fn drop(&mut self) {
        self.delays.0.lock().delays.remove(&self.id);
    }
}

impl Flusher {
    /// Flushes records that no caller waits for after `delay` at the latest, until the returned guard is dropped; zero
    /// requests nothing.
    pub(crate) fn override_flush_delay(&self, delay: Duration) -> FlushDelayOverride {
        let delays = self.delays.clone();
        let id = {
            let mut requested = delays.0.lock();
            let id = requested.next_id;
            requested.next_id += 1;
            if delay > Duration::ZERO {
                requested.delays.insert(id, delay);
            }
            id
        };
        // The background flusher may be in the middle of a longer wait.
        self.poke(true);
        FlushDelayOverride { delays, id }
    }

    /// Returns the shortest override, or its replacement.
    pub(crate) fn flush_delay_override(&self) -> Option<Duration> {
        self.delays.shortest_requested()
    }

    /// Replaces all present and future overrides.
    ///
    /// # Errors
    /// `InvalidOptions` for zero and above [`DELAY_MAX`].
    pub(crate) fn set_flush_delay_override(&self, delay: Duration) -> Result<(), WalError> {
        if delay.is_zero() || delay > DELAY_MAX {
            return Err(WalError::options("replication.flush_delay is out of bounds: use more than 0, at most 10 s"));
        }
        self.delays.0.lock().instead = Some(delay);
        // The background flusher may be in the middle of a longer wait.
        self.poke(true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use collie_env::Env;

    use super::*;
    use crate::{Log, Options};

    /// Goal: the shortest requested delay counts, or the one it was changed to, also for later requests; and only while
    /// there is a request. Method: two requests, a change, a request after it; a shorter usual delay.
    #[test]
    fn override_is_the_shortest_request_or_its_replacement() {
        let (env, _disk) = Env::simulated(1);
        let options = Options { threads: false, ..Options::small() };
        let (log, _) = Log::open(&env, "/log".as_ref(), options).unwrap();
        let ms = Duration::from_millis;
        assert_eq!((log.flush_delay_override(), log.flusher().delays.shortest(ms(9))), (None, ms(9)));
        let follows = [
            log.flusher().override_flush_delay(ms(7)),
            log.flusher().override_flush_delay(ms(5)),
            log.flusher().override_flush_delay(Duration::ZERO),
        ];
        assert_eq!((log.flush_delay_override(), log.flusher().delays.shortest(ms(9))), (Some(ms(5)), ms(5)));
        for bad in [Duration::ZERO, Duration::from_secs(11)] {
            log.set_flush_delay_override(bad).unwrap_err();
        }
        log.set_flush_delay_override(ms(8)).unwrap();
        assert_eq!((log.flush_delay_override(), log.flusher().delays.shortest(ms(9))), (Some(ms(8)), ms(8)));
        assert_eq!(log.flusher().delays.shortest(ms(2)), ms(2));
        drop(follows);
        assert_eq!((log.flush_delay_override(), log.flusher().delays.shortest(ms(9))), (None, ms(9)));
        let _later = log.flusher().override_flush_delay(ms(3));
        assert_eq!(log.flush_delay_override(), Some(ms(8)));
    }
}
