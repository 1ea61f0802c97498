//! `Groups`: the atomic groups, whose families are flushed together, so that after a crash all of them show one prefix of what was
//! committed to them.
//!
//! # Invariants
//! - G1. A family is in its group before anybody can write to it, and until it is out of memory: whoever takes the members after
//!   a position has every family that something was committed to below.
//! - G2. It never changes its group; one without a group is alone. Its name row says which (`names`).
//!
//! Checked by `tests/groups.rs` and `tests/kv_model.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use collie_base::{CfId, Map};

/// Which families belong together.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    name_of: Map<CfId, Arc<str>>,
    /// Ascending.
    members: BTreeMap<Arc<str>, Vec<CfId>>,
}

impl Groups {
    /// Puts a family into a group; the empty name is none.
    pub(crate) fn join(&mut self, cf: CfId, group: &str) {
        if group.is_empty() || self.name_of.contains_key(&cf) {
            return;
        }
        let name: Arc<str> = group.into();
        let members = self.members.entry(Arc::clone(&name)).or_default();
        members.insert(members.partition_point(|member| *member < cf), cf);
        self.name_of.insert(cf, name);
    }

    /// Takes a family out.
    pub(crate) fn leave(&mut self, cf: CfId) {
        let Some(name) = self.name_of.remove(&cf) else { return };
        if let Some(members) = self.members.get_mut(&name) {
            members.retain(|member| *member != cf);
            if members.is_empty() {
                self.members.remove(&name);
            }
        }
    }

    /// Returns the families that belong together with this one, itself among them, ascending.
    pub(crate) fn members(&self, cf: CfId) -> Vec<CfId> {
        let members = self.name_of.get(&cf).and_then(|name| self.members.get(name));
        members.map_or_else(|| vec![cf], Vec::clone)
    }

    /// Returns whether two families are one, or of one group.
    pub(crate) fn are_together(&self, one: CfId, other: CfId) -> bool {
        let name = |cf| self.name_of.get(&cf);
        one == other || name(one).is_some_and(|group| name(other) == Some(group))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: G2: families are together exactly while they are in one group. Method: two groups and a family without one, leaving
    /// one by one.
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
