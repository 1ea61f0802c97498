//! [`Switchover`]: the switchover of a serving primary, shared by its connections, the node that asks to lead, and
//! the task that lets its writers end.
//!
//! # Invariants
//! - Z1. Every step is taken under one lock, and a task that waits for a change reads the state under it too:
//!   transferring the lead and continuing as a primary exclude each other (W2 of `handover.rs`).

use std::time::Duration;

use collie_base::Lsn;
use tokio::sync::watch;

use super::Sent;
use super::handover::{Handover, Phase};

/// A request for the lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverAsked {
    /// The slot of the replica.
    pub slot: String,
    /// The time for open transactions to end, and then for the replica to take over.
    pub wait: Duration,
}

/// The state that all parties see.
#[derive(Clone, Debug, Default)]
struct State {
    handover: Handover,
    asked: Option<HandoverAsked>,
    /// The node that the primary refused last, and why.
    refused: Option<(u64, String)>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Switchover {
    state: watch::Sender<State>,
    /// Why this primary performs no switchover, if so.
    cannot: Option<String>,
}

/// A message that a connection has to send to its replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The log ends here, and nothing is appended any more.
    Offered(Lsn),
    /// The primary keeps the lead.
    Refused(String),
}

impl Switchover {
    /// Creates the switchover state of a primary that may transfer the lead, unless it `cannot`.
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

    /// Records that `node` asks for the lead at `now_ns`.
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

    /// Waits until a node has asked; returns the request.
    pub async fn asked(&self) -> HandoverAsked {
        let mut watch = self.state.subscribe();
        let found = watch.wait_for(|state| state.handover.phase() == Phase::Ending).await;
        match found.ok().and_then(|state| state.asked.clone()) {
            Some(asked) => asked,
            None => std::future::pending().await,
        }
    }

    /// Waits until the primary does not wait for a successor, or no longer does; returns the phase.
    pub async fn settled(&self) -> Phase {
        let mut watch = self.state.subscribe();
        let settled = |state: &State| matches!(state.handover.phase(), Phase::Idle | Phase::Given);
        // The guard that `wait_for` returns is not kept across another await.
        let phase = watch.wait_for(settled).await.map(|state| state.handover.phase());
        match phase {
            Ok(phase) => phase,
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        self.state.borrow().handover.phase()
    }

    /// Offers the lead: nothing is appended above `last` any more, and the asking node has `wait` to take over.
    /// Returns whether the lead is still wanted.
    pub fn offer(&self, last: Lsn, wait: Duration, now_ns: u64) -> bool {
        self.step(|state| {
            let is_wanted = state.handover.offer(last, after(now_ns, wait));
            (is_wanted, is_wanted)
        })
    }

    /// Records the positions of a node.
    pub(super) fn reached(&self, node: u64, at: Sent) {
        self.step(|state| (state.handover.reached(node, at), ()));
    }

    /// Answers `node`, which asks to lead. Returns whether it may: then this node never writes again.
    pub fn succeed(&self, node: u64, now_ns: u64) -> bool {
        self.step(|state| {
            let may = state.handover.succeed(node, now_ns);
            (may, may)
        })
    }

    /// Lets the primary keep the lead, and reports `why` to the asking node. Returns whether it may: not if the
    /// lead is given.
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

    /// Lets the primary keep the lead if the time of the phase is over; returns whether it does.
    pub fn give_up_late(&self, now_ns: u64) -> bool {
        let is_late = self.state.borrow().handover.is_late(now_ns);
        is_late && self.give_up("it did not take over in time")
    }

    /// Records the end of the connection of `node`.
    pub(super) fn gone(&self, node: u64) {
        self.step(|state| (state.handover.gone(node), ()));
    }

    /// Returns a receiver of changes.
    pub(super) fn watch(&self) -> HandingWatch {
        HandingWatch(self.state.subscribe())
    }
}

fn after(now_ns: u64, wait: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
}

/// The view of one connection.
#[derive(Debug)]
pub(super) struct HandingWatch(watch::Receiver<State>);

impl HandingWatch {
    /// Waits for a change that has to be reported to `node`; returns the message.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing but outdated news.
    pub(super) async fn news(&mut self, node: u64) -> News {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let state = self.0.borrow_and_update();
            if state.handover.node() == Some(node) {
                match state.handover.phase() {
                    // A node that had everything by then may have entered `Taken` before this look; it waits for
                    // the offer all the same.
                    Phase::Offered { last } | Phase::Taken { last } => return News::Offered(last),
                    // No connection reports the phases before and after.
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

    /// Goal: each side gets its messages: the asking node the offer or the refusal, the primary the request and
    /// its end. Method: a switchover that is late, one that is completed, and one that is impossible, with a
    /// manual clock.
    #[tokio::test]
    async fn everybody_hears_what_is_theirs() {
        let patience = Duration::from_secs(30);
        let (wait, positions) = (Duration::from_nanos(10), |at| {
            let at = Lsn::new(at);
            Sent { sent: at, received: at, durable: at, applied: at }
        });
        let asked = HandoverAsked { slot: "b".to_owned(), wait };
        let handing = Switchover::new(None);
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

        let handing = Switchover::new(Some("it knows no other node".to_owned()));
        let mut watch = handing.watch();
        handing.ask(7, asked, 1);
        assert_eq!(timeout(patience, watch.news(7)).await, Ok(News::Refused("it knows no other node".to_owned())));
        assert_eq!(handing.phase(), Phase::Idle);
    }

    impl Switchover {
        /// Returns the last message that a connection of `node` would have got.
        async fn watch_from_now(&self, node: u64) -> News {
            let mut watch = self.watch();
            watch.0.mark_changed();
            watch.news(node).await
        }
    }
}
