//! Hash maps whose order depends on their history alone, so that a run can be repeated from its seed.
#![allow(clippy::disallowed_types, reason = "this is the replacement that the lint names")]

use foldhash::fast::FixedState;

/// A hash map with a fixed hash function: the same operations give the same order in every process.
///
/// Not for keys a stranger chooses in bulk: colliding keys can be computed for a fixed function.
pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;

/// The set of the same kind as [`Map`].
pub type Set<K> = std::collections::HashSet<K, FixedState>;
