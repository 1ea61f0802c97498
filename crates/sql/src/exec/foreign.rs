//! `Events`: the changes of a statement that foreign keys must check. They are noted row by row, and answered when the
//! statement has ended.
//!
//! The answers are not made here: `session::referential` looks for the rows. An event names values, not rows, so that
//! it
//! stays true whatever happens to the row: it is answered from the state at the time of the answer.
//!
//! # Invariants
//! - V1. A row that is written with new values in a key's columns notes an event, unless one of them is NULL (all of
//!   them,
//!   for MATCH FULL): such a row refers to nothing.
//! - V2. A row that is removed, or gets new values in columns that a key refers to, notes an event, unless one of the
//!   old
//!   values is NULL: no row refers to it.
//! - V3. The events of one row are in PostgreSQL's order: first those of the keys that refer to it, then those of its
//!   own
//!   keys, each by OID.
//!
//! Checked by the client tests `foreign_keys` and `tests/sql/foreign_keys.sql`.

use crate::{
    catalog::relation::Oid,
    plan::node::{ForeignKeys, KeyColumns},
    types::Value,
};

/// A change that a foreign key must check.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// OID of the table that declares the key.
    pub table: Oid,
    /// OID of the key.
    pub key: Oid,
    /// The change.
    pub what: Happened,
}

/// A change of a row, with the values of the key's columns in the key's order.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// A row of the table that declares the key now has these values.
    Refers(Box<[Value]>),
    /// A row of the referenced table had these values and was removed.
    Gone(Box<[Value]>),
    /// A row of the referenced table had the first values and now has the second.
    Changed(Box<[Value]>, Box<[Value]>),
}

/// The events of one statement, in the order in which they happened.
#[derive(Debug, Default)]
pub struct Events(Vec<Event>);

/// The number of earlier events that are searched for an equal one: rows loaded in order refer to the same row in turn.
const LOOK_BACK: usize = 8;

impl Events {
    /// Takes all events.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.0)
    }

    fn note(&mut self, columns: &KeyColumns, what: Happened) {
        let event = Event { table: columns.table, key: columns.key, what };
        // Only references are merged: if the referenced row is there for one of two equal checks, it is there for both.
        let again = matches!(event.what, Happened::Refers(_))
            && self.0.iter().rev().take(LOOK_BACK).any(|before| *before == event);
        if !again {
            self.0.push(event);
        }
    }
}

fn values(columns: &KeyColumns, row: &[Value]) -> Box<[Value]> {
    columns.columns.iter().map(|&place| row[place].clone()).collect()
}

fn same(columns: &KeyColumns, old: &[Value], new: &[Value]) -> bool {
    columns.columns.iter().all(|&place| old[place] == new[place])
}

/// Returns whether the referenced values are the same in every visible way: referencing rows also follow a `-0` that
/// became `0`.
fn identical(columns: &KeyColumns, old: &[Value], new: &[Value]) -> bool {
    columns.columns.iter().all(|&place| old[place].is_identical(&new[place]))
}

fn any_null(columns: &KeyColumns, row: &[Value]) -> bool {
    columns.columns.iter().any(|&place| row[place].is_null())
}

fn refers(columns: &KeyColumns, row: &[Value]) -> bool {
    if columns.match_full {
        columns.columns.iter().any(|&place| !row[place].is_null())
    } else {
        !any_null(columns, row)
    }
}

impl ForeignKeys {
    /// Notes a new row (V1).
    pub(crate) fn inserted(&self, row: &[Value], events: &mut Events) {
        for columns in self.declared.iter().filter(|columns| refers(columns, row)) {
            events.note(columns, Happened::Refers(values(columns, row)));
        }
    }

    /// Notes a removed row (V2).
    pub(crate) fn deleted(&self, row: &[Value], events: &mut Events) {
        for columns in self.referring.iter().filter(|columns| !any_null(columns, row)) {
            events.note(columns, Happened::Gone(values(columns, row)));
        }
    }

    /// Notes a rewritten row (V1 to V3).
    pub(crate) fn updated(&self, old: &[Value], new: &[Value], events: &mut Events) {
        let referring =
            self.referring.iter().filter(|columns| !any_null(columns, old) && !identical(columns, old, new));
        for columns in referring {
            events.note(columns, Happened::Changed(values(columns, old), values(columns, new)));
        }
        for columns in self.declared.iter().filter(|columns| !same(columns, old, new) && refers(columns, new)) {
            events.note(columns, Happened::Refers(values(columns, new)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: Value = Value::Null;

    fn key(columns: &[usize], match_full: bool) -> KeyColumns {
        KeyColumns { table: 1, key: 2, columns: columns.into(), match_full }
    }

    fn row(values: &[Option<i32>]) -> Vec<Value> {
        values.iter().map(|value| value.map_or(N, Value::Int4)).collect()
    }

    fn noted(keys: &ForeignKeys, act: impl FnOnce(&ForeignKeys, &mut Events)) -> Vec<Happened> {
        let mut events = Events::default();
        act(keys, &mut events);
        events.take().into_iter().map(|event| event.what).collect()
    }

    /// Goal: V1 and V2: only values that refer, or that rows may refer to, are noted, and only when they change.
    /// Method:
    /// inserts, updates and deletes rows with and without NULL, with keys of both match types.
    #[test]
    fn only_what_a_key_can_ask_about_is_noted() {
        let simple = ForeignKeys { referring: Box::default(), declared: [key(&[0, 1], false)].into() };
        let full = ForeignKeys { referring: Box::default(), declared: [key(&[0, 1], true)].into() };
        let inserted = |keys: &ForeignKeys, values: &[Option<i32>]| {
            noted(keys, |keys, events| keys.inserted(&row(values), events)).len()
        };
        assert_eq!(inserted(&simple, &[Some(1), Some(2)]), 1);
        assert_eq!(inserted(&simple, &[Some(1), None]), 0);
        assert_eq!(inserted(&full, &[Some(1), None]), 1);
        assert_eq!(inserted(&full, &[None, None]), 0);
        let updated = |keys: &ForeignKeys, old: &[Option<i32>], new: &[Option<i32>]| {
            noted(keys, |keys, events| keys.updated(&row(old), &row(new), events))
        };
        let (one_two, one_three) = ([Some(1), Some(2)], [Some(1), Some(3)]);
        assert_eq!(updated(&simple, &one_two, &one_two), []);
        assert_eq!(updated(&simple, &one_two, &[Some(1), None]), []);
        assert_eq!(updated(&simple, &one_two, &one_three), [Happened::Refers(row(&one_three).into())]);
        let referred = ForeignKeys { referring: [key(&[1], false)].into(), declared: Box::default() };
        assert_eq!(updated(&referred, &one_two, &[Some(9), Some(2)]), []);
        assert_eq!(updated(&referred, &[Some(1), None], &one_two), []);
        let (two, three) = (row(&[Some(2)]).into(), row(&[Some(3)]).into());
        assert_eq!(updated(&referred, &one_two, &one_three), [Happened::Changed(two, three)]);
        let deleted = |values: &[Option<i32>]| noted(&referred, |keys, events| keys.deleted(&row(values), events));
        assert_eq!(deleted(&one_two), [Happened::Gone(row(&[Some(2)]).into())]);
        assert_eq!(deleted(&[Some(1), None]), []);
    }

    /// Goal: rows that refer to one row in turn note one event; removals are never merged. Method: makes the same
    /// insert and
    /// the same removal twice, with another insert in between.
    #[test]
    fn what_refers_twice_asks_once() {
        let keys = ForeignKeys { referring: [key(&[0], false)].into(), declared: [key(&[0], false)].into() };
        let all = noted(&keys, |keys, events| {
            for value in [1, 2, 1, 2] {
                keys.inserted(&row(&[Some(value)]), events);
            }
            keys.deleted(&row(&[Some(1)]), events);
            keys.deleted(&row(&[Some(1)]), events);
        });
        let one = || row(&[Some(1)]).into();
        let expected = [
            Happened::Refers(one()),
            Happened::Refers(row(&[Some(2)]).into()),
            Happened::Gone(one()),
            Happened::Gone(one()),
        ];
        assert_eq!(all, expected);
    }
}
