//! A model of the lists that commits need, and of their changes, in every interleaving of a small cluster: a
//! primary, which may be one of the listed nodes `a`, `b` and `c`, the others as replicas, commits, changes, acks,
//! ends of changes that cannot be noted, a promise of the primary, and a promotion, after which the new leader
//! continues with the lists that it finds. In each state the model checks every promotion that could follow. The
//! quorum, its changes and the ballots are the product's.
//!
//! A record is a commit, or the lists in force from there on, with the term in which it was written; a replica has
//! a prefix of the primary's log, or records of an earlier term after the fork, which it sets aside once it
//! follows. A confirmed commit counts as answered. In each state the leader may be gone: then any node that wins
//! the ballots that it knows of, by any promises, must have everything that was answered, and no two nodes may
//! win. By A3 this is required of nodes that know a record after the last one that named no list.
//!
//! Promises are evaluated in the state in which they are given: a node that has promised takes nothing more of the
//! old term, so its promise is valid in every state in which its log is the same. The leader is the exception: its
//! log continues to grow, so the length of its log at its promise is a part of the state.

use collie_base::{Lsn, Set, Term};

use super::{Change, Degrade, Quorum, QuorumConfig, QuorumList, Sent};
use crate::term::{Ballot, Outcome, Reach, Vote};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A rule that the model can omit, to show that it detects the omission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// While the list changes, commits need only the new one.
    RepliesByTheNewList,
    /// After the list has changed, commits still need the old one.
    RepliesByTheOldList,
    /// A change is complete as soon as it is noted.
    OverAtOnce,
    /// The quorum-durable position is the present plain tally of the lists.
    SettledByTheTally,
    /// While the list changes, a promotion uses only the new one.
    VotesByTheNewList,
    /// While the list changes, a promotion uses only the old one.
    VotesByTheOldList,
    /// On a change to a third list, the incomplete change counts as complete, so the list before it is forgotten.
    ForgetsTheListBefore,
    /// A node that is promoted in the middle of a change treats the change as complete.
    EndsWhatItFinds,
    /// A node that is promoted uses the list of the beginning.
    LeadsByItsWords,
    /// A leader abandons a change that it found for another list.
    LeavesWhatItFinds,
    /// The leader counts bytes that reach its disk after its promise of a higher term.
    CountsBehindItsPromise,
}

/// A term, and 0 for a commit, or the number, from 1, of the lists in force from there on in [`Model::asked`].
type Record = (u8, u8);

#[derive(Clone, Debug)]
struct State {
    /// The log of the leader.
    log: Vec<Record>,
    /// The log of each listed node.
    logs: [Vec<Record>; 3],
    /// The node that leads, if it is a listed one.
    leader: Option<usize>,
    /// The term in which it leads: 1, and 2 after a promotion.
    term: u8,
    /// Whether the leader found the change in progress when it was promoted (A5).
    found: bool,
    /// The number of records that the leader had when it promised a higher term, if it has.
    promised: Option<usize>,
    /// The replicas that have reported to the leader.
    heard: [bool; 3],
    quorum: Quorum,
    /// The lists that would be in force without a mistake.
    right: QuorumConfig,
    connections: [u64; 3],
    settled: Lsn,
    /// The records up to the last answered one.
    answered: Vec<Record>,
    changes: usize,
}

/// The parts in which two states must agree to be the same state.
type Key = (
    Vec<Record>,
    [Vec<Record>; 3],
    (Option<usize>, u8, Option<usize>, bool),
    [bool; 3],
    [QuorumConfig; 2],
    [Lsn; 2],
    usize,
    usize,
);

struct Model {
    mistake: Mistake,
    start: QuorumConfig,
    /// The node that leads in the beginning, if it is a listed one.
    first: Option<usize>,
    lists: Vec<Option<QuorumList>>,
    /// All lists that have ever been in force, by the numbers in records.
    asked: Vec<QuorumConfig>,
    changes_max: usize,
    /// The longest log of a term.
    log_max: usize,
    /// How much longer the log of a promoted replica may be; `None` without promotions.
    beyond: Option<usize>,
    /// Whether a plain tally of the reports would have fallen below the confirmed position.
    falls: bool,
}

fn list(text: &str) -> Option<QuorumList> {
    QuorumList::parse(text).expect("it is right")
}

fn lsn(records: usize) -> Lsn {
    Lsn::new(records as u64)
}

fn common(one: &[Record], other: &[Record]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl Model {
    fn new(mistake: Mistake, start: &str, lists: &[&str]) -> Self {
        let lists = lists.iter().map(|text| list(text)).collect();
        let (start, asked) = (list(start).into(), Vec::new());
        Self { mistake, start, first: None, lists, asked, changes_max: 2, log_max: 4, beyond: None, falls: false }
    }

    /// Lets `a` lead in the beginning, with at most this many changes.
    fn led_by_a(self, changes_max: usize) -> Self {
        Self { first: Some(0), changes_max, ..self }
    }

    /// Adds a promotion, with shorter logs.
    fn promoting(self, log_max: usize, beyond: usize) -> Self {
        Self { log_max, beyond: Some(beyond), ..self }
    }

    /// Explores all states, and returns their number.
    ///
    /// # Errors
    /// The violation in one of them.
    fn explore(&mut self) -> Result<usize, String> {
        let mut quorum = Quorum::new(self.start.clone(), Degrade::Wait);
        if let Some(first) = self.first {
            quorum = quorum.led_by(NAMES[first]);
        }
        let first = self.first;
        let connections = std::array::from_fn(|who| if first == Some(who) { 0 } else { quorum.connected(NAMES[who]) });
        let first = State {
            log: Vec::new(),
            logs: [const { Vec::new() }; 3],
            leader: self.first,
            term: 1,
            promised: None,
            found: false,
            heard: [true; 3],
            quorum,
            right: self.start.clone(),
            connections,
            settled: Lsn::ZERO,
            answered: Vec::new(),
            changes: 0,
        };
        let (mut seen, mut todo): (Set<Key>, Vec<State>) = (Set::default(), vec![first]);
        while let Some(state) = todo.pop() {
            if !seen.insert(state.key()) {
                continue;
            }
            let winners = self.winners(&state).map_err(|wrong| format!("{wrong} in {state:?}"))?;
            self.steps(&state, &mut todo).map_err(|wrong| format!("{wrong} in {state:?}"))?;
            if self.beyond.is_some() && state.term == 1 {
                winners.into_iter().for_each(|who| todo.push(self.promoted(&state, who)));
            }
        }
        Ok(seen.len())
    }

    /// Adds the possible next states, except those by promotions.
    fn steps(&mut self, state: &State, todo: &mut Vec<State>) -> Result<(), String> {
        let log_max = self.log_max + self.beyond.filter(|_| state.term > 1).unwrap_or(0);
        if state.log.len() < log_max {
            let mut next = state.clone();
            next.push(0);
            todo.push(next);
        }
        for who in (0..NAMES.len()).filter(|who| state.leader != Some(*who)) {
            if state.logs[who] != state.log {
                let next = self.acked(state, who)?;
                todo.push(next);
            }
        }
        let may_change = !state.found || state.right.lists().count() < 2 || self.mistake == Mistake::LeavesWhatItFinds;
        if state.changes < self.changes_max && state.log.len() < log_max && may_change {
            for list in self.lists.clone() {
                let asked = match self.mistake {
                    Mistake::ForgetsTheListBefore => QuorumConfig::from(state.right.list().cloned()).changed_to(list),
                    _ => state.right.changed_to(list),
                };
                if asked != state.right {
                    let mut next = state.clone();
                    next.changes += 1;
                    self.note(&mut next, asked);
                    todo.push(self.settled(state, next)?);
                }
            }
        }
        if state.leader.is_some() && state.promised.is_none() {
            let mut next = state.clone();
            next.promised = Some(state.log.len());
            todo.push(next);
        }
        let mut over = state.clone();
        if self.counts_own(state) && over.quorum.on_own(lsn(state.log.len())) {
            over = self.settled(state, over)?; // Q5
        }
        if !self.counts_own(state) && state.leader.is_some() {
            return Ok(()); // Y5 of `Synchronous`: no change completes
        }
        if over.quorum.tick(lsn(state.log.len()), 0, |_| true) == Some(Change::Changed) && state.log.len() <= log_max {
            let mut unnoted = over.clone();
            unnoted.quorum.ask(state.quorum.asked().clone()); // as `Synchronous::tick` does
            unnoted.quorum.until(state.quorum.over_at());
            todo.push(self.settled(state, unnoted)?);
            over.found = false;
            self.note(&mut over, state.right.changed());
            todo.push(self.settled(state, over)?);
        } else if state.leader.is_some() {
            todo.push(over);
        }
        Ok(())
    }

    /// Gives a replica one more record of the leader's log; a replica that has not reported to this leader
    /// connects instead, with the part of its log that is the leader's.
    fn acked(&mut self, state: &State, who: usize) -> Result<State, String> {
        let mut next = state.clone();
        let own = &mut next.logs[who];
        own.truncate(common(own, &state.log));
        if next.heard[who] {
            own.extend(state.log.get(own.len()));
        }
        let at = lsn(own.len());
        next.heard[who] = true;
        let reported = Sent { sent: at, received: at, durable: at, applied: at };
        if self.counts_own(state) {
            next.quorum.on_own(lsn(state.log.len()));
        }
        next.quorum.on_ack(NAMES[who], state.connections[who], reported);
        self.settled(state, next)
    }

    /// Returns whether the leader counts the present content of its disk.
    fn counts_own(&self, state: &State) -> bool {
        state.leader.is_some() && (state.promised.is_none() || self.mistake == Mistake::CountsBehindItsPromise)
    }

    /// Lets a replica that has won lead, as a server does: it notes the lists that it finds, and continues a
    /// change.
    fn promoted(&mut self, state: &State, who: usize) -> State {
        let log = state.logs[who].clone();
        let right = self.known(&log).1;
        let mut quorum = Quorum::new(QuorumConfig::default(), Degrade::Wait).led_by(NAMES[who]);
        let (term, promised, found) = (2, None, right.is_changing());
        let connections = NAMES.map(|name| if name == NAMES[who] { 0 } else { quorum.connected(name) });
        let (leader, heard, settled) = (Some(who), [false; 3], lsn(log.len()));
        let mut next =
            State { log, leader, term, promised, found, heard, quorum, connections, settled, ..state.clone() };
        let asked = match self.mistake {
            Mistake::EndsWhatItFinds => right.changed(),
            Mistake::LeadsByItsWords => self.start.clone(),
            _ => right,
        };
        self.note(&mut next, asked);
        next
    }

    /// Puts `quorum_config` in force on the leader, and notes it in the log.
    fn note(&mut self, state: &mut State, asked: QuorumConfig) {
        let before = state.right.before().map_or_else(|| state.right.clone(), |before| before.cloned().into());
        let counted = match self.mistake {
            Mistake::RepliesByTheNewList => asked.changed(),
            Mistake::RepliesByTheOldList if !asked.is_changing() => before,
            _ => asked.clone(),
        };
        if state.quorum.asked() != &counted {
            state.quorum.ask(counted);
        }
        let known = self.asked.iter().position(|known| *known == asked);
        let number = known.unwrap_or_else(|| {
            self.asked.push(asked.clone());
            self.asked.len() - 1
        });
        state.push(u8::try_from(number + 1).expect("a small number"));
        let end = if self.mistake == Mistake::OverAtOnce { Lsn::ZERO } else { lsn(state.log.len()) };
        state.quorum.until(end);
        state.right = asked;
    }

    /// Counts everything that is confirmed now as answered.
    fn settled(&mut self, before: &State, mut next: State) -> Result<State, String> {
        let confirmed = next.quorum.confirmed().durable;
        let tally = next.right.reached(|list| {
            let reported = |who: usize| match next.leader == Some(who) {
                true => next.promised.unwrap_or(next.log.len()),
                false if next.heard[who] => common(&next.logs[who], &next.log),
                _ => 0,
            };
            let is_member = |who: &usize| list.members().iter().any(|name| name == NAMES[*who]);
            let mut have: Vec<usize> = (0..3).filter(is_member).map(reported).collect();
            have.sort_unstable_by(|a, b| b.cmp(a));
            lsn(have[list.needed() - 1])
        });
        self.falls |= tally.is_some_and(|tally| tally < confirmed);
        next.settled = match self.mistake {
            Mistake::SettledByTheTally => tally.unwrap_or(before.settled),
            _ => before.settled.max(confirmed),
        };
        if next.settled < before.settled || confirmed < before.quorum.confirmed().durable {
            return Err("what is settled falls".to_owned());
        }
        let answered = usize::try_from(confirmed.get()).expect("a small number");
        if answered > next.answered.len() {
            next.answered = next.log[..answered].to_vec();
        }
        Ok(next)
    }

    /// Returns the lists that a log names last, and the place of that record, if there is one.
    fn known(&self, log: &[Record]) -> (Option<usize>, QuorumConfig) {
        let at = log.iter().rposition(|record| record.1 > 0);
        (at, at.map_or_else(|| self.start.clone(), |at| self.asked[usize::from(log[at].1) - 1].clone()))
    }

    /// Checks every promotion that may follow; returns the nodes that may win one.
    fn winners(&self, state: &State) -> Result<Vec<usize>, String> {
        let asks_nobody = |record: &Record| record.1 > 0 && !self.asked[usize::from(record.1) - 1].asks();
        let last_nobody = state.log.iter().rposition(asks_nobody);
        let mut winners = Vec::new();
        for who in (0..NAMES.len()).filter(|who| state.leader != Some(*who)) {
            let own = &state.logs[who];
            let (known, asked) = self.known(own);
            // A3
            let counts = match last_nobody {
                None => self.start.asks() || known.is_some(),
                Some(at) => common(own, &state.log) > at && known > Some(at),
            };
            if !asked.asks() || !counts {
                continue;
            }
            for promises in (0..8_usize).filter(|promises| promises >> who & 1 == 1) {
                if self.wins(state, who, promises, &asked) {
                    if !own.starts_with(&state.answered) {
                        return Err(format!("{} wins by {promises:03b} and lacks what was answered", NAMES[who]));
                    }
                    winners.push((who, promises));
                }
            }
        }
        for (one, its) in &winners {
            if winners.iter().any(|(other, others)| other != one && its & others == 0) {
                return Err("two win in one term".to_owned());
            }
        }
        let mut who: Vec<usize> = winners.into_iter().map(|(who, _)| who).collect();
        who.dedup();
        Ok(who)
    }

    /// Returns whether a replica that knows the lists `quorum_config` wins by these promises.
    fn wins(&self, state: &State, who: usize, promises: usize, asked: &QuorumConfig) -> bool {
        let reach = |who: usize| {
            let own = &state.logs[who];
            let own = match state.promised {
                Some(promised) if state.leader == Some(who) => &own[..promised],
                _ => &own[..],
            };
            Reach { last_term: Term::new(own.last().map_or(1, |record| record.0.into())), durable: lsn(own.len()) }
        };
        let before = asked.before().flatten();
        let lists: Vec<&QuorumList> = match self.mistake {
            Mistake::VotesByTheNewList => asked.list().or(before).into_iter().collect(),
            Mistake::VotesByTheOldList => before.or(asked.list()).into_iter().collect(),
            _ => asked.lists().collect(),
        };
        lists.into_iter().all(|list| {
            let mut ballot = Ballot::new(list.members(), list.needed(), (NAMES[who], who as u64), reach(who));
            for other in (0..NAMES.len()).filter(|other| promises >> other & 1 == 1) {
                let (name, node) = (NAMES[other].to_owned(), other as u64);
                ballot.promised(Vote { name, node, reach: reach(other) });
            }
            ballot.outcome() == Outcome::Won
        })
    }
}

impl State {
    /// Appends a record to the leader's log.
    fn push(&mut self, what: u8) {
        self.log.push((self.term, what));
        if let Some(leader) = self.leader {
            self.logs[leader].clone_from(&self.log);
        }
    }

    fn key(&self) -> Key {
        (
            self.log.clone(),
            self.logs.clone(),
            (self.leader, self.term, self.promised, self.found),
            self.heard,
            [self.right.clone(), self.quorum.asked().clone()],
            [self.settled, self.quorum.confirmed().durable],
            self.answered.len(),
            self.changes,
        )
    }
}

/// Goal: for any changes, and whenever the primary is gone, a promotion loses nothing that was answered, no two
/// nodes win, and the quorum-durable position never falls (A1 to A3). Method: all interleavings of up to two
/// changes between lists that share all, some or no members, or no list; the test also shows that a plain tally
/// would fall.
#[test]
fn no_change_of_the_list_loses_what_was_answered() {
    let lists = ["", "ANY 1 (a)", "ANY 1 (a, b)", "ANY 2 (b, c)"];
    let (mut states, mut falls) = (0, false);
    for start in lists {
        let mut model = Model::new(Mistake::None, start, &lists);
        states += model.explore().unwrap_or_else(|wrong| panic!("from {start}: {wrong}"));
        falls |= model.falls;
    }
    assert!(falls, "nothing would have fallen: the model shows nothing of it");
    assert!(states > 20_000, "only {states} states");
}

/// Goal: the same for a replica that is promoted in the middle of changes, continues the change that it finds,
/// answers commits, and is gone in its turn. Method: as above with a promotion in every state in which one may be
/// won, and shorter logs.
#[test]
fn a_promotion_among_changes_loses_nothing_that_was_answered() {
    let lists = ["ANY 1 (a)", "ANY 1 (b, c)", "ANY 2 (a, b, c)"];
    let mut states = 0;
    for start in lists {
        let mut model = Model::new(Mistake::None, start, &lists).promoting(2, 1);
        states += model.explore().unwrap_or_else(|wrong| panic!("from {start}: {wrong}"));
    }
    assert!(states > 20_000, "only {states} states");
}

/// Goal: the same where the first primary is itself a member of the lists, and so counts for them: lists of a
/// majority, of all, of one, and changes from each to the other; it gives its promise before, between and after
/// commits. Method: all interleavings without a change and with one, promotions included.
#[test]
fn a_primary_that_counts_for_its_lists_loses_nothing_that_was_answered() {
    let lists = ["ANY 2 (a, b, c)", "ANY 1 (a, b, c)", "ANY 3 (a, b, c)", "ANY 2 (a, b)", "ANY 1 (a)", "ANY 1 (b, c)"];
    let mut states = 0;
    for start in lists {
        let mut steady = Model::new(Mistake::None, start, &lists).led_by_a(0).promoting(3, 2);
        let mut changing = Model::new(Mistake::None, start, &lists).led_by_a(1).promoting(2, 1);
        for model in [&mut steady, &mut changing] {
            states += model.explore().unwrap_or_else(|wrong| panic!("from {start}: {wrong}"));
        }
    }
    assert!(states > 20_000, "only {states} states");
}

/// Goal: the model detects each omitted rule. Method: one rule after the other, from lists where it matters.
#[test]
fn each_rule_of_a_change_is_needed() {
    let small = ["ANY 1 (a)", "ANY 1 (b)", "ANY 2 (b, c)", "ANY 2 (a, b, c)"];
    let check = |mistake, wrong: &str, model: &dyn Fn(Model) -> Model| {
        let found = small.map(|start| model(Model::new(mistake, start, &small)).explore());
        let noticed = found.iter().filter_map(|found| found.as_ref().err()).any(|found| found.contains(wrong));
        assert!(noticed, "{mistake:?} goes unnoticed: {:?}", found.map(|found| found.map_err(|found| found.len())));
    };
    for (mistake, wrong) in [
        (Mistake::RepliesByTheNewList, "lacks what was answered"),
        (Mistake::RepliesByTheOldList, "lacks what was answered"),
        (Mistake::OverAtOnce, "lacks what was answered"),
        (Mistake::SettledByTheTally, "what is settled falls"),
        (Mistake::VotesByTheNewList, "two win in one term"),
        (Mistake::VotesByTheOldList, "lacks what was answered"),
        (Mistake::ForgetsTheListBefore, "lacks what was answered"),
    ] {
        check(mistake, wrong, &|model| model);
    }
    for (mistake, wrong) in [
        (Mistake::EndsWhatItFinds, "two win in one term"),
        (Mistake::LeadsByItsWords, "lacks what was answered"),
        (Mistake::LeavesWhatItFinds, "lacks what was answered"),
    ] {
        check(mistake, wrong, &|model| model.promoting(2, 1));
    }
    let check_own = |mistake| {
        let found = Model::new(mistake, "ANY 2 (a, b, c)", &[]).led_by_a(0).explore();
        assert!(found.is_err_and(|found| found.contains("lacks what was answered")), "{mistake:?} goes unnoticed");
    };
    check_own(Mistake::CountsBehindItsPromise);
}
