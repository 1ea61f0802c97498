//! [`Succession`]: a replica that wants to be handed the lead, beside the stream on which it asks.
//!
//! # Invariants
//! - S1. A question goes out once, on the stream that there is then or on the next one; what comes back counts for the newest question
//!   alone.

use std::time::Duration;

use collie_base::Lsn;
use tokio::sync::watch;

/// How a question stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody wants anything.
    #[default]
    Quiet,
    /// To be asked, with how long the primary is to wait.
    Wanted(Duration),
    /// It was asked.
    Asked,
    /// The primary appends nothing above.
    Offered(Lsn),
    /// The primary goes on, or the stream has ended.
    Refused(String),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Succession(watch::Sender<State>);

impl Succession {
    /// Asks the primary to hand over, which is to wait as long as `wait` for its transactions, and then for this node. Waits until it
    /// appends nothing more; returns where its log ends.
    ///
    /// # Errors
    /// Why it goes on as primary, in its words.
    ///
    /// # Cancel safety
    /// Dropping the future takes nothing back: call [`Succession::forget`].
    pub async fn ask(&self, wait: Duration) -> Result<Lsn, String> {
        self.0.send_replace(State::Wanted(wait));
        let mut watch = self.0.subscribe();
        let answered = watch.wait_for(|state| matches!(state, State::Offered(_) | State::Refused(_))).await;
        match answered.map(|state| state.clone()) {
            Ok(State::Offered(last)) => Ok(last),
            Ok(State::Refused(why)) => Err(why),
            Ok(_) | Err(_) => Err("nobody follows any more".to_owned()),
        }
    }

    /// Returns why the primary went on behind its offer, if it did.
    pub fn refusal(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::Refused(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Wants nothing any more.
    pub fn forget(&self) {
        self.0.send_replace(State::Quiet);
    }

    /// Waits until there is something to ask; returns how long the primary is to wait.
    ///
    /// # Cancel safety
    /// Dropping the future loses no question.
    pub(super) async fn wanted(&self) -> Duration {
        let mut watch = self.0.subscribe();
        let found = watch.wait_for(|state| matches!(state, State::Wanted(_))).await;
        match found.map(|state| state.clone()) {
            Ok(State::Wanted(wait)) => {
                self.turn(|state| matches!(state, State::Wanted(_)), State::Asked);
                wait
            }
            _ => std::future::pending().await,
        }
    }

    /// The primary appends nothing above `last`. Returns whether that was asked for (S1).
    pub(super) fn offered(&self, last: Lsn) -> bool {
        self.turn(|state| *state == State::Asked, State::Offered(last))
    }

    /// The stream has ended on which it was asked. Behind an offer that says nothing: whoever hands over closes too.
    pub(super) fn lost(&self, why: &str) {
        self.turn(|state| *state == State::Asked, State::Refused(why.to_owned()));
    }

    /// The primary goes on.
    pub(super) fn refused(&self, why: &str) -> bool {
        self.turn(|state| matches!(state, State::Asked | State::Offered(_)), State::Refused(why.to_owned()))
    }

    fn turn(&self, from: impl FnOnce(&State) -> bool, to: State) -> bool {
        self.0.send_if_modified(|state| {
            let turns = from(state);
            if turns {
                *state = to;
            }
            turns
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Goal: a question is asked once, and answered by an offer, which the primary may take back, or a refusal; an answer to nobody's
    /// question counts for nothing (S1). Method: each by hand.
    #[tokio::test]
    async fn a_question_is_asked_once_and_answered() {
        let succession = Arc::new(Succession::default());
        assert!(!succession.offered(Lsn::new(1)) && !succession.refused("nobody asked"));
        let asking = |wait_ms| {
            let succession = succession.clone();
            tokio::spawn(async move { succession.ask(Duration::from_millis(wait_ms)).await })
        };
        let asked = asking(5);
        assert_eq!(succession.wanted().await, Duration::from_millis(5));
        assert!(succession.offered(Lsn::new(9000)) && !succession.offered(Lsn::new(9001)));
        assert_eq!(asked.await.unwrap(), Ok(Lsn::new(9000)));
        succession.lost("closed behind an offer");
        assert_eq!(succession.refusal(), None);
        assert!(succession.refused("late"));
        assert_eq!(succession.refusal().as_deref(), Some("late"));
        let asked = asking(6);
        assert_eq!(succession.wanted().await, Duration::from_millis(6));
        succession.lost("closed before an answer");
        assert!(!succession.refused("no"));
        assert_eq!(asked.await.unwrap(), Err("closed before an answer".to_owned()));
        succession.forget();
        assert_eq!(succession.refusal(), None);
    }
}
