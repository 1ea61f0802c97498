//! `History`: the operations of transactions on lists with their answers, as their clients recorded them, and the lists
//! at the end.
//!
//! Each element is appended only once in a history, so a read shows whose appends it saw. This module does not judge.

use std::{collections::BTreeMap, fmt};

use collie_engine::Isolation;

use crate::journal::Outcome;

/// A list. A list with an even number is a text, one with an odd number has a row for each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct List(pub(crate) u32);

impl List {
    /// Returns whether it is one row that each append changes.
    pub(crate) const fn is_text(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {}", self.0)
    }
}

/// An element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Element(pub(crate) u32);

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A step of a transaction that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// An append to the end of the list.
    Append { list: List, element: Element },
    /// An append that was rolled back to a savepoint before the next statement.
    Undone { list: List, element: Element },
    /// A read of the whole list by the transaction's statement of this number.
    Read { list: List, elements: Vec<Element>, statement: usize },
}

/// One transaction.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// Its connection. Transactions of one connection are in order in the history.
    pub(crate) session: u64,
    /// A number for the replica's process on which it ran; `None` if it ran on the primary.
    pub(crate) replica: Option<u64>,
    pub(crate) isolation: Isolation,
    /// The time before its first message was sent.
    pub(crate) began_ns: u64,
    /// The time after its end was answered or, without an answer, when the server answered again after the crash.
    pub(crate) ended_ns: u64,
    pub(crate) outcome: Outcome,
    /// The time before each of its statements was sent.
    pub(crate) statements_ns: Vec<u64>,
    pub(crate) ops: Vec<Op>,
}

impl Transaction {
    /// Returns its reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = (List, Vec<Element>)> {
        self.ops.iter().filter_map(|op| match op {
            Op::Read { list, elements, .. } => Some((*list, elements.clone())),
            Op::Append { .. } | Op::Undone { .. } => None,
        })
    }
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) transactions: Vec<Transaction>,
    /// Each list that was ever used, as read at the end.
    pub(crate) end: BTreeMap<List, Vec<Element>>,
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}, {:?}, {:?}", self.session, self.isolation, self.outcome)?;
        self.replica.iter().try_for_each(|life| write!(f, ", on the replica in its life {life}"))?;
        write!(f, ":")?;
        for op in &self.ops {
            match op {
                Op::Append { list, element } => write!(f, " {element} to {list};")?,
                Op::Undone { list, element } => write!(f, " {element} to {list}, undone;")?,
                Op::Read { list, elements, statement } => {
                    write!(f, " statement {statement} read {list} as {};", Tail(elements))?;
                }
            }
        }
        Ok(())
    }
}

/// Displays the last elements of a list, where lists differ.
pub(crate) struct Tail<'e>(pub(crate) &'e [Element]);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = self.0.len().saturating_sub(4);
        let shown: Vec<_> = self.0[hidden..].iter().map(Element::to_string).collect();
        let before = if hidden > 0 { format!("{hidden} elements, ") } else { String::new() };
        write!(f, "[{before}{}]", shown.join(", "))
    }
}
