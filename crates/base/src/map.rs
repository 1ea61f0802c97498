//! Hash maps whose order depends on their history alone, so that a run can be repeated from its seed.
#![allow(clippy::disallowed_types, reason = "this is the replacement that the lint names")]

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;

use crate::CfId;

/// A hash map with a fixed hash function: the same operations give the same order in every process.
///
/// Not for keys a stranger chooses in bulk: colliding keys can be computed for a fixed function.
pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;

/// The set of the same kind as [`Map`].
pub type Set<K> = std::collections::HashSet<K, FixedState>;

/// A hash function of rows' keys, one for each seed: drawn by chance, it is none that a stranger can compute colliding keys for.
#[derive(Clone, Debug)]
pub struct KeyHash(FixedState);

impl KeyHash {
    /// The function of this seed.
    pub fn new(seed: u64) -> Self {
        Self(FixedState::with_seed(seed))
    }

    /// Returns the hash of a key of a family.
    pub fn of(&self, cf: CfId, key: &[u8]) -> u64 {
        self.0.hash_one((cf.get(), key))
    }
}
