//! Tests of the oracle's rules without a server: for each rule a history that it must refuse.

use collie_base::HistoryId;

use super::*;

fn session(client: u64, node: usize, tokens: &[(u64, u64, u64)]) -> Session {
    let tokens = tokens
        .iter()
        .map(|(seq, history, end)| (*seq, Token { history: HistoryId::new(*history), lsn: Lsn::new(*end) }));
    Session { node, level: Level::Flush, journal: Journal::new(client, true), tokens: tokens.collect(), alone: 0 }
}

/// Goal: R8: two nodes that acknowledge in one term are found; two nodes in consecutive terms, or one node over two
/// histories of a term, are allowed. Method: each by hand.
#[test]
fn two_nodes_in_one_term_are_found() {
    let terms = BTreeMap::from([(70, 1), (71, 1), (80, 2)]);
    let fine = [session(1, 0, &[(1, 70, 10), (2, 71, 20)]), session(2, 1, &[(1, 80, 30)])];
    one_node_in_each_term(&fine, &terms).unwrap();
    let unknown = [session(1, 0, &[(1, 70, 10)]), session(2, 1, &[(1, 99, 30)])];
    one_node_in_each_term(&unknown, &terms).unwrap();
    let both = [session(1, 0, &[(1, 70, 10)]), session(2, 1, &[(1, 71, 30)])];
    let error = one_node_in_each_term(&both, &terms).unwrap_err().to_string();
    assert!(error.contains("in term 1 a and b"), "{error}");
}

/// Goal: R10: a token that two commits have is found; equal positions in two histories are allowed. Method: each by
/// hand.
#[test]
fn a_token_with_two_meanings_is_found() {
    one_meaning_of_each_token(&[session(1, 0, &[(1, 70, 10)]), session(2, 1, &[(1, 80, 10)])]).unwrap();
    let twice = [session(1, 0, &[(1, 70, 10)]), session(2, 1, &[(5, 70, 10)])];
    assert!(one_meaning_of_each_token(&twice).is_err());
}
