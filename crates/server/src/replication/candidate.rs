//! [`Candidate`]: a replica of this process that may become a primary.
//!
//! ```text
//! who can be reached -> own promise -> promises of the others -> enough? -> following stopped -> promoted in place
//! -> announced until everybody has heard
//! ```
//!
//! # Invariants
//! - C1. Nothing is promised as long as too few nodes can be reached for the promises to be enough: if the witness says
//!   that a leader acknowledges commits alone, enough without the witness (B4 of `ballot.rs`).
//! - C2. With a list of replicas that acknowledge commits, it leads only after winning a [`Ballot`]; without a list,
//!   and by force, it leads at once: what its primary had beyond is lost, and the reply gives the amount at last
//!   contact.
//! - C3. The promises of a promotion that was not won stay: a node that promised follows no node of a lower term until
//!   a node leads in the new term, or a higher one.
//! - C4. It uses the quorum configuration of the newest record that it has received by the time of its promise: both
//!   lists while the list changes (A1 of `quorum_config.rs`).
//! - C5. After a promotion, commits can be answered by the list in force, as far as the candidate can tell: if too few
//!   of the named nodes can be reached, the promotion is refused; by force it drops the list, and the reply says so.
//!   If a witness can be reached, commits can be answered with its leave (`witness_link.rs`), unless the node never
//!   degrades.

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
    primary::{QuorumConfig, QuorumList},
    term::{Ballot, Outcome, Standing, Terms, Vote, is_absurd, needed, needed_with_witness},
};
use tokio::{
    sync::{Mutex, watch},
    time::sleep,
};

use super::{peers::Addresses, redundancy::noted};
use crate::config::{Peer, Peers};
use crate::log_lines;
use crate::training::Training;

/// The time between two announcements to nodes that have not acknowledged them.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(1);

/// A node's terms, and what other nodes learn about it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) terms: Arc<Terms>,
    pub(crate) db: Db,
    /// The replica with which it follows, unless it led from the beginning.
    pub(crate) replica: Option<Replica>,
    /// It was promoted by force when too few nodes could be reached for any commit (C5).
    pub(crate) drops_list: Arc<AtomicBool>,
}

impl Node {
    /// Returns whether the node has led and another one leads now; if so, no more commits are possible here.
    fn depose(&self) -> bool {
        let promised = self.terms.promised();
        let is_deposed = self.led().is_some_and(|led| promised > led || (promised == led && self.terms.is_anothers()));
        if is_deposed {
            self.db.refuse_commits();
        }
        is_deposed
    }

    /// Returns how far the node has come; for a replica, once that is on disk. A node that another one has replaced as
    /// leader refuses commits first, so its answer covers every commit that it makes.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn standing(&self) -> Result<Standing, EngineError> {
        match &self.replica {
            Some(replica) if self.db.is_replica() => following(replica),
            _ => {
                self.depose();
                Ok(leading(&self.db))
            }
        }
    }

    /// Returns the term in which the node leads, even if a higher one has begun; `None` if it follows.
    pub(crate) fn led(&self) -> Option<Term> {
        (!self.db.is_replica()).then(|| self.db.histories().0)
    }

    /// Returns whether replicas may follow the node.
    pub(crate) fn leads(&self) -> bool {
        self.led().is_some_and(|led| self.terms.promised() <= led) && !self.terms.is_anothers()
    }

    /// Waits until the node has led and another one has taken over, in a higher term or in the same one; returns that
    /// term.
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
    /// The addresses at which it looks for its primary.
    pub(crate) addresses: Arc<Addresses>,
    /// `replication.switchover_timeout`.
    pub(crate) switchover_timeout: Duration,
    /// `replication.quorum`, used if the log has no quorum configuration.
    pub(crate) configured: Option<QuorumList>,
    /// Whether replicas can follow the node once it leads, so that commits wait for the quorum.
    pub(crate) counts: bool,
    /// Whether the node, once it leads, may do without its quorum (`replication.degrade`).
    pub(crate) degrades: bool,
    /// Its own name: that of its slot.
    pub(crate) name: String,
    /// The key by which the other nodes recognize it.
    pub(crate) key: KeyFile,
    pub(crate) env: Env,
    /// Stops following.
    pub(crate) stop: watch::Sender<bool>,
    /// True once following has ended.
    pub(crate) stopped: watch::Receiver<bool>,
    /// The term in which it leads.
    pub(crate) led: OnceLock<Term>,
    /// See [`Node::drops_list`].
    pub(crate) drops_list: Arc<AtomicBool>,
    /// Held during a promotion.
    pub(crate) promoting: Mutex<()>,
    /// Decides how much the node may collect.
    pub(crate) training: OnceLock<Arc<Training>>,
}

impl Candidate {
    /// Makes the replica a primary, whatever happened to the previous one; returns a report of it.
    ///
    /// # Errors
    /// The reason why not, and the remedy.
    pub(crate) async fn promote(self: &Arc<Self>, force: bool) -> Result<String, String> {
        let Ok(_one) = self.promoting.try_lock() else { return Err("it is being promoted already".to_owned()) };
        self.may_lead()?;
        let peers = self.reached(force).await?;
        let reached = peers.0.clone();
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

    /// Returns how many nodes of a list are among `reached`, counting this node.
    fn have(&self, list: &QuorumList, reached: &[Peer]) -> usize {
        let is_there =
            |name: &&String| **name == self.name || reached.iter().any(|peer| !peer.is_witness && peer.name == **name);
        list.members().iter().filter(is_there).count()
    }

    /// Returns a text about a list that the nodes in `reached` and this one cannot meet; `None` if commits can be
    /// answered (C5).
    fn unmet(&self, reached: &[Peer]) -> Option<String> {
        if self.degrades && reached.iter().any(|peer| peer.is_witness) {
            return None;
        }
        let asked = self.asked(false).ok().filter(|_| self.counts)?;
        let unmet = asked.lists().find(|list| self.have(list, reached) < list.needed())?;
        let have = self.have(unmet, reached);
        Some(format!("of {unmet} {have} can be reached, this node among them if it is named, and {}", unmet.needed()))
    }

    /// Makes the replica a primary in `term`, regardless of its promises and of the previous primary; returns a report
    /// of it.
    ///
    /// # Errors
    /// The reason why not, and the remedy.
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

    /// Fails if the node cannot lead, whatever other nodes permit.
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

    /// Returns the lowest term in which no node can have led, as far as this node knows.
    ///
    /// # Errors
    /// The node has promised an absurdly high term, and leads in none behind that.
    pub(super) fn next_term(&self) -> Result<Term, String> {
        let (promised, newest) = (self.terms.promised(), self.replica.histories().0);
        if is_absurd(promised, newest) {
            return Err(format!(
                "it has promised term {promised}, and its log goes up to term {newest}: if no node leads in such a term, collie promote \
                 --force-term {}",
                newest.get() + 1
            ));
        }
        Ok(Term::new(promised.max(newest).get() + 1))
    }

    /// Notes a higher term with which a node has answered, and returns why the promotion ends.
    fn answered_higher(&self, name: &str, term: Term) -> String {
        if self.terms.is_absurd(term) {
            return absurd(name, term, self.terms.promised());
        }
        let _higher = tokio::task::block_in_place(|| self.terms.promise(term, 0));
        format!("{name} has promised term {term} to another node: try again")
    }

    /// Returns the peers that can be reached; fails if their promises would not be enough (C1), except with `force`.
    pub(super) async fn reached(&self, force: bool) -> Result<Peers, String> {
        let asked = self.asked(force)?;
        let peers = if self.peers.0.is_empty() {
            Vec::new()
        } else {
            self.peers.reached(&self.name, self.replica.cluster_id(), &self.key).await
        };
        let has_witness = peers.iter().any(|peer| peer.is_witness);
        for list in asked.lists() {
            let (have, n, m) = (self.have(list, &peers), list.needed(), list.members().len());
            let needed = if has_witness { needed_with_witness(n, m) } else { needed(n, m) };
            if have < needed {
                let text = "of the listed replicas can be reached, itself among them, and the promises of";
                let more = if has_witness { " besides the witness" } else { "" };
                return Err(format!("{have} {text} {needed}{more} are needed: start more of them, or use force"));
            }
        }
        Ok(Peers(peers))
    }

    /// Promises `term` to itself and asks `peers` to promise it; fails if these promises and `votes` are not enough for
    /// the quorum configuration. Returns the configuration that it used, an empty one with `force`.
    pub(super) async fn win(
        &self,
        term: Term,
        peers: Peers,
        votes: Vec<Vote>,
        force: bool,
    ) -> Result<QuorumConfig, String> {
        let node = self.terms.node();
        let (mut witness, peers): (Vec<Peer>, Vec<Peer>) = peers.0.into_iter().partition(|peer| peer.is_witness);
        if !self.asked(force)?.asks() {
            witness.clear(); // there is no ballot that it could count for
        }
        let witnessed = self.ask_witness(term, &Peers(witness)).await;
        if votes.is_empty() && !force {
            match &witnessed {
                Err(why) => return Err(why.clone()), // C1
                Ok(Witnessed::LedAloneBy(leader)) if !self.suffice(&self.asked(false)?, &peers) => {
                    return Err(led_alone_by(*leader)); // C1
                }
                Ok(_) => {}
            }
        }
        // The promise counts before the position is read, so that it covers everything that this node has acknowledged.
        let promised = tokio::task::block_in_place(|| {
            let promised = self.terms.promise(term, node)?;
            following(&self.replica).map(|standing| (promised, standing))
        });
        let (true, standing) = promised.map_err(|error| format!("its own promise cannot be kept: {error}"))? else {
            return Err(format!("term {term} was promised to another node meanwhile: try again"));
        };
        let question = self.terms.packet(TermKind::Propose, term, &standing);
        let answers = Peers(peers).ask(&self.name, self.replica.cluster_id(), &self.key, &question).await;
        // Read again: records received before the promise count, and after it no more can arrive for which a commit was
        // answered (C4).
        let asked = self.asked(force)?;
        let ballot = |list: &QuorumList| Ballot::new(list.members(), list.needed(), (&self.name, node), standing.reach);
        let mut ballots: Vec<Ballot> = asked.lists().map(ballot).collect();
        let hands_over = !votes.is_empty();
        votes.into_iter().for_each(|vote| ballots.iter_mut().for_each(|ballot| ballot.promised(vote.clone())));
        match witnessed {
            Ok(Witnessed::Promised) => ballots.iter_mut().for_each(Ballot::witnessed),
            // A primary that hands over leads in the newest term: it is the leader that may acknowledge commits.
            Ok(Witnessed::LedAloneBy(leader)) if !hands_over => {
                ballots.iter_mut().for_each(|ballot| ballot.led_alone_by(leader));
            }
            Ok(_) | Err(_) => {}
        }
        for (peer, answer) in answers {
            match answer {
                Ok(answer) if answer.kind == TermKind::Promise && answer.term == term => {
                    let reach = collie_replica::term::Reach { last_term: answer.last_term, durable: answer.durable };
                    let vote = Vote { name: peer.name.clone(), node: answer.node, reach };
                    ballots.iter_mut().for_each(|ballot| ballot.promised(vote.clone()));
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
                Outcome::Alone { leader } => return Err(led_alone_by(leader)),
                Outcome::Behind { ahead } => {
                    let Vote { name, reach, .. } = ahead;
                    return Err(format!("{name} has come further, to {}: promote that one", reach.durable));
                }
            }
        }
        Ok(asked)
    }

    /// Returns whether the promises of `peers` would be enough without that of a witness.
    fn suffice(&self, asked: &QuorumConfig, peers: &[Peer]) -> bool {
        asked.lists().all(|list| self.have(list, peers) >= needed(list.needed(), list.members().len()))
    }

    /// Asks the witness to promise `term`; returns its answer.
    ///
    /// # Errors
    /// It has not promised, and why.
    async fn ask_witness(&self, term: Term, witness: &Peers) -> Result<Witnessed, String> {
        let question = self.terms.packet(TermKind::Propose, term, &Standing::default());
        let mut answers = witness.ask(&self.name, self.replica.cluster_id(), &self.key, &question).await;
        match answers.pop() {
            None => Ok(Witnessed::Absent),
            Some((peer, answer)) => match answer {
                Ok(answer) if answer.kind == TermKind::Promise && answer.term == term => Ok(Witnessed::Promised),
                Ok(answer) if answer.kind == TermKind::Degraded => Ok(Witnessed::LedAloneBy(answer.node)),
                Ok(answer) if answer.term >= term => Err(self.answered_higher(&peer.name, answer.term)),
                Ok(_) => Err("the witness has not heard of a primary yet, and promises nothing before".to_owned()),
                Err(error) => Err(format!("the witness at {} was not asked: {error}", peer.address)),
            },
        }
    }

    /// Stops following and leads in `term`; returns a report of that, followed by `more`.
    pub(super) async fn lead_in(&self, term: Term, more: &str) -> Result<String, String> {
        // First, since a node that leads collects nothing (A1 of `training`).
        self.training.get().iter().for_each(|training| training.stop("it is promoted"));
        fault_point!("promote.won");
        self.stop.send_replace(true);
        let _nobody_follows = self.stopped.clone().wait_for(|stopped| *stopped).await.is_ok();
        // Set before the first commit, so that none is answered as if there were no list (REPL-7).
        let asks = !self.drops_list.load(Ordering::Acquire)
            && self.asked(false).unwrap_or_else(|_| self.configured.clone().into()).asks();
        if let Some(db) = self.replica.db().filter(|_| self.counts) {
            db.count_replicas(asks);
            db.ask_replicas(asks);
        }
        // Set before the node leads: the count of replicas depends on this term (T5 of `terms.rs`).
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

    /// Returns the quorum configuration of the previous leaders, as far as this node has received it: the lists in the
    /// log or, if it has none, the configured one; an empty one with `force`.
    ///
    /// # Errors
    /// A newer program has written the lists in the log.
    fn asked(&self, force: bool) -> Result<QuorumConfig, String> {
        if force {
            return Ok(QuorumConfig::default());
        }
        match tokio::task::block_in_place(|| self.replica.quorum_note()) {
            None => Ok(self.configured.clone().into()),
            Some(note) => noted(&note)
                .map_err(|error| format!("the log says who is asked for commits, which cannot be read: {error}")),
        }
    }

    /// Returns a text about how much of its primary's log it may lack (C2).
    fn lag(&self) -> String {
        let Some((durable, heard_ns)) = self.target.last_heard() else {
            return "; nothing was heard of a primary since it was started".to_owned();
        };
        let ms = self.env.clock.now_ns().saturating_sub(heard_ns) / 1_000_000;
        let lacked = durable.bytes_since(self.replica.end().min(durable));
        format!("; at last contact, {ms} ms ago, the old primary had {lacked} bytes more: what it wrote since is lost")
    }
}

/// The answer of a witness to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witnessed {
    /// There is none, or it is of no use.
    Absent,
    /// It has promised the term.
    Promised,
    /// It promises nothing, since this node acknowledges commits alone.
    LedAloneBy(u64),
}

/// Returns a text that says that the promise of a node is needed which acknowledges commits alone.
fn led_alone_by(leader: u64) -> String {
    format!(
        "the witness knows that node {leader:016x} acknowledges commits alone: start that node, or lose them by force"
    )
}

/// Returns a text that says that another node has promised a term that is not believable.
pub(super) fn absurd(name: &str, term: Term, promised: Term) -> String {
    format!(
        "{name} has promised term {term}, which is not to be believed behind term {promised}: stop it, and \
         collie promote --force-term {promised} --data DIR there"
    )
}

/// Announces to every peer which node leads, until each has acknowledged it or a higher term has begun.
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
                // A peer that leads in this term too yields, or this node yields to it.
                Ok(_) | Err(_) => {}
            }
        }
        sleep(ANNOUNCE_EVERY).await;
    }
}
