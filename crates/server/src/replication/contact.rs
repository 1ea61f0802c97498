//! [`Contact`]: whether a replica follows its primary now, and since when; [`ShownNode`]: the data of views about that,
//! and about the terms of the node.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use collie_engine::Db;
use collie_env::Env;
use collie_replica::{
    standby::{Ended, Told},
    term::Terms,
};
use collie_sql::{
    catalog::system::{FollowingRow, FollowingState, ReadsRow},
    session::NodeState,
};
use parking_lot::Mutex;

use super::{candidate::Candidate, follow::reason, lead_check::LeadCheck, peers::Addresses};
use crate::reads::ReadRunner;

#[derive(Debug)]
struct Inner {
    state: FollowingState,
    since_ns: u64,
    why: Option<String>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Contact {
    env: Env,
    inner: Mutex<Inner>,
}

impl Contact {
    /// Makes the contact of a replica that looks for a primary.
    pub(super) fn new(env: &Env) -> Self {
        let since_ns = env.clock.now_ns();
        Self { env: env.clone(), inner: Mutex::new(Inner { state: FollowingState::Looking, since_ns, why: None }) }
    }

    /// Records a change.
    pub(super) fn told(&self, told: &Told) {
        match told {
            Told::Following { .. } => self.turn(FollowingState::Following, None),
            Told::Lost { why, .. } => self.turn(FollowingState::Looking, Some(why.clone())),
            _ => {}
        }
    }

    /// Records that following has ended.
    pub(super) fn ended(&self, ended: &Ended) {
        self.turn(FollowingState::Stopped, Some(reason(ended)));
    }

    fn turn(&self, state: FollowingState, why: Option<String>) {
        let mut inner = self.inner.lock();
        if inner.state != state {
            (inner.state, inner.since_ns) = (state, self.env.clock.now_ns());
        }
        inner.why = why;
    }
}

/// The parts with which a replica follows.
pub(super) struct Follows {
    pub(super) db: Db,
    pub(super) candidate: Arc<Candidate>,
    pub(super) addresses: Arc<Addresses>,
    pub(super) contact: Arc<Contact>,
    pub(super) slot: String,
    pub(super) reads: Arc<ReadRunner>,
}

/// See the module's documentation.
pub(crate) struct ShownNode {
    pub(super) terms: Arc<Terms>,
    pub(super) lead: Arc<LeadCheck>,
    /// `None` if the node led from the beginning.
    pub(super) follows: Option<Follows>,
    pub(super) delay_max: Option<Duration>,
}

impl ShownNode {
    /// Makes the data of a node that leads.
    pub(crate) fn leading(terms: Arc<Terms>, lead: Arc<LeadCheck>) -> Self {
        Self { terms, lead, follows: None, delay_max: None }
    }
}

/// How long a delay is shown after the primary has reported it.
const DELAY_SHOWN_NS: u64 = 10_000_000_000;

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

impl NodeState for ShownNode {
    fn promised(&self) -> u64 {
        self.terms.promised().get()
    }

    fn following(&self) -> Option<FollowingRow> {
        let Follows { db, candidate, addresses, contact, slot, .. } = self.follows.as_ref()?;
        let received = db.received()?; // after a promotion it follows no primary
        let now_ns = contact.env.clock.now_ns();
        let (heard, delay) = (candidate.target.last_heard(), candidate.target.last_delay());
        let is_recent = |heard_ns: u64| now_ns.saturating_sub(heard_ns) < DELAY_SHOWN_NS;
        let failure = candidate.replica.failure();
        let inner = contact.inner.lock();
        Some(FollowingRow {
            address: addresses.first().to_owned(),
            slot: slot.clone(),
            state: if failure.is_some() { FollowingState::Stopped } else { inner.state },
            state_ms: ms(now_ns.saturating_sub(inner.since_ns)),
            unheard_ms: heard.map(|(_, heard_ns)| ms(now_ns.saturating_sub(heard_ns))),
            primary_durable: heard.map(|(durable, _)| durable),
            received,
            applied: db.shown(),
            delay_us: delay.filter(|(_, heard_ns)| is_recent(*heard_ns)).map(|(delay, _)| delay.mean_ns / 1000),
            oldest_us: candidate.target.last_owed_ns().map(|ns| ns / 1000),
            error: failure.map_or_else(|| inner.why.clone(), |error| Some(error.to_string())),
        })
    }

    fn delay_max(&self) -> Option<Duration> {
        self.delay_max
    }

    fn still_leads(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(self.lead.still_leads())
    }

    fn reads(&self) -> Option<ReadsRow> {
        self.follows.as_ref().map(|follows| follows.reads.row())
    }
}

#[cfg(test)]
mod tests {
    use collie_base::Lsn;
    use collie_env::SimClock;

    use super::*;

    /// Goal: the time since when a primary is lost is that of the loss, regardless of later attempts; the reason is
    /// that of the last attempt. Method: a connection, and attempts that fail, by a clock that a test moves.
    #[test]
    fn contact_is_lost_once() {
        let clock = Arc::new(SimClock::new());
        let env = Env { clock: clock.clone(), ..Env::simulated(1).0 };
        let contact = Contact::new(&env);
        let lost = |why: &str| Told::Lost { why: why.to_owned(), wait: Duration::ZERO };
        let stands = || {
            let inner = contact.inner.lock();
            (inner.state, env.clock.now_ns() - inner.since_ns, inner.why.clone())
        };
        let said = |why: &str| Some(why.to_owned());
        contact.told(&lost("nobody is there"));
        assert_eq!(stands(), (FollowingState::Looking, 0, said("nobody is there")));
        clock.advance_ns(5);
        contact.told(&Told::Following { from: Lsn::ZERO, node: 7 });
        assert_eq!(stands(), (FollowingState::Following, 0, None));
        clock.advance_ns(5);
        contact.told(&lost("the connection was closed"));
        clock.advance_ns(5);
        contact.told(&lost("nobody is there"));
        assert_eq!(stands(), (FollowingState::Looking, 5, said("nobody is there")));
        contact.ended(&Ended::Rebuild);
        assert_eq!(stands().0, FollowingState::Stopped);
        assert!(stands().2.is_some_and(|why| why.contains("up to date")));
    }
}
