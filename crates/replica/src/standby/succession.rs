//! [`Succession`]: the request of a replica that wants the lead, shared with the stream on which it asks.
//!
//! # Invariants
//! - S1. A request is sent once, on the present stream or on the next one; an answer applies only to the newest
//!   request.

use std::time::Duration;

use collie_base::Lsn;
use tokio::sync::watch;

/// The state of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// There is no request.
    #[default]
    Quiet,
    /// To be sent, with the time that the primary is to wait.
    Wanted(Duration),
    /// It was sent.
    QuorumConfig,
    /// The primary appends nothing above this position.
    Offered(Lsn),
    /// The primary keeps the lead, or the stream has ended.
    Refused(String),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Succession(watch::Sender<State>);

impl Succession {
    /// Asks the primary for a switchover, in which it waits up to `wait` for its transactions, and then for this
    /// node. Waits until the primary appends nothing more; returns the end of its log.
    ///
    /// # Errors
    /// Why it keeps the lead, in its words.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws nothing: call [`Succession::forget`].
    pub async fn ask(&self, wait: Duration) -> Result<Lsn, String> {
        self.0.send_replace(State::Wanted(wait));
        let mut watch = self.0.subscribe();
        let answered = watch.wait_for(|state| matches!(state, State::Offered(_) | State::Refused(_))).await;
        match answered.map(|state| state.clone()) {
            Ok(State::Offered(last)) => Ok(last),
            Ok(State::Refused(why)) => Err(why),
            Ok(_) | Err(_) => Err("this node no longer follows a primary".to_owned()),
        }
    }

    /// Returns why the primary kept the lead after its offer, if it did.
    pub fn refusal(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::Refused(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Withdraws the request.
    pub fn forget(&self) {
        self.0.send_replace(State::Quiet);
    }

    /// Waits until there is a request to send; returns how long the primary is to wait.
    ///
    /// # Cancel safety
    /// Dropping the future loses no request.
    pub(super) async fn wanted(&self) -> Duration {
        let mut watch = self.0.subscribe();
        let found = watch.wait_for(|state| matches!(state, State::Wanted(_))).await;
        match found.map(|state| state.clone()) {
            Ok(State::Wanted(wait)) => {
                self.turn(|state| matches!(state, State::Wanted(_)), State::QuorumConfig);
                wait
            }
            _ => std::future::pending().await,
        }
    }

    /// Records that the primary appends nothing above `last`. Returns whether that was requested (S1).
    pub(super) fn offered(&self, last: Lsn) -> bool {
        self.turn(|state| *state == State::QuorumConfig, State::Offered(last))
    }

    /// Records that the stream has ended on which the request was sent. After an offer this means nothing: a
    /// primary that transfers the lead closes the stream too.
    pub(super) fn lost(&self, why: &str) {
        self.turn(|state| *state == State::QuorumConfig, State::Refused(why.to_owned()));
    }

    /// Records that the primary keeps the lead.
    pub(super) fn refused(&self, why: &str) -> bool {
        self.turn(|state| matches!(state, State::QuorumConfig | State::Offered(_)), State::Refused(why.to_owned()))
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

    /// Goal: a request is sent once, and answered by an offer, which the primary may withdraw, or a refusal; an
    /// answer without a request has no effect (S1). Method: each case explicitly.
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
