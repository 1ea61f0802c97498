//! Every candidate keeps what the store's index promises (`collie_store::index_checks`).

use collie_store::index_checks::{check_against_a_map, check_under_threads};
use proptest::prelude::*;

use super::shards::Shards;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: every candidate is a map. Method: random steps on both.
    #[test]
    fn candidates_are_maps(steps in proptest::collection::vec(any::<(u8, u16)>(), 1..120)) {
        check_against_a_map::<Shards>(&steps);
    }
}

/// Goal: threads lose nothing in the candidates. Method: the stress of every index.
#[test]
fn shards_lose_nothing_under_threads() {
    check_under_threads::<Shards>(100);
}
