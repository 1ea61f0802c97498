//! [`Asked`]: which lists of replicas are asked for a commit: one, none, or, while the list changes, two. Arithmetic without I/O.
//!
//! ```text
//! ANY 1 (a) -> changing from ANY 1 (a) to ANY 1 (b) -> ANY 1 (b)
//!           ^ a record; both are asked            ^ once both have that record, another one
//! ```
//!
//! # Invariants
//! - A1. While the list changes a commit needs the old list and the new one, and so does a promotion: whoever knows only the old one is
//!   outvoted by those of it that have the record, and whoever knows of the change meets both.
//! - A2. A change is given up for the list before at once; for a third list the one before goes on to be asked. So no list is left, or
//!   taken, that somebody who knows an earlier record does not meet.
//! - A3. Nobody is a list that everybody meets: what A1 says holds among records that ask somebody. A node whose newest record asks nobody is
//!   promoted as one without a list.
//! - A4. The leader counts for every list that names it, with what was on its disk before it promised a higher term: its promise is one that a
//!   promotion by that list may need, as any member's is, and says as much. What reaches its disk later counts for nothing: the node that
//!   got the promise may lack it.
//! - A5. A leader that finds a change between two lists when it begins to lead brings it to its end before it begins another one, back
//!   neither: the change may be over by a record that it does not have, and a node that has that record goes by the new list alone.
//!
//! Checked by the model in `asked_model_tests.rs`: every interleaving of small changes, commits and promotions.

use std::{fmt, iter};

use collie_base::Lsn;

use super::{QuorumError, QuorumList};

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Asked {
    list: Option<QuorumList>,
    before: Option<Option<QuorumList>>,
}

impl From<Option<QuorumList>> for Asked {
    fn from(list: Option<QuorumList>) -> Self {
        Self { list, before: None }
    }
}

impl From<QuorumList> for Asked {
    fn from(list: QuorumList) -> Self {
        Some(list).into()
    }
}

/// Returns a list as text; nobody is no text.
pub fn list_text(list: Option<&QuorumList>) -> String {
    list.map_or_else(String::new, ToString::to_string)
}

impl Asked {
    /// Reads what [`list_text`] made of a list, and of the one before while it changes.
    ///
    /// # Errors
    /// See [`QuorumList::parse`].
    pub fn parse(list: &str, before: Option<&str>) -> Result<Self, QuorumError> {
        let before = before.map(QuorumList::parse).transpose()?;
        Ok(Self { list: QuorumList::parse(list)?, before })
    }

    /// Returns the list that is asked, or will be alone.
    pub fn list(&self) -> Option<&QuorumList> {
        self.list.as_ref()
    }

    /// Returns the list before, which is asked too, while the list changes.
    pub fn before(&self) -> Option<Option<&QuorumList>> {
        self.before.as_ref().map(Option::as_ref)
    }

    /// Returns whether the list changes.
    pub fn is_changing(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the lists that are asked: none, one or two.
    pub fn lists(&self) -> impl Iterator<Item = &QuorumList> {
        iter::once(&self.list).chain(&self.before).flatten()
    }

    /// Returns whether somebody is asked.
    pub fn asks(&self) -> bool {
        self.lists().next().is_some()
    }

    /// Returns whether a slot is asked.
    pub fn has(&self, slot: &str) -> bool {
        self.lists().any(|list| list.members().iter().any(|member| member == slot))
    }

    /// Returns who is asked once somebody has said that it is to be `list` (A2).
    #[must_use]
    pub fn changed_to(&self, list: Option<QuorumList>) -> Self {
        match &self.before {
            _ if self.list == list => self.clone(),
            Some(before) if *before == list => list.into(),
            // Of nobody, whom everybody meets, nothing would be left that meets who is asked now (A3).
            Some(before) if before.is_some() => Self { before: Some(before.clone()), list },
            Some(_) | None => Self { before: Some(self.list.clone()), list },
        }
    }

    /// Returns who is asked once the change is over.
    #[must_use]
    pub fn changed(&self) -> Self {
        self.list.clone().into()
    }

    /// Returns how far all lists have come, of which `reached` says how far each has; `None` where nobody is asked.
    pub fn reached(&self, reached: impl Fn(&QuorumList) -> Lsn) -> Option<Lsn> {
        self.lists().map(reached).min()
    }
}

impl fmt::Display for Asked {
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

    /// Goal: A2 by hand, and text that can be read back. Method: each kind of change, from each kind of state.
    #[test]
    fn changes_go_over_both_lists_and_back_at_once() {
        let [nobody, a, b, c] = ["", "ANY 1 (a)", "ANY 1 (b)", "ANY 1 (c)"].map(list);
        let alone = |list: &Option<QuorumList>| Asked::from(list.clone());
        let both =
            |to: &Option<QuorumList>, from: &Option<QuorumList>| Asked { list: to.clone(), before: Some(from.clone()) };
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
            assert_eq!(Asked::parse(&text, before.as_deref()), Ok(changed));
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
