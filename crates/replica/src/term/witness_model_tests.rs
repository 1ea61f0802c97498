//! A model of two nodes and a witness, in every interleaving: commits, replication, questions to the witness that
//! arrive late or in another order or whose answers are lost, degrading and its end, restarts, and promotions by any
//! promises. The witness and the ballots are the product's.
//!
//! A record is the term in which it was written; a leader begins its term with one. Whatever a leader may acknowledge,
//! it acknowledges at once, so that every later winner is measured by the most that can have been acknowledged.

use std::path::Path;

use collie_base::{Lsn, Map, Set, Term};
use collie_engine::{DegradedLeader, Promise, WitnessState};
use collie_env::Env;

use super::{Ballot, Outcome, Reach, Vote, Witness};
use crate::packet::{TermKind, TermPacket};

const NAMES: [&str; 2] = ["a", "b"];

/// A rule that the model can omit, to show that it detects the omission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The leader degrades without the witness.
    DegradesWithoutLeave,
    /// The leader is restored before its quorum has what was acknowledged alone.
    RestoresAtOnce,
    /// A restarted leader takes it that it was not degraded.
    ForgetsAtRestart,
    /// A candidate counts the witness although it names a degraded leader.
    CountsWithoutPromise,
    /// The witness accepts questions in the order in which they arrive.
    TakesLateQuestions,
    /// The witness promises terms while a leader is degraded.
    PromisesAllTheSame,
    /// A candidate gives up when the witness names a degraded leader (T319).
    GivesUpBesideALeader,
}

/// What a leader knows of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Known {
    Restored,
    Degraded,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    log: Vec<u8>,
    promised: (u8, u8),
    /// The term in which it leads, or led.
    led: Option<u8>,
    degraded: bool,
    known: Known,
    /// It may have acknowledged records below without its quorum.
    until: usize,
    confirmed: usize,
}

/// A question to the witness that has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Question {
    degrades: bool,
    term: u8,
    node: u8,
    at: usize,
    /// The leader still waits for the answer.
    awaited: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; 2],
    witness: ((u8, u8), DegradedLeader),
    questions: Vec<Question>,
    acknowledged: Vec<u8>,
    led_terms: Vec<u8>,
}

/// The promise of the witness, the leader that spoke last, and a question: kind, term, node and position.
type Asked = ((u8, u8), DegradedLeader, (TermKind, u8, u8, usize));
/// The answer, and the promise and the leader after it.
type Answered = (TermKind, (u8, u8), DegradedLeader);

struct Model {
    mistake: Mistake,
    records_max: usize,
    terms_max: u8,
    /// The answers of the product's witness so far.
    answers: Map<Asked, Answered>,
}

/// The id of a node in promises, which is not 0.
fn id(node: usize) -> u8 {
    u8::try_from(node + 1).expect("one of two")
}

impl Node {
    /// The term in which it leads and acknowledges commits.
    fn leads(&self) -> Option<u8> {
        self.led.filter(|led| self.promised.0 <= *led)
    }

    fn reach(&self) -> Reach {
        let last_term = Term::new(self.log.last().copied().unwrap_or(0).into());
        Reach { last_term, durable: Lsn::new(self.log.len() as u64) }
    }

    /// Begins a process: of a leader, or of one that was promoted.
    fn begin(&mut self, forgets: bool) {
        (self.degraded, self.until, self.confirmed) = (false, self.log.len(), 0);
        self.known = if forgets { Known::Restored } else { Known::Unknown };
    }

    fn promise(&mut self, term: u8, node: u8) -> bool {
        let before = Promise { term: Term::new(self.promised.0.into()), node: self.promised.1.into() };
        let is_promised = before.after(Term::new(term.into()), node.into()).is_some();
        if is_promised {
            self.promised = (term, node);
        }
        is_promised
    }
}

impl State {
    fn first() -> Self {
        let node = |led| Node {
            log: vec![1],
            promised: (1, 1),
            led,
            degraded: false,
            known: Known::Unknown,
            until: 1,
            confirmed: 0,
        };
        let leader = DegradedLeader { term: Term::new(1), node: 0, at: Lsn::ZERO };
        Self {
            nodes: [node(Some(1)), node(None)],
            witness: ((1, 1), leader),
            questions: Vec::new(),
            acknowledged: vec![1],
            led_terms: vec![1],
        }
    }

    /// Acknowledges what can be; fails if two histories were acknowledged.
    fn acknowledge(&mut self) -> Result<(), String> {
        for node in &self.nodes {
            if node.leads().is_none() {
                continue;
            }
            let end = if node.degraded { node.log.len() } else { node.confirmed };
            let log = node.log.get(..end).expect("it confirmed its own records");
            if !log.starts_with(&self.acknowledged) && !self.acknowledged.starts_with(log) {
                return Err(format!("{log:?} is acknowledged beside {:?}: {self:?}", self.acknowledged));
            }
            if log.len() > self.acknowledged.len() {
                self.acknowledged = log.to_vec();
            }
        }
        Ok(())
    }
}

impl Model {
    fn new(mistake: Mistake, records_max: usize, terms_max: u8) -> Self {
        Self { mistake, records_max, terms_max, answers: Map::default() }
    }

    /// Explores all states; returns their number.
    fn explore(&mut self) -> Result<usize, String> {
        let mut seen = Set::default();
        let mut todo = vec![State::first()];
        while let Some(state) = todo.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            self.can_lead(&state)?;
            for mut next in self.steps(&state)? {
                next.acknowledge()?;
                next.questions.sort_unstable_by_key(|q| (q.degrades, q.term, q.node, q.at, q.awaited));
                next.questions.dedup();
                todo.push(next);
            }
        }
        Ok(seen.len())
    }

    /// Asks the product's witness.
    fn witness(&mut self, state: &mut State, kind: TermKind, (term, node, at): (u8, u8, usize)) -> TermKind {
        let (promised, mut leader) = state.witness;
        let late_counts = self.mistake == Mistake::TakesLateQuestions && kind != TermKind::Propose;
        if late_counts && leader.term == Term::new(term.into()) {
            leader.at = Lsn::ZERO;
        }
        if self.mistake == Mistake::PromisesAllTheSame && kind == TermKind::Propose {
            leader.node = 0;
        }
        let key = (promised, leader, (kind, term, node, at));
        let (answer, promised, next) = *self.answers.entry(key).or_insert_with(|| {
            let (env, _disk) = Env::simulated(1);
            let dir = Path::new("/witness");
            let new = WitnessState::open(&env, dir).expect("an empty disk");
            WitnessState { leader, ..new }.write(&env, dir).expect("the disk is whole");
            let before = Promise { term: Term::new(promised.0.into()), node: promised.1.into() };
            before.write(&env, dir).expect("the disk is whole");
            let witness = Witness::open(&env, dir).expect("it was written");
            let question = TermPacket {
                kind,
                term: Term::new(term.into()),
                history: collie_base::HistoryId::new(0),
                node: node.into(),
                last_term: Term::default(),
                durable: Lsn::new(at as u64),
            };
            let answer = witness.answer(&question).expect("the disk is whole").kind;
            let after = Promise::read(&env, dir).expect("it was written");
            let small = |number: u64| u8::try_from(number).expect("a small number");
            (answer, (small(after.term.get()), small(after.node)), witness.state().leader)
        });
        let is_changed = kind != TermKind::Propose && answer == TermKind::Promise;
        state.witness = (promised, if is_changed { next } else { state.witness.1 });
        answer
    }

    fn steps(&mut self, state: &State) -> Result<Vec<State>, String> {
        let mut out = Vec::new();
        for leader in 0..2 {
            if let Some(term) = state.nodes[leader].leads() {
                self.leader_steps(state, leader, term, &mut out);
            }
            let mut next = state.clone();
            next.nodes[leader].begin(self.mistake == Mistake::ForgetsAtRestart);
            next.questions.iter_mut().filter(|q| q.node == id(leader)).for_each(|q| q.awaited = false);
            out.push(next); // it is started again
            for asked in 0..4 {
                self.promote(state, leader, asked, &mut out)?;
            }
        }
        for at in 0..state.questions.len() {
            self.arrive(state, at, &mut out);
        }
        Ok(out)
    }

    fn leader_steps(&self, state: &State, leader: usize, term: u8, out: &mut Vec<State>) {
        let (node, other) = (&state.nodes[leader], 1 - leader);
        let ask = |degrades: bool, at: usize, next: &mut State| {
            next.questions.iter_mut().filter(|q| q.node == id(leader)).for_each(|q| q.awaited = false);
            next.questions.push(Question { degrades, term, node: id(leader), at, awaited: true });
        };
        let mut step = |change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            out.push(next);
        };
        if node.log.len() < self.records_max {
            step(&|next| next.nodes[leader].log.push(term));
        }
        if state.nodes[other].promised.0 <= term {
            let common = node.log.iter().zip(&state.nodes[other].log).take_while(|(a, b)| a == b).count();
            step(&|next| {
                let log = next.nodes[leader].log.iter().take(common + 1).copied().collect();
                let follower = &mut next.nodes[other];
                (follower.log, follower.led, follower.promised) = (log, None, (term, id(leader)));
                next.nodes[leader].confirmed = next.nodes[other].log.len();
            });
        }
        let unconfirmed = node.log.len() > node.confirmed;
        let leave = node.known == Known::Degraded || self.mistake == Mistake::DegradesWithoutLeave;
        if !node.degraded && unconfirmed && leave {
            step(&|next| next.nodes[leader].degraded = true);
        }
        if node.degraded && node.confirmed > 0 {
            step(&|next| {
                let node = &mut next.nodes[leader];
                (node.degraded, node.until) = (false, node.log.len());
            });
        }
        if state.questions.len() >= 2 {
            return;
        }
        if node.degraded || (unconfirmed && node.known != Known::Degraded) {
            step(&|next| {
                let node = &mut next.nodes[leader];
                if !node.degraded {
                    (node.known, node.until) = (Known::Unknown, node.log.len());
                }
                ask(true, next.nodes[leader].log.len(), next);
            });
        }
        let is_whole = node.confirmed > node.until || node.known == Known::Restored;
        if !node.degraded && (is_whole || self.mistake == Mistake::RestoresAtOnce) {
            step(&|next| {
                next.nodes[leader].known = Known::Unknown;
                ask(false, next.nodes[leader].confirmed, next);
            });
        }
    }

    /// A question arrives; its answer does too, or is lost.
    fn arrive(&mut self, state: &State, at: usize, out: &mut Vec<State>) {
        let mut next = state.clone();
        let Question { degrades, term, node, at, awaited } = next.questions.remove(at);
        let kind = if degrades { TermKind::Degrade } else { TermKind::Restore };
        let answer = self.witness(&mut next, kind, (term, node, at));
        out.push(next.clone());
        let leader = &mut next.nodes[usize::from(node) - 1];
        if answer == TermKind::Promise && awaited && leader.led == Some(term) {
            leader.known = if degrades { Known::Degraded } else { Known::Restored };
            out.push(next);
        }
    }

    /// Fails if neither node leads and none can come to lead although all are reached: within a few attempts of both,
    /// the terms that they learn from each other included.
    fn can_lead(&mut self, state: &State) -> Result<(), String> {
        let mut reached = vec![state.clone()];
        for _ in 0..4 {
            let mut next = Vec::new();
            for state in reached {
                for who in 0..2 {
                    if state.nodes[who].leads().is_some() {
                        return Ok(());
                    }
                    let (mut after, outcome) = self.ask(&state, who, 3);
                    if outcome == Some(Outcome::Won) {
                        return Ok(());
                    }
                    // A refusal tells the term that was promised.
                    let highest = after.nodes.iter().map(|node| node.promised.0).chain([after.witness.0.0]).max();
                    after.nodes[who].promise(highest.expect("three of them"), 0);
                    next.push(after);
                }
            }
            reached = next;
        }
        Err(format!("no node can lead any more: {state:?}"))
    }

    /// A node asks the other one (bit 0 of `asked`) and the witness (bit 1) for the next term. Returns the state after
    /// that, and the outcome of its ballot, if it asked the nodes.
    fn ask(&mut self, state: &State, who: usize, asked: u8) -> (State, Option<Outcome>) {
        let mut next = state.clone();
        let term = next.nodes[who].promised.0.max(next.nodes[who].log.last().copied().unwrap_or(0)) + 1;
        let list = NAMES.map(str::to_owned);
        let mut ballot = Ballot::new(&list, 2, (NAMES[who], id(who).into()), next.nodes[who].reach());
        if asked & 2 != 0 {
            match self.witness(&mut next, TermKind::Propose, (term, id(who), 0)) {
                TermKind::Promise => ballot.witnessed(),
                _ if self.mistake == Mistake::CountsWithoutPromise => ballot.witnessed(),
                TermKind::Degraded if self.mistake == Mistake::GivesUpBesideALeader => return (next, None),
                TermKind::Degraded => ballot.led_alone_by(next.witness.1.node),
                _ => {}
            }
        }
        next.nodes[who].promised = (term, id(who));
        if asked & 1 != 0 && next.nodes[1 - who].promise(term, id(who)) {
            let (name, node) = (NAMES[1 - who].to_owned(), id(1 - who).into());
            ballot.promised(Vote { name, node, reach: next.nodes[1 - who].reach() });
        }
        (next, Some(ballot.outcome()))
    }

    /// A node asks as [`Model::ask`] does, and leads if that is enough.
    fn promote(&mut self, state: &State, who: usize, asked: u8, out: &mut Vec<State>) -> Result<(), String> {
        let term = state.nodes[who].promised.0.max(state.nodes[who].log.last().copied().unwrap_or(0)) + 1;
        if term > self.terms_max || state.nodes[who].leads().is_some() {
            return Ok(());
        }
        let (mut next, outcome) = self.ask(state, who, asked);
        if outcome == Some(Outcome::Won) {
            if !next.nodes[who].log.starts_with(&state.acknowledged) {
                return Err(format!("{} leads without an acknowledged commit: {state:?}", NAMES[who]));
            }
            if next.led_terms.contains(&term) {
                return Err(format!("two nodes lead in term {term}: {state:?}"));
            }
            next.led_terms.push(term);
            next.led_terms.sort_unstable();
            let node = &mut next.nodes[who];
            node.led = Some(term);
            node.log.push(term);
            node.begin(false);
        }
        out.push(next);
        Ok(())
    }
}

/// Goal: with a witness no acknowledged commit is lost, whichever node fails and whenever, no two nodes lead in a term,
/// and once all three are there some node can lead (X1 to X3, B1, B2, B4). Method: all states of a small cluster.
#[test]
fn two_nodes_and_a_witness_lose_nothing_that_was_acknowledged() {
    let states = Model::new(Mistake::None, 3, 3).explore().expect("a rule is broken");
    println!("{states} states");
    assert!(states > 10_000, "{states} states: the model does not move");
}

/// Goal: each rule is needed. Method: the same model without it finds a loss.
#[test]
fn each_rule_of_a_witness_is_needed() {
    for mistake in [
        Mistake::DegradesWithoutLeave,
        Mistake::RestoresAtOnce,
        Mistake::ForgetsAtRestart,
        Mistake::CountsWithoutPromise,
        Mistake::TakesLateQuestions,
        Mistake::PromisesAllTheSame,
        Mistake::GivesUpBesideALeader,
    ] {
        let found = Model::new(mistake, 3, 3).explore();
        assert!(found.is_err(), "{mistake:?} goes unnoticed in {} states", found.unwrap_or(0));
    }
}
