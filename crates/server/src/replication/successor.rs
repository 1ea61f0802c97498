//! A replica that takes over from a running primary, which hands over to it: nothing is lost at any level.
//!
//! ```text
//! enough reached? -> asked on the stream -> primary at rest, all of its log here -> the primary's promise -> as any promotion
//! ```
//!
//! # Invariants
//! - U1. The primary's promise comes before this node's own, and before any other node is asked: until it is given, the
//!   primary may go on, and no node has promised anything that would keep a replica from following it.
//! - U2. The primary promises only while it appends nothing and this node has reported that it has all of its log (W1
//!   of `handover.rs`).

use std::{sync::Arc, time::Duration};

use collie_base::Term;
use collie_replica::{
    database::following,
    packet::TermKind,
    standby::{Succession, Target as _},
    term::{Reach, Vote},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    candidate::{Candidate, absurd},
    handing_over::CANCEL_TIME,
    peers::ANSWER_TIME,
};
use crate::config::{Peer, Peers};

/// The time between two requests for the lead.
const ASK_EVERY: Duration = Duration::from_millis(10);

impl Candidate {
    /// Asks the primary that it follows to hand over. Transactions there get the time `wait` to end, and this node the
    /// same time to take over (`None`: `replication.switchover_timeout`). Returns a report.
    ///
    /// # Errors
    /// The reason why not. The primary goes on as one, unless the text says that it has handed over.
    pub(crate) async fn switch_over(self: &Arc<Self>, wait: Option<Duration>) -> Result<String, String> {
        let Ok(_one) = self.promoting.try_lock() else { return Err("it is being promoted already".to_owned()) };
        self.may_lead()?;
        if !self.counts {
            let text =
                "it takes no replicas, so that the old primary could not follow it: start it with --replica-listen";
            return Err(text.to_owned());
        }
        let Some(succession) = self.target.succession() else { return Err("it follows no primary".to_owned()) };
        let primary = self.addresses.first().to_owned();
        // Without enough peers the primary is not disturbed.
        let peers = self.reached(false).await?;
        let wait = wait.unwrap_or(self.switchover_timeout);
        let asked = timeout(wait + CANCEL_TIME + ANSWER_TIME, succession.ask(wait)).await;
        let asked = asked.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        // U1: the primary's promise comes first.
        let promised = match asked {
            Ok(_last) => self.ask_to_succeed(&primary, succession, wait).await,
            Err(why) => Err(format!("the primary at {primary} goes on as one: {why}")),
        };
        succession.forget();
        let (term, reach) = promised?;
        // That promise is a vote too; the primary is not asked again. Its id plays no part (`Candidate::win`).
        let name = peers.0.iter().find(|peer| peer.address == primary).map(|peer| peer.name.clone());
        let votes = name.map(|name| Vote { name, node: 0, reach }).into_iter().collect();
        let others = Peers(peers.0.into_iter().filter(|peer| peer.address != primary).collect());
        let handed_over =
            |why: String| format!("the primary at {primary} has handed over, and this node does not lead: {why}");
        self.win(term, others, votes, false).await.map_err(handed_over)?;
        self.lead_in(term, &format!("; the primary at {primary} has handed over, nothing is lost"))
            .await
            .map_err(handed_over)
    }

    /// Asks the primary, which has offered the lead, to promise the next term; returns the term, and how far the
    /// primary had come.
    async fn ask_to_succeed(
        &self,
        primary: &str,
        succession: &Succession,
        wait: Duration,
    ) -> Result<(Term, Reach), String> {
        let mut term = self.next_term()?;
        let asked = Peers(vec![Peer::new("the primary", primary)]);
        let until = Instant::now() + wait + ANSWER_TIME;
        let mut is_silent = false;
        loop {
            if let Some(why) = succession.refusal() {
                return Err(format!("the primary at {primary} goes on as one: {why}"));
            }
            // U2: each request carries the position that is durable here.
            let standing = tokio::task::block_in_place(|| following(&self.replica));
            let standing = standing.map_err(|error| format!("its log cannot be flushed: {error}"))?;
            let question = self.terms.packet(TermKind::Succeed, term, &standing);
            let answers = asked.ask(&self.name, self.replica.cluster_id(), &self.key, &question).await;
            for (_, answer) in answers {
                match answer {
                    Ok(answer) if answer.kind == TermKind::Promise && answer.term == term => {
                        return Ok((term, Reach { last_term: answer.last_term, durable: answer.durable }));
                    }
                    Ok(answer) if self.terms.is_absurd(answer.term) => {
                        return Err(absurd("the primary", answer.term, self.terms.promised()));
                    }
                    Ok(answer) => {
                        is_silent = false;
                        // The node has promised a higher term already: the next request is for one above it.
                        term = term.max(Term::new(answer.term.get() + 1));
                    }
                    Err(_) => is_silent = true,
                }
            }
            if Instant::now() >= until {
                let text = match is_silent {
                    true => "does not answer: if it is no longer the primary, promote this node without --switchover",
                    false => "goes on as one: this node did not take over in time",
                };
                return Err(format!("the primary at {primary} {text}"));
            }
            sleep(ASK_EVERY).await;
        }
    }
}
