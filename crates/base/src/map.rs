//! Hash maps whose order depends only on their history, so that a run can be repeated from its seed.
#![allow(clippy::disallowed_types, reason = "this is the replacement that the lint names")]

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;

use crate::CfId;

/// A hash map with a fixed hash function: the same operations give the same order in every process.
///
/// Do not use it for keys that an untrusted client chooses in bulk: for a fixed function, colliding keys can be
/// computed.
pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;

/// The set with the same hash function as [`Map`].
pub type Set<K> = std::collections::HashSet<K, FixedState>;

/// A hash function for keys of rows, one per seed. With a random seed, an untrusted client cannot compute
/// colliding keys.
#[derive(Clone, Debug)]
pub struct KeyHash(FixedState);

impl KeyHash {
    /// Returns the function for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// Returns the hash of a key in a family.
    pub fn of(&self, cf: CfId, key: &[u8]) -> u64 {
        self.0.hash_one((cf.get(), key))
    }
}
