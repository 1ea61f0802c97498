//! `Groups`: the atomic groups. The families of a group are flushed together, so that after a crash all of them
//! show one prefix of the commits to them.
//!
//! # Invariants
//! - G1. A family is in its group before any session can write to it, and until it is out of memory. So a list of
//!   members that is read after a position includes every family with a commit below that position.
//! - G2. A family never changes its group; one without a group is alone. Its name row states the group (`names`).
//!
//! Checked by `tests/groups.rs` and `tests/model.rs` of `crates/kv`.

use std::collections::BTreeMap;
use std::sync::Arc;

use collie_base::{CfId, Map};

/// The families that belong together.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    name_of: Map<CfId, Arc<str>>,
    /// The members of each group, ascending.
    members: BTreeMap<Arc<str>, Vec<CfId>>,
}

impl Groups {
    /// Puts a family into a group; the empty name stands for none.
    pub(crate) fn join(&mut self, cf: CfId, group: &str) {
        if group.is_empty() || self.name_of.contains_key(&cf) {
            return;
        }
        let name: Arc<str> = group.into();
        let members = self.members.entry(Arc::clone(&name)).or_default();
        members.insert(members.partition_point(|member| *member < cf), cf);
        self.name_of.insert(cf, name);
    }

    /// Removes a family.
    pub(crate) fn leave(&mut self, cf: CfId) {
        let Some(name) = self.name_of.remove(&cf) else { return };
        if let Some(members) = self.members.get_mut(&name) {
            members.retain(|member| *member != cf);
            if members.is_empty() {
                self.members.remove(&name);
            }
        }
    }

    /// Returns the families in the group of this one, including itself, ascending.
    pub(crate) fn members(&self, cf: CfId) -> Vec<CfId> {
        let members = self.name_of.get(&cf).and_then(|name| self.members.get(name));
        members.map_or_else(|| vec![cf], Vec::clone)
    }

    /// Returns whether two families are the same, or in the same group.
    pub(crate) fn are_together(&self, one: CfId, other: CfId) -> bool {
        let name = |cf| self.name_of.get(&cf);
        one == other || name(one).is_some_and(|group| name(other) == Some(group))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: G2: families are together exactly while they are in one group. Method: two groups and a family
    /// without one, from which families leave one by one.
    #[test]
    fn families_are_together_while_they_are_in_one_group() {
        let [a, b, c, d] = [9, 3, 5, 7].map(CfId::new);
        let mut groups = Groups::default();
        for (cf, group) in [(a, "g"), (b, "g"), (c, "h"), (d, ""), (a, "h")] {
            groups.join(cf, group);
        }
        assert_eq!([a, b, c, d].map(|cf| groups.members(cf)), [vec![b, a], vec![b, a], vec![c], vec![d]]);
        assert!(groups.are_together(a, b) && groups.are_together(d, d));
        assert!(!groups.are_together(a, c) && !groups.are_together(d, c));
        [b, d].into_iter().for_each(|cf| groups.leave(cf));
        assert_eq!((groups.members(a), groups.members(b)), (vec![a], vec![b]));
        assert!(!groups.are_together(a, b));
        groups.leave(a);
        assert!(groups.members.keys().all(|name| &**name == "h"), "an empty group is gone");
    }
}
