//! `Graph`: dependencies between transactions, and the cycles in them.
//!
//! Knows four kinds of edges and nothing of lists or levels.
//!
//! # Invariants
//! - Y1. [`Graph::cycle`] finds one exactly if there is a closed walk over allowed edges, for a spaced search one in which
//!   no two anti-dependencies follow each other: strongly connected components of the graph, for a spaced search of the
//!   graph with every node twice, once for being come to by an anti-dependency.
//! - Y2. What it returns is a closed walk of allowed edges; the shortest of its component, as far as the budget went.
//!
//! Cost: linear, but for the search of a short cycle in the component found. Checked by `graph_tests.rs` against a search of
//! all walks in small graphs.

use std::collections::VecDeque;

use collie_base::Map;

use super::history::List;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The next version of a list is the other's.
    WriteWrite,
    /// The other read its version.
    WriteRead,
    /// The other's version is the next after the one that it read: an anti-dependency.
    ReadWrite,
    /// It had ended when the other began.
    Order,
}

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    /// By which list; `None` for an order.
    pub(crate) list: Option<List>,
}

/// The dependencies of a history.
#[derive(Debug)]
pub(crate) struct Graph {
    /// By `from`.
    edges: Vec<Edge>,
    /// Where the edges of a node begin; one more at the end.
    first: Vec<usize>,
}

/// Which edges a search goes along.
pub(crate) type Allowed<'a> = &'a dyn Fn(&Edge) -> bool;

/// Edges looked at while searching a short cycle.
const BUDGET_EDGES: usize = 4_000_000;

/// A node, and for a spaced search whether it was come to by an anti-dependency.
type State = usize;

const UNSEEN: usize = usize::MAX;

impl Graph {
    /// Makes a graph of `nodes` nodes. Of edges of one kind between two nodes it keeps one; an edge from a node to itself
    /// says nothing.
    pub(crate) fn new(nodes: usize, mut edges: Vec<Edge>) -> Self {
        edges.retain(|edge| edge.from != edge.to);
        edges.sort_unstable();
        edges.dedup_by_key(|edge| (edge.from, edge.to, edge.kind));
        let first = (0..=nodes).map(|node| edges.partition_point(|edge| edge.from < node)).collect();
        Self { edges, first }
    }

    pub(crate) const fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Returns a cycle over edges that are `allowed`, as short as was found; `spaced`: one in which no anti-dependency
    /// follows another, and the first not the last.
    pub(crate) fn cycle(&self, spaced: bool, allowed: Allowed<'_>) -> Option<Vec<Edge>> {
        let component = self.component(spaced, allowed)?;
        Some(self.shortest(&component, spaced, allowed))
    }

    /// Returns the edges that may follow in a state, each with the state it leads to, from the edge numbered `from` on.
    fn steps(
        &self,
        state: State,
        from: usize,
        spaced: bool,
        allowed: Allowed<'_>,
    ) -> impl Iterator<Item = (usize, State)> {
        let (node, by_anti) = (state / 2, state % 2 == 1);
        let end = self.first[node + 1];
        (self.first[node].max(from)..end).filter_map(move |at| {
            let edge = &self.edges[at];
            let is_anti = spaced && edge.kind == Kind::ReadWrite;
            (allowed(edge) && !(is_anti && by_anti)).then_some((at, edge.to * 2 + usize::from(is_anti)))
        })
    }

    /// Returns the first strongly connected component of more than one state (Tarjan's algorithm, without recursion).
    fn component(&self, spaced: bool, allowed: Allowed<'_>) -> Option<Vec<State>> {
        let states = (self.first.len() - 1) * 2;
        let (mut number, mut low) = (vec![UNSEEN; states], vec![UNSEEN; states]);
        let mut is_open = vec![false; states];
        let (mut open, mut count) = (Vec::new(), 0);
        for root in (0..states).step_by(if spaced { 1 } else { 2 }) {
            if number[root] != UNSEEN {
                continue;
            }
            // A state, and the edge to go on with.
            let mut path = vec![(root, 0)];
            while let Some((state, from)) = path.last_mut() {
                let at = *state;
                if number[at] == UNSEEN {
                    (number[at], low[at]) = (count, count);
                    count += 1;
                    open.push(at);
                    is_open[at] = true;
                }
                if let Some((edge, next)) = self.steps(at, *from, spaced, allowed).next() {
                    *from = edge + 1;
                    if number[next] == UNSEEN {
                        path.push((next, 0));
                    } else if is_open[next] {
                        low[at] = low[at].min(number[next]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent] = low[*parent].min(low[at]);
                }
                if low[at] == number[at] {
                    let begin = open.iter().rposition(|other| *other == at).expect("it is open until here");
                    let members = open.split_off(begin);
                    members.iter().for_each(|member| is_open[*member] = false);
                    if members.len() > 1 {
                        return Some(members);
                    }
                }
            }
        }
        None
    }

    /// Returns a shortest cycle within a component, found from as many of its states as the budget allows.
    fn shortest(&self, component: &[State], spaced: bool, allowed: Allowed<'_>) -> Vec<Edge> {
        let members: Map<State, ()> = component.iter().map(|state| (*state, ())).collect();
        let mut budget = BUDGET_EDGES;
        let mut best: Option<Vec<Edge>> = None;
        for start in component {
            let mut came_by: Map<State, (State, usize)> = Map::default();
            let mut queue = VecDeque::from([*start]);
            'search: while let Some(state) = queue.pop_front() {
                for (edge, next) in self.steps(state, 0, spaced, allowed) {
                    budget = budget.saturating_sub(1);
                    if !members.contains_key(&next) || came_by.contains_key(&next) {
                        continue;
                    }
                    came_by.insert(next, (state, edge));
                    if next == *start {
                        break 'search;
                    }
                    queue.push_back(next);
                }
            }
            let mut cycle = Vec::new();
            let mut at = *start;
            while let Some((before, edge)) = came_by.get(&at) {
                cycle.push(self.edges[*edge]);
                at = *before;
                if at == *start {
                    break;
                }
            }
            cycle.reverse();
            if best.as_ref().is_none_or(|best| cycle.len() < best.len()) {
                best = Some(cycle);
            }
            if budget == 0 || best.as_ref().is_some_and(|best| best.len() == 2) {
                break;
            }
        }
        best.expect("every state of a component is on a cycle")
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
