//! `Graph`: dependencies between transactions, and the search for cycles in them.
//!
//! It knows four kinds of edges and nothing of lists or levels.
//!
//! # Invariants
//! - Y1. [`Graph::cycle`] finds a cycle exactly if there is a closed walk over allowed edges; a spaced search, exactly
//!   if there is one in which no two anti-dependencies are adjacent. It uses the strongly connected components of the
//!   graph, for a spaced search of the graph with every node twice, once for being reached by an anti-dependency.
//! - Y2. The result is a closed walk of allowed edges, the shortest of its component as far as the budget allowed.
//!
//! Cost: linear, except for the search of a short cycle in the component that was found. Checked by `graph/tests.rs`
//! against a search of all walks in small graphs.

use std::collections::VecDeque;

use collie_base::Map;

use super::history::List;

/// The reason why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The second transaction appended the next version of a list after the first one's.
    WriteWrite,
    /// The second transaction read the first one's version.
    WriteRead,
    /// The second transaction appended the version after the one that the first one read: an anti-dependency.
    ReadWrite,
    /// The first transaction had ended when the second one began.
    Order,
}

/// A dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    /// The list that causes it; `None` for an order.
    pub(crate) list: Option<List>,
}

/// The dependencies of a history.
#[derive(Debug)]
pub(crate) struct Graph {
    /// Sorted by `from`.
    edges: Vec<Edge>,
    /// The index of each node's first edge, and the number of edges at the end.
    first: Vec<usize>,
}

/// Returns whether a search may use an edge.
pub(crate) type Allowed<'a> = &'a dyn Fn(&Edge) -> bool;

/// The number of edges that the search for a short cycle may visit.
const BUDGET_EDGES: usize = 4_000_000;

/// A node, and for a spaced search whether it was reached by an anti-dependency.
type State = usize;

const UNSEEN: usize = usize::MAX;

impl Graph {
    /// Makes a graph of `nodes` nodes. It keeps one of several edges of one kind between two nodes, and drops edges
    /// from a node to itself.
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

    /// Returns a cycle over edges that are `allowed`, the shortest that was found. If `spaced`, no two
    /// anti-dependencies of it are adjacent, including the last and the first edge.
    pub(crate) fn cycle(&self, spaced: bool, allowed: Allowed<'_>) -> Option<Vec<Edge>> {
        let component = self.component(spaced, allowed)?;
        Some(self.shortest(&component, spaced, allowed))
    }

    /// Returns the edges that can follow in a state, each with the state that it leads to, from the edge numbered
    /// `from` on.
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
            // A state, and the edge to continue with.
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

    /// Returns a shortest cycle within a component, searched from as many of its states as the budget allows.
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
mod tests;
