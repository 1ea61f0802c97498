//! [`Handing`]: the handover of a primary that serves, beside its connections, who asks to lead, and who lets its writers end.
//!
//! # Invariants
//! - Z1. Every step is taken under one lock, which whoever waits for a change looks under too: giving the lead away and going on as a
//!   primary exclude each other (W2 of `handover.rs`).

use std::time::Duration;

use collie_base::Lsn;
use tokio::sync::watch;

use super::Sent;
use crate::term::{Handover, Phase};

/// A question to be handed the lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverAsked {
    /// The replica's slot.
    pub slot: String,
    /// How long open transactions are given to end, and then the replica to take over.
    pub wait: Duration,
}

/// What everybody sees.
#[derive(Clone, Debug, Default)]
struct State {
    handover: Handover,
    asked: Option<HandoverAsked>,
    /// Whom the primary has refused last, and why.
    refused: Option<(u64, String)>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Handing {
    state: watch::Sender<State>,
    /// Why this primary hands over to nobody, if so.
    cannot: Option<String>,
}

/// What a connection has to tell its replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing is appended above.
    Offered(Lsn),
    /// The primary goes on.
    Refused(String),
}

impl Handing {
    /// Of a primary that may hand over, unless it `cannot`.
    pub fn new(cannot: Option<String>) -> Self {
        Self { state: watch::Sender::default(), cannot }
    }

    fn step<R>(&self, step: impl FnOnce(&mut State) -> (bool, R)) -> R {
        let mut result = None;
        self.state.send_if_modified(|state| {
            let (modified, stepped) = step(state);
            result = Some(stepped);
            modified
        });
        result.expect("the closure is called once")
    }

    /// `node` asks, at `now_ns`, to be handed the lead.
    pub fn ask(&self, node: u64, asked: HandoverAsked, now_ns: u64) {
        let until_ns = after(now_ns, asked.wait);
        self.step(|state| {
            if let Some(why) = &self.cannot {
                state.refused = Some((node, why.clone()));
            } else if state.handover.ask(node, until_ns) {
                (state.asked, state.refused) = (Some(asked), None);
            } else {
                state.refused = Some((node, "it hands over already, or has".to_owned()));
            }
            (true, ())
        });
    }

    /// Waits until somebody has asked; returns what.
    pub async fn asked(&self) -> HandoverAsked {
        let mut watch = self.state.subscribe();
        let found = watch.wait_for(|state| state.handover.phase() == Phase::Ending).await;
        match found.ok().and_then(|state| state.asked.clone()) {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }

    /// Waits until the handover is not in one of the phases any more in which the primary waits for its successor; returns the phase.
    pub async fn settled(&self) -> Phase {
        let mut watch = self.state.subscribe();
        let settled = |state: &State| matches!(state.handover.phase(), Phase::Idle | Phase::Given);
        // What it guards is not kept over another wait.
        let phase = watch.wait_for(settled).await.map(|state| state.handover.phase());
        match phase {
            Ok(phase) => phase,
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns how far it has come.
    pub fn phase(&self) -> Phase {
        self.state.borrow().handover.phase()
    }

    /// Nothing is appended above `last` any more; who asked has as long as `wait` to take over. Returns whether it is still wanted.
    pub fn offer(&self, last: Lsn, wait: Duration, now_ns: u64) -> bool {
        self.step(|state| {
            let is_wanted = state.handover.offer(last, after(now_ns, wait));
            (is_wanted, is_wanted)
        })
    }

    /// A node has come so far.
    pub(super) fn reached(&self, node: u64, at: Sent) {
        self.step(|state| (state.handover.reached(node, at), ()));
    }

    /// `node` asks to lead. Returns whether it may: then this node never writes again.
    pub fn succeed(&self, node: u64, now_ns: u64) -> bool {
        self.step(|state| {
            let may = state.handover.succeed(node, now_ns);
            (may, may)
        })
    }

    /// The primary goes on; who asked is told `why`. Returns whether it may: not if the lead is given.
    pub fn give_up(&self, why: &str) -> bool {
        self.step(|state| {
            let node = state.handover.node();
            let may = state.handover.give_up();
            if may {
                state.refused = node.map(|node| (node, why.to_owned()));
            }
            (may, may)
        })
    }

    /// The primary goes on if the time of the phase is over; returns whether it does.
    pub fn give_up_late(&self, now_ns: u64) -> bool {
        let is_late = self.state.borrow().handover.is_late(now_ns);
        is_late && self.give_up("it did not take over in time")
    }

    /// The connection of `node` has ended.
    pub(super) fn gone(&self, node: u64) {
        self.step(|state| (state.handover.gone(node), ()));
    }

    /// Returns what tells of changes.
    pub(super) fn watch(&self) -> HandingWatch {
        HandingWatch(self.state.subscribe())
    }
}

fn after(now_ns: u64, wait: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}

/// What one connection sees of it.
#[derive(Debug)]
pub(super) struct HandingWatch(watch::Receiver<State>);

impl HandingWatch {
    /// Waits for a change after which there is something to tell `node`; returns what.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing but what is not news any more.
    pub(super) async fn news(&mut self, node: u64) -> News {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let state = self.0.borrow_and_update();
            if state.handover.node() == Some(node) {
                match state.handover.phase() {
                    // One that had everything by then may have taken it before this looks, and waits for the offer all the same.
                    Phase::Offered { last } | Phase::Taken { last } => return News::Offered(last),
                    // The phases before and behind are nobody's news.
                    Phase::Idle | Phase::Ending | Phase::Given => continue,
                }
            }
            if let Some((refused, why)) = &state.refused
                && *refused == node
            {
                return News::Refused(why.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Goal: each side hears what is its: who asked of the offer or of the refusal, the primary that it was asked and how it ended. Method:
    /// a handover that is late, one that is given, and one that cannot be, at a clock by hand.
    #[tokio::test]
    async fn everybody_hears_what_is_theirs() {
        let patience = Duration::from_secs(30);
        let (wait, positions) = (Duration::from_nanos(10), |at| {
            let at = Lsn::new(at);
            Sent { sent: at, received: at, durable: at, applied: at }
        });
        let asked = HandoverAsked { slot: "b".to_owned(), wait };
        let handing = Handing::new(None);
        let mut watch = handing.watch();
        handing.ask(7, asked.clone(), 100);
        assert_eq!(timeout(patience, handing.asked()).await, Ok(asked.clone()));
        assert!(!handing.give_up_late(109) && handing.offer(Lsn::new(5000), wait, 109));
        assert_eq!(timeout(patience, watch.news(7)).await, Ok(News::Offered(Lsn::new(5000))));
        handing.reached(7, positions(4999));
        assert!(!handing.succeed(7, 110), "it has not everything");
        assert!(!handing.give_up_late(118) && handing.give_up_late(119));
        assert!(matches!(timeout(patience, watch.news(7)).await, Ok(News::Refused(_))));
        assert_eq!(timeout(patience, handing.settled()).await, Ok(Phase::Idle));

        handing.ask(7, asked.clone(), 200);
        handing.ask(8, asked.clone(), 200);
        assert!(matches!(timeout(patience, handing.watch_from_now(8)).await, Ok(News::Refused(_))));
        assert!(handing.offer(Lsn::new(6000), wait, 200));
        handing.reached(7, positions(6000));
        assert_eq!(handing.phase(), Phase::Taken { last: Lsn::new(6000) });
        let late = timeout(patience, handing.watch_from_now(7)).await;
        assert_eq!(late, Ok(News::Offered(Lsn::new(6000))), "it has everything, and was not told yet");
        handing.gone(7);
        assert!(!handing.succeed(8, 201) && handing.succeed(7, 201) && !handing.give_up("too late"));
        assert_eq!(timeout(patience, handing.settled()).await, Ok(Phase::Given));

        let handing = Handing::new(Some("it knows no other node".to_owned()));
        let mut watch = handing.watch();
        handing.ask(7, asked, 1);
        assert_eq!(timeout(patience, watch.news(7)).await, Ok(News::Refused("it knows no other node".to_owned())));
        assert_eq!(handing.phase(), Phase::Idle);
    }

    impl Handing {
        /// What a connection of `node` would have heard last.
        async fn watch_from_now(&self, node: u64) -> News {
            let mut watch = self.watch();
            watch.0.mark_changed();
            watch.news(node).await
        }
    }
}
