//! `Activity`: what a session is doing now, visible to other sessions, and the order to end the session.
//!
//! Each session writes its own `Activity` twice per message (when the message begins and when it is answered), under a
//! mutex that otherwise only readers of it take. It is not a history, and not a statistic.
//!
//! # Invariants
//! - V1. Between two messages the state is one of the idle ones; while a message is answered it is `Active`.
//! - V2. At most [`QUERY_BYTES_MAX`] bytes of a text are kept, cut between characters.
//! - V3. An order to end a session is never withdrawn.
//!
//! Checked by the tests below and by the clients' tests of the views.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;

use crate::catalog::system::{Doing, State};

/// Limit of a statement's text that is shown, in bytes, as in PostgreSQL's `track_activity_query_size`.
const QUERY_BYTES_MAX: usize = 1024;

/// The callback for the end of the session.
type OnEnd = Box<dyn Fn() + Send + Sync>;

/// A session, as other sessions see and end it.
#[derive(Default)]
pub struct Activity {
    doing: Mutex<Doing>,
    told_to_end: AtomicBool,
    on_end: OnceLock<OnEnd>,
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity").field("doing", &self.doing).finish_non_exhaustive()
    }
}

impl Activity {
    pub(super) fn new(application: &str) -> Arc<Self> {
        let doing = Doing { application: application.to_owned(), ..Doing::default() };
        Arc::new(Self { doing: Mutex::new(doing), ..Self::default() })
    }

    /// Returns what the session is doing.
    pub fn doing(&self) -> Doing {
        self.doing.lock().clone()
    }

    /// Notes that a statement begins.
    pub(super) fn begin(&self, text: &str, now: i64, transaction_start: Option<i64>) {
        let mut doing = self.doing.lock();
        doing.query.clear();
        doing.query.push_str(&text[..text.floor_char_boundary(QUERY_BYTES_MAX - 1)]);
        doing.query_start = Some(now);
        if doing.state != State::Active {
            doing.state = State::Active;
            doing.state_change = Some(now);
        }
        // A statement outside a transaction block is a transaction by itself.
        doing.transaction_start = transaction_start.or(Some(now));
    }

    /// Notes that the message was answered, and the application's current name.
    pub(super) fn end(&self, state: State, now: i64, transaction_start: Option<i64>, application: &str) {
        let mut doing = self.doing.lock();
        if doing.state != state {
            doing.state = state;
            doing.state_change = Some(now);
        }
        doing.transaction_start = transaction_start;
        if doing.application != application {
            application.clone_into(&mut doing.application);
        }
    }

    /// Sets the callback for an order to end the session; only the first call sets it. If the order came already, the
    /// callback is called at once.
    pub(super) fn on_end(&self, call: OnEnd) {
        let call = self.on_end.get_or_init(|| call);
        if self.is_told_to_end() {
            call();
        }
    }

    /// Orders the session to end: it ends between two messages, or once the message that it answers is cancelled.
    pub(super) fn tell_to_end(&self) {
        self.told_to_end.store(true, Ordering::Release);
        if let Some(call) = self.on_end.get() {
            call();
        }
    }

    /// Returns whether the session was ordered to end.
    pub(super) fn is_told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Goal: V1, V2, and each time changes only together with what it describes. Method: one statement that opens a
    /// transaction, and one that fails in it, with a text that is too long and is cut inside a character.
    #[test]
    fn what_is_shown_follows_the_statements() {
        let activity = Activity::new("app");
        assert_eq!(activity.doing().state.words(), "idle");
        activity.begin("BEGIN", 10, None);
        let doing = activity.doing();
        assert_eq!((doing.state, doing.query_start, doing.state_change), (State::Active, Some(10), Some(10)));
        assert_eq!(doing.transaction_start, Some(10));
        activity.end(State::InTransaction, 11, Some(10), "app");
        activity.begin(&"\u{e9}".repeat(QUERY_BYTES_MAX), 20, Some(10));
        activity.end(State::InFailedTransaction, 30, Some(10), "renamed");
        let doing = activity.doing();
        assert_eq!(
            (doing.query.len(), doing.query_start, doing.state_change),
            (QUERY_BYTES_MAX - 2, Some(20), Some(30))
        );
        assert_eq!((doing.transaction_start, &*doing.application), (Some(10), "renamed"));
        assert_eq!(doing.state.words(), "idle in transaction (aborted)");
    }

    /// Goal: no session misses the order to end. Method: give the order before and after the callback is set.
    #[test]
    fn an_order_to_end_reaches_the_session_whenever_it_comes() {
        for told_first in [false, true] {
            let activity = Activity::new("");
            let calls = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&calls);
            if told_first {
                activity.tell_to_end();
            }
            activity.on_end(Box::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            }));
            if !told_first {
                activity.tell_to_end();
            }
            assert!(activity.is_told_to_end());
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        }
    }
}
