//! [`QuorumConfig`]: the lists of replicas that commits need: one, none, or, while the list changes, two. Pure
//! computation without I/O.
//!
//! ```text
//! ANY 1 (a) -> changing from ANY 1 (a) to ANY 1 (b) -> ANY 1 (b)
//!           ^ a record; both are needed           ^ once both have that record, another one
//! ```
//!
//! # Invariants
//! - A1. While the list changes, a commit and a promotion need both the old list and the new one: a candidate that
//!   knows only the old list loses to the members of that list that have the record, and a candidate that knows of
//!   the change needs promises from both lists.
//! - A2. A change can be given up at once for the list before; on a change to a third list the list before stays
//!   in force. So every node that knows an earlier record shares at least one list with the lists in force.
//! - A3. A record that names no list guarantees nothing: A1 applies among records that name a list. A node whose
//!   newest record names none is promoted like a node without a list.
//! - A4. The leader counts for every list that names it, up to its durable position at the time it promised a
//!   higher term: a promotion by that list may need its promise, as that of any member, and the promise covers
//!   that position. Bytes that reach its disk later do not count: the node that got the promise may lack them.
//! - A5. A leader that finds a change between two lists when it begins to lead completes it before it begins
//!   another change, even one back to the list before: a record that this leader lacks may have completed the
//!   change, and a node that has that record uses the new list alone.
//!
//! Checked by the model in `asked_model_tests.rs`: every interleaving of small changes, commits and promotions.

use std::{fmt, iter};

use collie_base::Lsn;

use super::{QuorumError, QuorumList};

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuorumConfig {
    list: Option<QuorumList>,
    before: Option<Option<QuorumList>>,
}

impl From<Option<QuorumList>> for QuorumConfig {
    fn from(list: Option<QuorumList>) -> Self {
        Self { list, before: None }
    }
}

impl From<QuorumList> for QuorumConfig {
    fn from(list: QuorumList) -> Self {
        Some(list).into()
    }
}

/// Returns a list as text; empty without a list.
pub fn list_text(list: Option<&QuorumList>) -> String {
    list.map_or_else(String::new, ToString::to_string)
}

impl QuorumConfig {
    /// Reads the output of [`list_text`] for a list, and for the list before while the list changes.
    ///
    /// # Errors
    /// See [`QuorumList::parse`].
    pub fn parse(list: &str, before: Option<&str>) -> Result<Self, QuorumError> {
        let before = before.map(QuorumList::parse).transpose()?;
        Ok(Self { list: QuorumList::parse(list)?, before })
    }

    /// Returns the list in force, or the new list while the list changes.
    pub fn list(&self) -> Option<&QuorumList> {
        self.list.as_ref()
    }

    /// Returns the list before, which is in force too, while the list changes.
    pub fn before(&self) -> Option<Option<&QuorumList>> {
        self.before.as_ref().map(Option::as_ref)
    }

    /// Returns whether the list is changing.
    pub fn is_changing(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the lists in force: none, one or two.
    pub fn lists(&self) -> impl Iterator<Item = &QuorumList> {
        iter::once(&self.list).chain(&self.before).flatten()
    }

    /// Returns whether any list is in force.
    pub fn asks(&self) -> bool {
        self.lists().next().is_some()
    }

    /// Returns whether a list in force names `slot`.
    pub fn has(&self, slot: &str) -> bool {
        self.lists().any(|list| list.members().iter().any(|member| member == slot))
    }

    /// Returns the lists in force after a request to change to `list` (A2).
    #[must_use]
    pub fn changed_to(&self, list: Option<QuorumList>) -> Self {
        match &self.before {
            _ if self.list == list => self.clone(),
            Some(before) if *before == list => list.into(),
            // If there was no list before, keeping that would leave nothing in common with the list in force now
            // (A3).
            Some(before) if before.is_some() => Self { before: Some(before.clone()), list },
            Some(_) | None => Self { before: Some(self.list.clone()), list },
        }
    }

    /// Returns the lists in force after the change is complete.
    #[must_use]
    pub fn changed(&self) -> Self {
        self.list.clone().into()
    }

    /// Returns the position that all lists in force have reached, where `reached` returns the position of each;
    /// `None` without a list.
    pub fn reached(&self, reached: impl Fn(&QuorumList) -> Lsn) -> Option<Lsn> {
        self.lists().map(reached).min()
    }
}

impl fmt::Display for QuorumConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |list: Option<&QuorumList>| list.map_or_else(|| "nobody".to_owned(), ToString::to_string);
        match self.before() {
            None => f.write_str(&name(self.list())),
            Some(before) => write!(f, "{}, and until both have this {}", name(self.list()), name(before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Option<QuorumList> {
        QuorumList::parse(text).expect("it is right")
    }

    /// Goal: A2 case by case, and text that can be read back. Method: each kind of change, from each kind of
    /// state.
    #[test]
    fn changes_go_over_both_lists_and_back_at_once() {
        let [nobody, a, b, c] = ["", "ANY 1 (a)", "ANY 1 (b)", "ANY 1 (c)"].map(list);
        let alone = |list: &Option<QuorumList>| QuorumConfig::from(list.clone());
        let both = |to: &Option<QuorumList>, from: &Option<QuorumList>| QuorumConfig {
            list: to.clone(),
            before: Some(from.clone()),
        };
        for (from, to, expected) in [
            (alone(&a), &a, alone(&a)),
            (alone(&a), &b, both(&b, &a)),
            (alone(&nobody), &b, both(&b, &nobody)),
            (alone(&a), &nobody, both(&nobody, &a)),
            (both(&b, &a), &b, both(&b, &a)),
            (both(&b, &a), &a, alone(&a)),
            (both(&b, &a), &c, both(&c, &a)),
            (both(&b, &nobody), &nobody, alone(&nobody)),
            (both(&b, &nobody), &c, both(&c, &b)),
            (both(&nobody, &a), &c, both(&c, &a)),
        ] {
            let changed = from.changed_to(to.clone());
            assert_eq!(changed, expected, "{from}, to {}", list_text(to.as_ref()));
            let (text, before) = (list_text(changed.list()), changed.before().map(list_text));
            assert_eq!(QuorumConfig::parse(&text, before.as_deref()), Ok(changed));
        }
        let changing = both(&b, &a);
        assert!(changing.has("a") && changing.has("b") && !changing.has("c") && changing.asks());
        assert_eq!(changing.to_string(), "ANY 1 (b), and until both have this ANY 1 (a)");
        assert_eq!(changing.changed(), alone(&b));
        assert_eq!(changing.lists().count(), 2);
        assert!(both(&nobody, &a).asks() && !alone(&nobody).asks());
        assert_eq!(alone(&nobody).to_string(), "nobody");
    }
}
