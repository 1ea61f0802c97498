//! Tests of decisions against bytes: in a world of nodes in which every byte is unique, the bytes show how much
//! two logs really share.

use std::collections::BTreeMap;

use collie_base::{HistoryId, Lsn, Term};
use proptest::prelude::*;

use crate::{
    identity::*,
    packet::{ErrorCode, History},
};

/// A log, byte by byte.
#[derive(Clone, Debug)]
struct Node {
    identity: Identity,
    bytes: BTreeMap<u64, u64>,
    /// The newest history that it began itself.
    began: Option<HistoryId>,
    /// Whether it lost bytes that other nodes may have.
    lied: bool,
}

#[derive(Clone, Debug)]
enum Step {
    /// The node appends this many bytes.
    Append(usize, u64),
    /// The second node takes this many bytes of the first, if it may.
    Follow(usize, usize, u64),
    /// The node starts again: a new history, positions skipped.
    Restart(usize, u64),
    /// The node is promoted.
    Promote(usize, u64),
    /// The node loses its last bytes and starts again.
    Lose(usize, u64),
}

struct World {
    nodes: Vec<Node>,
    next: u64,
}

impl World {
    /// Creates a world of one node with a database; the other nodes are empty.
    fn new(nodes: usize) -> Self {
        let empty = |node: usize| Node {
            identity: Identity {
                cluster: u128::from(node == 0),
                node: node as u64 + 100,
                term: Term::new(0),
                histories: Vec::new(),
                end: Lsn::ZERO,
            },
            bytes: BTreeMap::new(),
            began: None,
            lied: false,
        };
        let mut world = Self { nodes: (0..nodes).map(empty).collect(), next: 1 };
        world.nodes[0].identity.end = Lsn::FIRST;
        world.begin(0, 0, Term::new(0));
        world
    }

    fn draw(&mut self) -> u64 {
        self.next += 1;
        // Like random ids, these ids do not grow with time.
        self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Begins a history, with its first record of one byte.
    fn begin(&mut self, node: usize, skip: u64, term: Term) {
        let id = HistoryId::new(self.draw());
        self.nodes[node].began = Some(id);
        let identity = &mut self.nodes[node].identity;
        let prev_end = identity.end;
        let start = prev_end.plus(skip);
        identity.histories.push(History { term, id, start, prev_end });
        (identity.term, identity.end) = (term, start);
        self.append(node, 1);
    }

    fn append(&mut self, node: usize, count: u64) {
        for _ in 0..count {
            let byte = self.draw();
            let node = &mut self.nodes[node];
            node.bytes.insert(node.identity.end.get(), byte);
            node.identity.end = node.identity.end.plus(1);
        }
    }

    /// Lets `to` take the next bytes of `from`, with the histories that begin in them.
    fn follow(&mut self, from: usize, to: usize, count: u64) {
        let source = self.nodes[from].clone();
        let target = &mut self.nodes[to];
        if target.identity.cluster == 0 {
            (target.identity.cluster, target.identity.end) = (source.identity.cluster, Lsn::FIRST);
        }
        let end = target.identity.end.get();
        for (at, byte) in source.bytes.range(end..).take(usize::try_from(count).unwrap()) {
            target.bytes.insert(*at, *byte);
            target.identity.end = Lsn::new(at + 1);
        }
        let has = |history: &&History| history.start < target.identity.end;
        target.identity.histories = source.identity.histories.iter().filter(has).copied().collect();
        target.identity.term = source.identity.term;
        // A node that follows does not lead.
        (target.began, target.lied) = (None, target.lied || source.lied);
    }

    fn run(&mut self, step: &Step) {
        let count = self.nodes.len();
        let has_database = |world: &Self, node: usize| world.nodes[node].identity.cluster != 0;
        match *step {
            Step::Append(node, bytes) if self.leads(node % count) => self.append(node % count, bytes),
            Step::Follow(from, to, bytes) => {
                let (from, to) = (from % count, to % count);
                if from == to || !self.leads(from) {
                    return;
                }
                match decide(&self.nodes[from].identity, &self.nodes[to].identity) {
                    Decision::Stream { .. } => self.follow(from, to, bytes),
                    Decision::Backup { why: Rebuild::Empty } => self.follow(from, to, bytes.max(1)),
                    Decision::Truncate { start } => {
                        let target = &mut self.nodes[to];
                        target.began = None;
                        target.bytes.retain(|at, _| *at < start.get());
                        target.identity.end = start;
                        target.identity.histories.retain(|history| history.start < start);
                    }
                    _ => {}
                }
            }
            Step::Restart(node, skip) if self.leads(node % count) => {
                let term = self.nodes[node % count].identity.term;
                self.begin(node % count, skip, term);
            }
            Step::Promote(node, skip) if has_database(self, node % count) => {
                let term = Term::new(self.nodes[node % count].identity.term.get() + 1);
                self.begin(node % count, skip, term);
            }
            Step::Lose(node, bytes) if self.leads(node % count) => {
                let term = self.nodes[node % count].identity.term;
                let node_of = &mut self.nodes[node % count];
                let last = node_of.identity.histories.last().copied();
                let first = last.map_or(0, |history| history.start.get()) + 1;
                let end = node_of.identity.end.get().saturating_sub(bytes).max(first);
                node_of.lied |= end < node_of.identity.end.get();
                node_of.bytes.retain(|at, _| *at < end);
                // The positions of lost bytes are not used again: a restart skips positions for this reason.
                let skip = node_of.identity.end.get() - end;
                node_of.identity.end = Lsn::new(end);
                self.begin(node % count, skip, term);
            }
            _ => {}
        }
    }

    /// Returns whether the node began its newest history: no other node appends to that history (R10).
    fn leads(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.began.is_some() && node.identity.histories.last().map(|history| history.id) == node.began
    }
}

/// Returns the first position at which two logs differ.
fn parted(one: &Node, two: &Node) -> u64 {
    let positions: std::collections::BTreeSet<u64> = one.bytes.keys().chain(two.bytes.keys()).copied().collect();
    positions.into_iter().find(|at| one.bytes.get(at) != two.bytes.get(at)).unwrap_or(u64::MAX)
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0..4_usize;
    prop_oneof![
        4 => (node.clone(), 1..9_u64).prop_map(|(node, bytes)| Step::Append(node, bytes)),
        6 => (node.clone(), node.clone(), 0..12_u64).prop_map(|(from, to, bytes)| Step::Follow(from, to, bytes)),
        1 => (node.clone(), 0..5_u64).prop_map(|(node, skip)| Step::Restart(node, skip)),
        1 => (node.clone(), 0..5_u64).prop_map(|(node, skip)| Step::Promote(node, skip)),
        1 => (node, 1..6_u64).prop_map(|(node, bytes)| Step::Lose(node, bytes)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Goal: D1 to D4. Method: after random histories of four nodes, every pair of a node that leads, or believes
    /// that it does, and another node is decided, and the decision is compared with the bytes of both.
    #[test]
    fn decisions_agree_with_the_bytes(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(4);
        for step in &steps {
            world.run(step);
        }
        for (index, primary) in world.nodes.iter().enumerate() {
            for replica in &world.nodes {
                if primary.identity.node == replica.identity.node || !world.leads(index) {
                    continue;
                }
                let (ours, theirs) = (&primary.identity, &replica.identity);
                let parted = parted(primary, replica);
                match decide(ours, theirs) {
                    Decision::Stream { start } => {
                        prop_assert_eq!(start, theirs.end);
                        prop_assert!(parted >= theirs.end.get(), "D1: they part at {parted}, before {start}");
                    }
                    Decision::Truncate { start } => {
                        prop_assert!(parted >= start.get(), "D2: they part at {parted}, before {start}");
                        prop_assert!(start < theirs.end, "nothing to cut");
                        prop_assert!(parted < theirs.end.get(), "D2: all of it is the primary's");
                        prop_assert!(ours.term >= theirs.term, "D4");
                    }
                    Decision::Ahead { end, received } => {
                        prop_assert_eq!(received, theirs.end);
                        prop_assert!(end < received && parted < received.get());
                        let lost = primary.lied || ours.histories.last() == theirs.histories.last();
                        prop_assert!(lost, "D3: only who lost or lags is behind its replica");
                    }
                    Decision::Backup { why } => prop_assert_eq!((why, theirs.cluster), (Rebuild::Empty, 0)),
                    Decision::StepDown { term } => {
                        prop_assert!(term >= ours.term, "D4");
                        prop_assert!(theirs.histories.last().map(|h| h.term) > ours.histories.last().map(|h| h.term)
                            || theirs.term > ours.term || parted < theirs.end.get());
                    }
                    Decision::Refuse { code, .. } => {
                        prop_assert_eq!(code, ErrorCode::Cluster);
                        prop_assert!(parted < theirs.end.get(), "refused, though it could follow");
                    }
                }
            }
        }
    }

    /// Goal: a fork does not depend on the order of the nodes. Method: both orders, in random worlds.
    #[test]
    fn fork_is_symmetric(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(3);
        for step in &steps {
            world.run(step);
        }
        for one in &world.nodes {
            for two in &world.nodes {
                let (one, two) = (&one.identity, &two.identity);
                let there = fork(&one.histories, one.end, &two.histories, two.end);
                let back = fork(&two.histories, two.end, &one.histories, one.end);
                prop_assert_eq!(there.map(|fork| fork.at), back.map(|fork| fork.at));
            }
        }
    }
}

fn history(term: u64, id: u64, start: u64, prev_end: u64) -> History {
    History { term: Term::new(term), id: HistoryId::new(id), start: Lsn::new(start), prev_end: Lsn::new(prev_end) }
}

fn node(node: u64, term: u64, histories: &[History], end: u64) -> Identity {
    Identity { cluster: 7, node, term: Term::new(term), histories: histories.to_vec(), end: Lsn::new(end) }
}

/// Goal: each case of the design's tables gets its decision. Method: one pair of nodes per case.
#[test]
fn each_case_has_its_verdict() {
    let first = history(0, 1, 4096, 4096);
    let restart = history(0, 2, 6000, 5000);
    let promoted = history(1, 3, 7000, 5500);
    let stream = |start| Decision::Stream { start: Lsn::new(start) };
    let truncate = |start| Decision::Truncate { start: Lsn::new(start) };
    let ahead = |end, received| Decision::Ahead { end: Lsn::new(end), received: Lsn::new(received) };
    let check = |primary: &Identity, replica: &Identity, expected: Decision| {
        assert_eq!(decide(primary, replica), expected, "{primary:?} {replica:?}");
    };
    let primary = node(1, 0, &[first], 5000);
    check(&primary, &node(2, 0, &[first], 4500), stream(4500));
    check(&primary, &node(2, 0, &[first], 5000), stream(5000));
    check(&primary, &node(2, 0, &[first], 5001), ahead(5000, 5001));
    // Behind the primary's restart, at the end of the old history and short of it; and with bytes that the restart
    // lost.
    let restarted = node(1, 0, &[first, restart], 6100);
    check(&restarted, &node(2, 0, &[first], 5000), stream(5000));
    check(&restarted, &node(2, 0, &[first], 4999), stream(4999));
    check(&restarted, &node(2, 0, &[first], 5001), ahead(5000, 5001));
    // A promoted node, and the old primary with a tail that it never sent.
    let new_primary = node(2, 1, &[first, promoted], 7100);
    check(&new_primary, &node(1, 0, &[first], 5800), truncate(5500));
    check(&new_primary, &node(1, 0, &[first], 5500), stream(5500));
    check(&new_primary, &node(1, 0, &[first, restart], 6500), truncate(5000));
    // The old primary does not lead a promoted node.
    check(&node(1, 0, &[first], 5800), &new_primary, Decision::StepDown { term: Term::new(1) });
    // Two nodes promoted by force: the greater history stays.
    let other = node(3, 1, &[first, history(1, 9, 7000, 5500)], 7100);
    check(&new_primary, &other, Decision::StepDown { term: Term::new(1) });
    check(&other, &new_primary, truncate(5500));
    // Nodes that do not belong together.
    let refused = |primary: &Identity, replica: &Identity, expected: ErrorCode| match decide(primary, replica) {
        Decision::Refuse { code, .. } => assert_eq!(code, expected),
        other => panic!("{other:?}"),
    };
    refused(&primary, &node(1, 0, &[first], 4500), ErrorCode::NodeInUse);
    refused(&primary, &Identity { cluster: 8, ..node(2, 0, &[first], 4500) }, ErrorCode::Cluster);
    refused(&restarted, &node(2, 0, &[first, history(0, 8, 6000, 5000)], 6100), ErrorCode::Cluster);
    let why = |replica: &Identity| match decide(&primary, replica) {
        Decision::Backup { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&Identity { cluster: 0, ..node(2, 0, &[], 0) }), Rebuild::Empty);
    assert_eq!(why(&node(2, 0, &[history(0, 77, 4096, 4096)], 4500)), Rebuild::NothingCommon);
    assert_eq!(why(&node(2, 0, &[history(0, 1, 4097, 4096)], 4500)), Rebuild::NothingCommon);
}
