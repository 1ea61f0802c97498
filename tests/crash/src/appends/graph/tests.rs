//! Compares the search for cycles with a search of all walks.

use super::*;
use crate::random::Random;

const KINDS: [Kind; 4] = [Kind::WriteWrite, Kind::WriteRead, Kind::ReadWrite, Kind::Order];

fn edge(from: usize, to: usize, kind: Kind) -> Edge {
    Edge { from, to, kind, list: None }
}

/// Returns whether there is a closed walk, by following every state until no new one is found.
fn has_cycle(nodes: usize, edges: &[Edge], spaced: bool) -> bool {
    let next = |(node, by_anti): (usize, bool)| {
        edges.iter().filter(move |edge| edge.from == node && edge.to != node).filter_map(move |edge| {
            let is_anti = spaced && edge.kind == Kind::ReadWrite;
            (!(is_anti && by_anti)).then_some((edge.to, is_anti))
        })
    };
    (0..nodes).flat_map(|node| [(node, false), (node, true)]).any(|start| {
        let mut met: Vec<(usize, bool)> = next(start).collect();
        let mut at = 0;
        while at < met.len() {
            let more: Vec<_> = next(met[at]).filter(|state| !met.contains(state)).collect();
            for state in more {
                if !met.contains(&state) {
                    met.push(state);
                }
            }
            at += 1;
        }
        met.contains(&start)
    })
}

/// Goal: a cycle is found exactly if there is one, and is valid (Y1, Y2). Method: 6,000 random graphs of up to eight
/// nodes, sparse to dense, spaced and not.
#[test]
fn cycle_is_found_exactly_when_there_is_one() {
    let mut random = Random::new(17);
    let mut found = 0;
    for round in 0..6_000 {
        let mut draw = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
        let nodes = 2 + draw(7);
        let edges: Vec<Edge> = (0..draw(2 * nodes) + 1)
            .map(|_| edge(draw(nodes), draw(nodes), KINDS[if draw(2) == 0 { 2 } else { draw(4) }]))
            .collect();
        let spaced = round % 2 == 0;
        let cycle = Graph::new(nodes, edges.clone()).cycle(spaced, &|_| true);
        assert_eq!(cycle.is_some(), has_cycle(nodes, &edges, spaced), "{spaced}: {edges:?}");
        let Some(cycle) = cycle else { continue };
        found += 1;
        for (at, step) in cycle.iter().enumerate() {
            let next = &cycle[(at + 1) % cycle.len()];
            assert!(edges.contains(step) && step.to == next.from, "{cycle:?}");
            assert!(!(spaced && step.kind == Kind::ReadWrite && next.kind == Kind::ReadWrite), "{cycle:?}");
        }
    }
    assert!((1_000..5_000).contains(&found), "{found}: the graphs are too thin or too thick to tell");
}

/// Goal: the shortest cycle is returned, and only allowed edges count. Method: a ring of seven with a shortcut.
#[test]
fn shortest_cycle_of_allowed_edges_is_shown() {
    let mut edges: Vec<Edge> = (0..7).map(|node| edge(node, (node + 1) % 7, Kind::WriteWrite)).collect();
    edges.push(edge(2, 1, Kind::ReadWrite));
    let graph = Graph::new(7, edges);
    assert_eq!(graph.cycle(false, &|_| true).map(|cycle| cycle.len()), Some(2));
    let dependencies = |edge: &Edge| edge.kind != Kind::ReadWrite;
    assert_eq!(graph.cycle(false, &dependencies).map(|cycle| cycle.len()), Some(7));
    assert_eq!(graph.cycle(false, &|edge| edge.kind == Kind::ReadWrite), None);
}
