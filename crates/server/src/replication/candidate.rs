//! [`Candidate`]: a replica of this process that may be made a primary.
//!
//! ```text
//! who can be reached -> own promise -> promises of the others -> enough? -> following stopped -> promoted in place
//! -> announced until everybody has heard
//! ```
//!
//! # Invariants
//! - C1. Nothing is promised as long as too few nodes can be reached for the promises to be enough.
//! - C2. With a list of replicas by which commits are acknowledged it leads only by a [`Ballot`] that was won; without one, and by
//!   force, at once: what its primary had beyond is lost, and how much at last contact is said.
//! - C3. A promotion that was not won leaves the promises: whoever was asked follows nobody of a lower term until a node leads in
//!   the new one, or a higher.
//! - C4. It goes by who is asked in the newest record that it has received when it has promised: by both lists while the list changes
//!   (A1 of `asked.rs`).
//! - C5. A promotion leaves a list by which commits can be answered, as far as can be seen: where too few of those named can be reached it
//!   is refused, and by force it leaves no list, and says so.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use collie_base::{Set, Term};
use collie_engine::{Db, EngineError, Replica};
use collie_env::{Env, fault_point};
use collie_replica::{
    database::{EngineTarget, following, leading},
    key::KeyFile,
    packet::TermKind,
    primary::{Asked, QuorumList},
    term::{Ballot, Outcome, Standing, Terms, Vote, is_absurd},
};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use super::{
    peers::{Addresses, Peers},
    redundancy::noted,
};
use crate::log_lines;
use crate::training::Training;

/// Between two announcements to nodes that have not heard.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// A node's terms, and what others are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) terms: Arc<Terms>,
    pub(crate) db: Db,
    /// What it follows with, unless it led from the beginning.
    pub(crate) replica: Option<Replica>,
    /// It was promoted by force, where too few nodes can be reached for any commit (C5).
    pub(crate) drops_list: Arc<AtomicBool>,
}

impl Node {
    /// Returns whether it has led and another node does now; if so, nothing commits here any more.
    fn depose(&self) -> bool {
        let promised = self.terms.promised();
        let is_deposed = self.led().is_some_and(|led| promised > led || (promised == led && self.terms.is_anothers()));
        if is_deposed {
            self.db.refuse_commits();
        }
        is_deposed
    }

    /// Returns how far it has come; of a replica, once that is on disk. What is told of one that another has taken the lead from is all
    /// that commits there.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn standing(&self) -> Result<Standing, EngineError> {
        match &self.replica {
            Some(replica) if self.db.is_replica() => following(replica),
            _ => {
                self.depose();
                Ok(leading(&self.db))
            }
        }
    }

    /// Returns the term that it leads in, also if a higher one has begun; `None`: it follows.
    pub(crate) fn led(&self) -> Option<Term> {
        (!self.db.is_replica()).then(|| self.db.histories().0)
    }

    /// Returns whether replicas may follow it.
    pub(crate) fn leads(&self) -> bool {
        self.led().is_some_and(|led| self.terms.promised() <= led) && !self.terms.is_anothers()
    }

    /// Waits until it leads, and a higher term than that has begun; returns that one.
    pub(crate) async fn deposed(&self) -> Term {
        let mut promised = self.terms.watch();
        loop {
            let term = *promised.borrow_and_update();
            if self.depose() {
                return term;
            }
            if promised.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) replica: Replica,
    pub(crate) target: Arc<EngineTarget>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) peers: Peers,
    /// Where it looks for its primary.
    pub(crate) addresses: Arc<Addresses>,
    /// `replication.switchover_timeout`.
    pub(crate) switchover_timeout: Duration,
    /// `replication.quorum`, where the log does not say who is asked for commits.
    pub(crate) configured: Option<QuorumList>,
    /// Whether replicas can follow it once it leads, so that commits wait for those who are asked.
    pub(crate) counts: bool,
    /// Its own name: its slot's.
    pub(crate) name: String,
    /// By which the others know it.
    pub(crate) key: KeyFile,
    pub(crate) env: Env,
    /// Stops following.
    pub(crate) stop: watch::Sender<bool>,
    /// True once nothing follows any more.
    pub(crate) stopped: watch::Receiver<bool>,
    /// The term in which it leads.
    pub(crate) led: OnceLock<Term>,
    /// As [`Node::drops_list`].
    pub(crate) drops_list: Arc<AtomicBool>,
    /// Held by the one who promotes.
    pub(crate) promoting: Mutex<()>,
    /// What says how much is collected.
    pub(crate) training: OnceLock<Arc<Training>>,
}

impl Candidate {
    /// Makes it a primary, whatever became of the one before; returns what was done, in words.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) async fn promote(self: &Arc<Self>, force: bool) -> Result<String, String> {
        let Ok(_one) = self.promoting.try_lock() else { return Err("it is being promoted already".to_owned()) };
        self.may_lead()?;
        let peers = self.reached(force).await?;
        let reached: Vec<String> = peers.0.iter().map(|peer| peer.name.clone()).collect();
        if !force && let Some(unmet) = self.unmet(&reached) {
            let text = "are needed for each commit: start more of them, or use force, after which commits wait for no other node";
            return Err(format!("commits would wait for ever: {unmet} {text}"));
        }
        let term = self.next_term()?;
        let asked = self.win(term, peers, Vec::new(), force).await?;
        let mut more = if asked.asks() { String::new() } else { self.lag() };
        if let Some(unmet) = self.unmet(&reached).filter(|_| force) {
            self.drops_list.store(true, Ordering::Release);
            more += &format!(
                "; commits wait for no other node from here on, since {unmet} would be needed: set replication.quorum once replicas follow"
            );
        }
        self.lead_in(term, &more).await
    }

    /// Returns how many nodes of a list are among `reached`, itself among them.
    fn have(&self, list: &QuorumList, reached: &[String]) -> usize {
        list.members().iter().filter(|name| reached.contains(name) || **name == self.name).count()
    }

    /// Returns, in words, which list could not be met by those that were `reached` and itself; `None`: commits can be answered (C5).
    fn unmet(&self, reached: &[String]) -> Option<String> {
        let asked = self.asked(false).ok().filter(|_| self.counts)?;
        let unmet = asked.lists().find(|list| self.have(list, reached) < list.needed())?;
        let have = self.have(unmet, reached);
        Some(format!("of {unmet} {have} can be reached, this node among them if it is named, and {}", unmet.needed()))
    }

    /// Makes it a primary in `term`, whatever it has promised before and whatever became of the one before; returns what was done, in words.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) async fn promote_in(self: &Arc<Self>, term: Term) -> Result<String, String> {
        let Ok(_one) = self.promoting.try_lock() else { return Err("it is being promoted already".to_owned()) };
        self.may_lead()?;
        let newest = self.replica.histories().0;
        if term <= newest || is_absurd(term, newest) {
            return Err(format!(
                "its log goes up to term {newest}: force a term above that, such as {}",
                newest.get() + 1
            ));
        }
        let forced = tokio::task::block_in_place(|| self.terms.force(term));
        forced.map_err(|error| format!("its promise cannot be kept: {error}"))?;
        let lag = self.lag();
        self.lead_in(term, &format!("{lag}; what this node had promised to others is forgotten")).await
    }

    /// Fails where it cannot lead, whoever would let it.
    pub(super) fn may_lead(&self) -> Result<(), String> {
        if self.led.get().is_some() {
            return Err("it was promoted before".to_owned());
        }
        if self.replica.db().is_none() {
            return Err("its base backup is not complete: it needs more of its primary's log".to_owned());
        }
        match self.replica.failure() {
            Some(error) => Err(format!("it has stopped replaying: {error}")),
            None => Ok(()),
        }
    }

    /// Returns the lowest term that nobody can have led in, as far as this node knows.
    ///
    /// # Errors
    /// It has promised a term that nobody can have led in, and leads in none behind that.
    pub(super) fn next_term(&self) -> Result<Term, String> {
        let (promised, newest) = (self.terms.promised(), self.replica.histories().0);
        if is_absurd(promised, newest) {
            return Err(format!(
                "it has promised term {promised}, and its log goes up to term {newest}: if nobody leads in such a term, collie promote \
                 --force-term {}",
                newest.get() + 1
            ));
        }
        Ok(Term::new(promised.max(newest).get() + 1))
    }

    /// Returns why a node is not asked any more that has answered with a higher term, and notes the term.
    fn answered_higher(&self, name: &str, term: Term) -> String {
        if self.terms.is_absurd(term) {
            return absurd(name, term, self.terms.promised());
        }
        let _higher = tokio::task::block_in_place(|| self.terms.promise(term, 0));
        format!("{name} has promised term {term} to another node: try again")
    }

    /// Returns the peers that can be reached; fails if their promises would not be enough (C1), with `force` never.
    pub(super) async fn reached(&self, force: bool) -> Result<Peers, String> {
        let asked = self.asked(force)?;
        let peers = if self.peers.0.is_empty() {
            Vec::new()
        } else {
            self.peers.reached(&self.name, self.replica.cluster_id(), &self.key).await
        };
        let names: Vec<String> = peers.iter().map(|peer| peer.name.clone()).collect();
        for list in asked.lists() {
            let have = self.have(list, &names);
            let needed = collie_replica::term::needed(list.needed(), list.members().len());
            if have < needed {
                let text = "of the listed replicas can be reached, itself among them, and the promises of";
                return Err(format!("{have} {text} {needed} are needed: start more of them, or use force"));
            }
        }
        Ok(Peers(peers))
    }

    /// Promises `term` to itself and has `peers` promise it; fails if these and `votes` are not enough for those who are asked for commits:
    /// returns whom it went by, nobody with `force`.
    pub(super) async fn win(&self, term: Term, peers: Peers, votes: Vec<Vote>, force: bool) -> Result<Asked, String> {
        let node = self.terms.node();
        let promised = tokio::task::block_in_place(|| {
            let promised = self.terms.promise(term, node)?;
            following(&self.replica).map(|standing| (promised, standing))
        });
        let (true, standing) = promised.map_err(|error| format!("its own promise cannot be kept: {error}"))? else {
            return Err(format!("term {term} was promised to another node meanwhile: try again"));
        };
        let question = self.terms.packet(TermKind::Propose, term, &standing);
        let answers = peers.ask(&self.name, self.replica.cluster_id(), &self.key, &question).await;
        // Once more: what came before the promise counts, and nothing comes after it that anybody was answered for (C4).
        let asked = self.asked(force)?;
        let ballot = |list: &QuorumList| Ballot::new(list.members(), list.needed(), &self.name, standing.reach);
        let mut ballots: Vec<Ballot> = asked.lists().map(ballot).collect();
        votes.into_iter().for_each(|vote| ballots.iter_mut().for_each(|ballot| ballot.promised(vote.clone())));
        for (peer, answer) in answers {
            match answer {
                Ok(answer) if answer.kind == TermKind::Promise && answer.term == term => {
                    let reach = collie_replica::term::Reach { last_term: answer.last_term, durable: answer.durable };
                    ballots.iter_mut().for_each(|ballot| ballot.promised(Vote { name: peer.name.clone(), reach }));
                }
                Ok(answer) if answer.term > term || (answer.kind == TermKind::Refuse && !force) => {
                    return Err(self.answered_higher(&peer.name, answer.term));
                }
                Ok(_) => {}
                Err(error) => {
                    log_lines::warn(&format_args!("{} at {} was not asked: {error}", peer.name, peer.address))
                }
            }
        }
        for ballot in &ballots {
            match ballot.outcome() {
                Outcome::Won => {}
                Outcome::Short { have, needed } => {
                    return Err(format!("{have} nodes have promised, {needed} must: try again, or use force")); // C2
                }
                Outcome::Behind { ahead } => {
                    let Vote { name, reach } = ahead;
                    return Err(format!("{name} has come further, to {}: promote that one", reach.durable));
                }
            }
        }
        Ok(asked)
    }

    /// Follows nobody any more and leads in `term`; returns that in words, with `more` behind them.
    pub(super) async fn lead_in(&self, term: Term, more: &str) -> Result<String, String> {
        // First of all: who leads collects nothing (A1 of `training`).
        self.training.get().iter().for_each(|training| training.stop("it is promoted"));
        fault_point!("promote.won");
        self.stop.send_replace(true);
        let _nobody_follows = self.stopped.clone().wait_for(|stopped| *stopped).await.is_ok();
        // Before the first commit: none is answered as if there were no list (REPL-7).
        let asks = !self.drops_list.load(Ordering::Acquire)
            && self.asked(false).unwrap_or_else(|_| self.configured.clone().into()).asks();
        if let Some(db) = self.replica.db().filter(|_| self.counts) {
            db.count_replicas(asks);
            db.ask_replicas(asks);
        }
        // Before it leads: the count of replicas goes by this (T5 of `terms.rs`).
        self.terms.lead(term);
        let promoted = tokio::task::block_in_place(|| self.replica.promote(term));
        let db = promoted.map_err(|error| format!("the replica has to be started again: {error}"))?;
        _ = self.led.set(term);
        let (_, histories) = db.histories();
        let start = histories.last().map_or(collie_base::Lsn::ZERO, |history| history.start);
        let text = format!("promoted: leads in term {term} from {start} on{more}");
        log_lines::note(&text);
        tokio::spawn(announce(self.terms.clone(), self.peers.clone(), (self.name.clone(), self.key.clone()), db));
        Ok(text)
    }

    /// Returns who was asked for commits by those who led before, as far as this node has received: the lists of the log, or, where it says
    /// nothing, the configured one; nobody with `force`.
    ///
    /// # Errors
    /// The log's lists are of a newer program.
    fn asked(&self, force: bool) -> Result<Asked, String> {
        if force {
            return Ok(Asked::default());
        }
        match tokio::task::block_in_place(|| self.replica.quorum_note()) {
            None => Ok(self.configured.clone().into()),
            Some(note) => noted(&note)
                .map_err(|error| format!("the log says who is asked for commits, which cannot be read: {error}")),
        }
    }

    /// Says how much of its primary's log it may lack (C2).
    fn lag(&self) -> String {
        let Some((durable, heard_ns)) = self.target.last_heard() else {
            return "; nothing was heard of a primary since it was started".to_owned();
        };
        let ms = self.env.clock.now_ns().saturating_sub(heard_ns) / 1_000_000;
        let lacked = durable.bytes_since(self.replica.end().min(durable));
        format!("; at last contact, {ms} ms ago, the old primary had {lacked} bytes more: what it wrote since is lost")
    }
}

/// Says that another node has promised a term that is not to be believed.
pub(super) fn absurd(name: &str, term: Term, promised: Term) -> String {
    format!(
        "{name} has promised term {term}, which is not to be believed behind term {promised}: stop it, and \
         collie promote --force-term {promised} --data DIR there"
    )
}

/// Tells every peer who leads, until each has heard or a higher term has begun.
pub(crate) async fn announce(terms: Arc<Terms>, mut peers: Peers, (name, key): (String, KeyFile), db: Db) {
    let (cluster, standing) = (db.cluster_id(), leading(&db));
    drop(db);
    let term = standing.reach.last_term;
    let mut said = Set::default();
    while !peers.0.is_empty() && terms.promised() == term && !terms.is_anothers() {
        let packet = terms.packet(TermKind::Announce, term, &standing);
        for (peer, answer) in peers.ask(&name, cluster, &key, &packet).await {
            match answer {
                Ok(answer) if answer.kind == TermKind::Promise => peers.0.retain(|other| *other != peer),
                Ok(answer) if terms.is_absurd(answer.term) => {
                    if said.insert(peer.name.clone()) {
                        log_lines::warn(&format_args!("{}", absurd(&peer.name, answer.term, term)));
                    }
                }
                Ok(answer) if answer.term > term => {
                    if let Err(error) = tokio::task::block_in_place(|| terms.promise(answer.term, 0)) {
                        log_lines::warn(&format_args!(
                            "term {} has begun, which cannot be noted: {error}",
                            answer.term
                        ));
                    }
                }
                // One that leads in this term too yields, or is yielded to.
                Ok(_) | Err(_) => {}
            }
        }
        sleep(ANNOUNCE_EVERY).await;
    }
}
