//! Every candidate keeps the guarantees of the store's index (`collie_store::index_checks`).

use collie_store::index_checks::{check_against_a_map, check_under_threads};
use proptest::prelude::*;

use super::shards::Shards;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: every candidate is a map. Method: random steps on it and on a map.
    #[test]
    fn candidates_are_maps(steps in proptest::collection::vec(any::<(u8, u16)>(), 1..120)) {
        check_against_a_map::<Shards>(&steps);
    }
}

/// Goal: the candidates lose nothing under concurrent threads. Method: the stress test for every index.
#[test]
fn shards_lose_nothing_under_threads() {
    check_under_threads::<Shards>(100);
}
