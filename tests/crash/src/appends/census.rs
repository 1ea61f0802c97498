//! `Census`: the transaction that appended each element, the element's place at the end, and the transactions that
//! count as committed.
//!
//! # Rules of a correct history
//! - L1. At the end there is no element that no transaction appended, none twice, and none that was rolled back.
//! - L2. At the end there is every element that an acknowledged transaction appended, those of each transaction in its
//!   order.
//! - L3. Of a transaction without an answer either all elements are there at the end, or none. If any is, the
//!   transaction counts as committed.

use collie_base::Map;

use super::{
    checker::Violation,
    history::{Element, History, List, Op},
};
use crate::journal::Outcome;

/// One append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Append {
    pub(crate) transaction: usize,
    pub(crate) list: List,
    pub(crate) is_undone: bool,
    /// Its place at the end; `None` if it is not there.
    pub(crate) place: Option<usize>,
}

/// Every append of a history.
#[derive(Debug)]
pub(crate) struct Census {
    appends: Map<Element, Append>,
    committed: Vec<bool>,
}

impl Census {
    /// Collects the appends, and checks L1 to L3.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn of(history: &History) -> Result<Self, Violation> {
        let mut appends: Map<Element, Append> = Map::default();
        for (number, transaction) in history.transactions.iter().enumerate() {
            for op in &transaction.ops {
                let (list, element, is_undone) = match op {
                    Op::Append { list, element } => (*list, *element, false),
                    Op::Undone { list, element } => (*list, *element, true),
                    Op::Read { .. } => continue,
                };
                let append = Append { transaction: number, list, is_undone, place: None };
                assert!(appends.insert(element, append).is_none(), "clients append {element} twice");
            }
        }
        for (list, elements) in &history.end {
            for (place, element) in elements.iter().enumerate() {
                let Some(append) = appends.get_mut(element).filter(|append| append.list == *list) else {
                    return Err(Violation::new("garbage", format!("{list} ends with {element}, never appended to it")));
                };
                if let Some(before) = append.place.replace(place) {
                    let text = format!("{list} ends with {element} at places {before} and {place}");
                    return Err(Violation::new("append made twice", text));
                }
            }
        }
        let mut census = Self { appends, committed: Vec::new() };
        census.committed = (0..history.transactions.len())
            .map(|number| census.end_of(history, number))
            .collect::<Result<_, Violation>>()?;
        Ok(census)
    }

    /// Returns whether a transaction counts as committed; checks L2 and L3 for its elements.
    fn end_of(&self, history: &History, number: usize) -> Result<bool, Violation> {
        let transaction = &history.transactions[number];
        let (mut there, mut missing, mut last) = (0, None, None);
        for op in &transaction.ops {
            match op {
                Op::Append { list, element } => match self.append(*element).and_then(|append| append.place) {
                    None => missing = missing.or(Some((*list, *element))),
                    Some(place) => {
                        there += 1;
                        let before = last.replace((*list, place)).filter(|(other, _)| other == list);
                        if before.is_some_and(|(_, before)| before > place) {
                            return Err(Violation::new("incompatible order", format!("at the end, of {transaction}")));
                        }
                    }
                },
                Op::Undone { element, .. } if self.append(*element).is_some_and(|append| append.place.is_some()) => {
                    let text = format!("{element} is there at the end, of {transaction}");
                    return Err(Violation::new("aborted append", text));
                }
                Op::Undone { .. } | Op::Read { .. } => {}
            }
        }
        match (transaction.outcome, missing) {
            (Outcome::Acknowledged, Some((list, element))) => {
                Err(Violation::new("lost append", format!("{element} is not in {list} at the end, of {transaction}")))
            }
            (Outcome::Unknown, Some((list, element))) if there > 0 => Err(Violation::new(
                "half a transaction",
                format!("{element} is not in {list} at the end, another one is, of {transaction}"),
            )),
            (Outcome::Aborted, _) if there > 0 => {
                Err(Violation::new("aborted append", format!("is there at the end, of {transaction}")))
            }
            (outcome, _) => Ok(outcome == Outcome::Acknowledged || there > 0),
        }
    }

    /// Returns the append of an element.
    pub(crate) fn append(&self, element: Element) -> Option<Append> {
        self.appends.get(&element).copied()
    }

    /// Returns the transaction that appended an element that is there at the end.
    pub(crate) fn writer(&self, element: Element) -> usize {
        self.appends[&element].transaction
    }

    /// Returns whether the transaction counts as committed.
    pub(crate) fn is_committed(&self, transaction: usize) -> bool {
        self.committed[transaction]
    }
}
