//! [`Ballot`]: whether a node may lead in a term, by the answers of the others. Pure computation without I/O.
//!
//! Commits at `remote_write` and above are acknowledged once `n` of `m` listed nodes have them. The next leader
//! must be a node that has all of them, and at most one such node may lead.
//!
//! # Invariants
//! - B1. A node that wins has everything that was ever acknowledged by `n` of the `m` (REPL-9): it has
//!   at least `m - n + 1` promises, which intersect every set of `n`, and its log reaches as far as that of each
//!   of them.
//! - B2. No two nodes win in one term: each has more than half of the `m`, and no node promises a term twice.
//! - B3. Promises of nodes that are not listed do not count: they acknowledged nothing. The exception is a witness,
//!   which has no data: its promise counts towards the majority (B2), of the listed nodes and itself, and not towards
//!   the nodes that intersect every set of `n` (B1). It promises nothing while a leader acknowledges commits without
//!   its quorum (`witness.rs`).
//! - B4. While a leader acknowledges commits alone, a node wins only with the promise of that leader, which covers
//!   these commits, and without the witness's (X2 of `witness.rs`).
//!
//! Checked by the tests here: random acknowledgements, against the acknowledged position; two candidates at once.

use collie_base::{Lsn, Term};
use collie_sync::mutant;

/// How far a node's log reaches; promises are compared by it, the term first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach {
    /// The term of its newest record.
    pub last_term: Term,
    /// Its disk has everything below.
    pub durable: Lsn,
}

/// The promise of a node not to follow a lower term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The node's name in the list.
    pub name: String,
    /// The node's id.
    pub node: u64,
    /// How far its log reached when it promised.
    pub reach: Reach,
}

/// The promises that one node has collected for one term.
#[derive(Clone, Debug)]
pub struct Ballot {
    list: Vec<String>,
    /// How many listed nodes must have a commit before it is acknowledged.
    n: usize,
    /// Promises of listed nodes, including its own; each node once.
    votes: Vec<Vote>,
    /// Whether a witness has promised.
    witnessed: bool,
    /// The node that acknowledges commits alone, as the witness knows (B4).
    alone: Option<u64>,
    own: Reach,
}

/// The result of the promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node may lead.
    Won,
    /// Too few have promised.
    Short {
        /// The number of promises so far.
        have: usize,
        /// The number that is needed.
        needed: usize,
    },
    /// A node that acknowledges commits alone has not promised (B4).
    Alone {
        /// Its id.
        leader: u64,
    },
    /// The log of another node reaches further: that node has to be promoted.
    Behind {
        /// The other node, and how far its log reaches.
        ahead: Vote,
    },
}

/// Returns how many of `m` listed nodes must promise, where commits are acknowledged by `n` of them: enough to
/// intersect every set of `n`, and more than half.
pub fn needed(n: usize, m: usize) -> usize {
    meets_every(n, m).max(m / 2 + 1)
}

/// Returns how many of `m` nodes intersect every set of `n` of them.
fn meets_every(n: usize, m: usize) -> usize {
    m.saturating_sub(n).saturating_add(1)
}

/// Returns how many of `m` listed nodes must promise if a witness promises too, where commits are acknowledged by `n`
/// of the nodes: enough to intersect every set of `n`, and with the witness more than half of `m + 1`.
pub fn needed_with_witness(n: usize, m: usize) -> usize {
    meets_every(n, m).max(m.div_ceil(2))
}

impl Ballot {
    /// Creates the ballot of the node `name` with the id `node`, whose log reaches `own`; commits are acknowledged by
    /// `n` nodes of `list`.
    pub fn new(list: &[String], n: usize, (name, node): (&str, u64), own: Reach) -> Self {
        let mut ballot = Self { list: list.to_vec(), n, votes: Vec::new(), witnessed: false, alone: None, own };
        ballot.promised(Vote { name: name.to_owned(), node, reach: own });
        ballot
    }

    /// Adds a promise (B3).
    pub fn promised(&mut self, vote: Vote) {
        let is_new = self.votes.iter().all(|known| known.name != vote.name);
        if is_new && self.list.contains(&vote.name) {
            self.votes.push(vote);
        }
    }

    /// Adds the promise of the witness (B3).
    pub fn witnessed(&mut self) {
        self.witnessed = true;
    }

    /// Notes the answer of the witness that `leader` acknowledges commits alone (B4).
    pub fn led_alone_by(&mut self, leader: u64) {
        self.alone = Some(leader);
    }

    fn needed(&self) -> usize {
        if self.witnessed { needed_with_witness(self.n, self.list.len()) } else { needed(self.n, self.list.len()) }
    }

    /// Returns the result of the promises so far (B1, B2).
    pub fn outcome(&self) -> Outcome {
        let have = self.votes.len();
        if have < self.needed() {
            return Outcome::Short { have, needed: self.needed() };
        }
        if let Some(leader) = self.alone.filter(|leader| self.votes.iter().all(|vote| vote.node != *leader)) {
            return Outcome::Alone { leader };
        }
        match self.votes.iter().max_by_key(|vote| vote.reach) {
            Some(ahead) if ahead.reach > self.own && !mutant!("VOTE_REACH_IGNORED") => {
                Outcome::Behind { ahead: ahead.clone() }
            }
            _ => Outcome::Won,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(m: usize) -> Vec<String> {
        (0..m).map(|node| format!("node{node}")).collect()
    }

    fn reach(durable: u64) -> Reach {
        Reach { last_term: Term::new(1), durable: Lsn::new(durable) }
    }

    fn vote(name: &str, reach: Reach) -> Vote {
        Vote { name: name.to_owned(), node: name.bytes().map(u64::from).sum(), reach }
    }

    /// Goal: B4: a node that the witness refuses, since another one acknowledges commits alone, may lead with the
    /// promise of that one (T319), and not with those of others only. Method: two nodes; four, of which one is such a
    /// leader.
    #[test]
    fn a_leader_that_acknowledges_alone_must_promise() {
        let leader = vote("node1", reach(5));
        let mut ballot = Ballot::new(&names(2), 2, ("node0", 0), reach(7));
        ballot.led_alone_by(leader.node);
        assert_eq!(ballot.outcome(), Outcome::Short { have: 1, needed: 2 });
        ballot.promised(leader.clone());
        assert_eq!(ballot.outcome(), Outcome::Won);
        let mut ballot = Ballot::new(&names(4), 3, ("node0", 0), reach(7));
        ballot.led_alone_by(leader.node);
        ["node2", "node3"].into_iter().for_each(|name| ballot.promised(vote(name, reach(7))));
        assert_eq!(ballot.outcome(), Outcome::Alone { leader: leader.node });
        ballot.promised(leader);
        assert_eq!(ballot.outcome(), Outcome::Won);
    }

    /// Goal: the numbers of the design. Method: small lists, case by case.
    #[test]
    fn so_many_promises_are_needed() {
        let cases =
            [((1, 1), 1), ((1, 2), 2), ((2, 2), 2), ((1, 3), 3), ((2, 3), 2), ((3, 3), 2), ((2, 5), 4), ((5, 5), 3)];
        for ((n, m), expected) in cases {
            assert_eq!(needed(n, m), expected, "{n} of {m}");
        }
        for ((n, m), expected) in [((2, 2), 1), ((1, 2), 2), ((2, 3), 2), ((3, 4), 2), ((4, 4), 2), ((2, 4), 3)] {
            assert_eq!(needed_with_witness(n, m), expected, "{n} of {m} and a witness");
        }
    }

    /// Goal: a promise of a node that is not listed, or a second one of the same node, does not count (B3).
    /// Method: both.
    #[test]
    fn only_listed_nodes_count_and_each_once() {
        let list = names(3);
        let mut ballot = Ballot::new(&list, 1, ("node0", 0), reach(5));
        for name in ["node0", "elsewhere", "node1", "node1"] {
            ballot.promised(vote(name, reach(1)));
        }
        assert_eq!(ballot.outcome(), Outcome::Short { have: 2, needed: 3 });
        ballot.promised(vote("node2", reach(6)));
        let ahead = vote("node2", reach(6));
        assert_eq!(ballot.outcome(), Outcome::Behind { ahead });
        let outsider = Ballot::new(&list, 3, ("elsewhere", 9), reach(9));
        assert_eq!(outsider.outcome(), Outcome::Short { have: 0, needed: 2 }, "its own does not count either");
    }

    /// Goal: the log of a node of a newer term reaches further, whatever the positions: the log of an older term
    /// above the fork was set aside. Method: two nodes.
    #[test]
    fn a_newer_term_counts_before_a_position() {
        let list = names(2);
        let mut ballot = Ballot::new(&list, 2, ("node0", 0), reach(100));
        let newer = Reach { last_term: Term::new(2), durable: Lsn::new(50) };
        ballot.promised(vote("node1", newer));
        assert!(matches!(ballot.outcome(), Outcome::Behind { .. }));
    }

    proptest! {
        /// Goal: the winner has everything that was acknowledged (B1). Method: logs of random length; positions
        /// that `n` of them have reached were acknowledged; any candidate, and promises of any of the others.
        #[test]
        fn a_winner_has_everything_acknowledged(
            reached in prop::collection::vec(0_u64..50, 1..8),
            n in 1_usize..8,
            candidate in 0_usize..8,
            asked in prop::collection::vec(any::<bool>(), 8),
        ) {
            let m = reached.len();
            let (n, candidate, list) = (n.min(m), candidate % m, names(m));
            let mut best = reached.clone();
            best.sort_unstable_by_key(|reached| std::cmp::Reverse(*reached));
            let acknowledged = best[n - 1];
            let mut ballot = Ballot::new(&list, n, (&list[candidate], 0), reach(reached[candidate]));
            for node in (0..m).filter(|node| asked[*node]) {
                ballot.promised(vote(&list[node], reach(reached[node])));
            }
            match ballot.outcome() {
                Outcome::Won => prop_assert!(reached[candidate] >= acknowledged, "{reached:?}, {n} of them"),
                Outcome::Behind { ahead } => prop_assert!(ahead.reach > reach(reached[candidate])),
                Outcome::Short { have, needed } => prop_assert!(have < needed),
                Outcome::Alone { .. } => prop_assert!(false, "no witness has said so"),
            }
        }

        /// Goal: two candidates never both win in a term (B2). Method: each of the others, and a witness, gives its
        /// promise to one of them.
        #[test]
        fn two_candidates_never_both_win(m in 1_usize..9, n in 1_usize..9, picks in prop::collection::vec(any::<bool>(), 9)) {
            prop_assume!(m > 1);
            let (n, list) = (n.min(m), names(m));
            let mut ballots = [0, 1].map(|at| Ballot::new(&list, n, (&list[at], at as u64), reach(1)));
            ballots[usize::from(picks[0])].witnessed();
            for node in 2..m {
                ballots[usize::from(picks[node])].promised(vote(&list[node], reach(1)));
            }
            prop_assert!(!ballots.iter().all(|ballot| ballot.outcome() == Outcome::Won));
        }
    }
}
