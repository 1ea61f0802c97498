//! Random INSERT, upserts, UPDATE, DELETE and rollback, compared with a map of rows; the indexes are checked after
//! each.

use std::collections::BTreeMap;

use collie_engine::Isolation;
use proptest::prelude::*;

use super::{
    fixture::{Fixture, Table},
    tree::{col, delete, int, null, op, query, range, select, text, update},
};
use crate::{
    analyze::bound::{Analyzed, Expr},
    types::{SqlType, Value},
};

const INT: SqlType = SqlType::INT4;

#[derive(Clone, Debug)]
enum Step {
    Insert(i32, Option<i32>, u8),
    /// ON CONFLICT DO NOTHING, on any key.
    Keep(i32, Option<i32>, u8),
    /// ON CONFLICT (id) DO UPDATE SET (a, b) = (excluded.a, excluded.b).
    ByKey(i32, Option<i32>, u8),
    /// ON CONFLICT (a) DO UPDATE SET (id, b) = (excluded.id, excluded.b) WHERE the text differs.
    ByUnique(i32, Option<i32>, u8),
    SetKey(i32, i32),
    SetUnique(i32, Option<i32>),
    SetText(i32, u8),
    ShiftUnique(i32),
    DeleteByKey(i32),
    DeleteByText(u8),
    Begin,
    Commit,
    Rollback,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12i32;
    let unique = || proptest::option::of(0..12i32);
    prop_oneof![
        4 => (key.clone(), unique(), 0..4u8).prop_map(|(id, a, b)| Step::Insert(id, a, b)),
        2 => (key.clone(), unique(), 0..4u8).prop_map(|(id, a, b)| Step::Keep(id, a, b)),
        2 => (key.clone(), unique(), 0..4u8).prop_map(|(id, a, b)| Step::ByKey(id, a, b)),
        2 => (key.clone(), unique(), 0..4u8).prop_map(|(id, a, b)| Step::ByUnique(id, a, b)),
        2 => (key.clone(), key.clone()).prop_map(|(from, to)| Step::SetKey(from, to)),
        2 => (key.clone(), unique()).prop_map(|(id, a)| Step::SetUnique(id, a)),
        2 => (key.clone(), 0..4u8).prop_map(|(id, b)| Step::SetText(id, b)),
        1 => (-2..=2i32).prop_map(Step::ShiftUnique),
        1 => key.prop_map(Step::DeleteByKey),
        1 => (0..4u8).prop_map(Step::DeleteByText),
        1 => Just(Step::Begin),
        1 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

type Rows = BTreeMap<i32, (Option<i32>, String)>;

fn name(number: u8) -> String {
    format!("name {number}")
}

fn optional(value: Option<i32>) -> Expr {
    value.map_or_else(|| null(INT), int)
}

/// Applies a step to the model; returns `None` if the step must fail. A shift of the unique column meets rows in key
/// order, so it is checked row by row as in the statement.
fn apply(rows: &Rows, step: &Step) -> Option<(Rows, u64)> {
    let mut new = rows.clone();
    let taken =
        |rows: &Rows, a: Option<i32>, but: i32| a.is_some() && rows.iter().any(|(id, row)| *id != but && row.0 == a);
    let count = match step {
        Step::Insert(id, a, b) => {
            if rows.contains_key(id) || taken(rows, *a, -1) {
                return None;
            }
            new.insert(*id, (*a, name(*b)));
            1
        }
        Step::Keep(id, a, b) => {
            let free = !rows.contains_key(id) && !taken(rows, *a, -1);
            if free {
                new.insert(*id, (*a, name(*b)));
            }
            u64::from(free)
        }
        Step::ByKey(id, a, b) => {
            if taken(rows, *a, *id) {
                return None;
            }
            new.insert(*id, (*a, name(*b)));
            1
        }
        Step::ByUnique(id, a, b) => {
            let old = rows.iter().find(|(_, row)| a.is_some() && row.0 == *a).map(|(id, row)| (*id, row.1.clone()));
            match old {
                Some((_, text)) if text == name(*b) => 0,
                Some((old, _)) if old != *id && rows.contains_key(id) => return None,
                None if rows.contains_key(id) => return None,
                old => {
                    old.map(|(old, _)| new.remove(&old));
                    new.insert(*id, (*a, name(*b)));
                    1
                }
            }
        }
        Step::SetKey(from, to) => match new.remove(from) {
            None => 0,
            Some(row) => {
                if from != to && rows.contains_key(to) {
                    return None;
                }
                new.insert(*to, row);
                1
            }
        },
        Step::SetUnique(id, a) => {
            if !rows.contains_key(id) {
                0
            } else if taken(rows, *a, *id) {
                return None;
            } else {
                new.get_mut(id)?.0 = *a;
                1
            }
        }
        Step::SetText(id, b) => match new.get_mut(id) {
            None => 0,
            Some(row) => {
                row.1 = name(*b);
                1
            }
        },
        Step::ShiftUnique(by) => {
            let ids: Vec<i32> = rows.keys().copied().collect();
            for id in &ids {
                let shifted = new[id].0.map(|a| a + by);
                if taken(&new, shifted, *id) {
                    return None;
                }
                new.get_mut(id)?.0 = shifted;
            }
            ids.len() as u64
        }
        Step::DeleteByKey(id) => u64::from(new.remove(id).is_some()),
        Step::DeleteByText(b) => {
            new.retain(|_, row| row.1 != name(*b));
            (rows.len() - new.len()) as u64
        }
        Step::Begin | Step::Commit | Step::Rollback => 0,
    };
    Some((new, count))
}

fn statement(fixture: &Fixture, step: &Step) -> Option<Analyzed> {
    let upsert = |id: &i32, a: &Option<i32>, b: &u8, clause: &str| {
        let a = a.map_or_else(|| "null".to_owned(), |a| a.to_string());
        let text = format!("insert into t values ({id}, {a}, '{}') on conflict {clause}", name(*b));
        fixture.client().analyze(&text).unwrap()
    };
    let t = fixture.table("t");
    let by_key = |id: i32| Some(op("=", col(0, 0, INT), int(id)));
    Some(match step {
        Step::Insert(id, a, b) => super::tree::insert(&t, vec![vec![int(*id), optional(*a), text(&name(*b))]]),
        Step::Keep(id, a, b) => upsert(id, a, b, "do nothing"),
        Step::ByKey(id, a, b) => upsert(id, a, b, "(id) do update set (a, b) = (excluded.a, excluded.b)"),
        Step::ByUnique(id, a, b) => {
            upsert(id, a, b, "(a) do update set (id, b) = (excluded.id, excluded.b) where t.b <> excluded.b")
        }
        Step::SetKey(from, to) => update(&t, vec![(0, int(*to))], by_key(*from)),
        Step::SetUnique(id, a) => update(&t, vec![(1, optional(*a))], by_key(*id)),
        Step::SetText(id, b) => update(&t, vec![(2, text(&name(*b)))], by_key(*id)),
        Step::ShiftUnique(by) => update(&t, vec![(1, op("+", col(0, 1, INT), int(*by)))], None),
        Step::DeleteByKey(id) => delete(&t, by_key(*id)),
        Step::DeleteByText(b) => delete(&t, Some(op("=", col(0, 2, SqlType::TEXT), text(&name(*b))))),
        Step::Begin | Step::Commit | Step::Rollback => return None,
    })
}

fn run(steps: Vec<Step>) {
    let fixture = Fixture::new(&[Table {
        name: "t",
        columns: &[("id", INT, true), ("a", INT, false), ("b", SqlType::TEXT, false)],
        primary: &[0],
        indexes: &[("t_a_key", true, &[1]), ("t_b_idx", false, &[2]), ("t_ba_idx", false, &[2, 1])],
    }]);
    let t = fixture.table("t");
    let mut client = fixture.client();
    let mut rows = Rows::new();
    let mut saved: Option<Rows> = None;
    for step in &steps {
        match (step, &saved) {
            (Step::Begin, None) => {
                client.begin(Isolation::ReadCommitted);
                saved = Some(rows.clone());
            }
            (Step::Commit, Some(_)) => {
                client.commit();
                saved = None;
            }
            (Step::Rollback, Some(_)) => {
                client.rollback();
                rows = saved.take().unwrap();
            }
            _ => {}
        }
        let Some(statement) = statement(&fixture, step) else { continue };
        match (apply(&rows, step), client.run(&statement, &[])) {
            (Some((new, count)), Ok(answer)) => {
                assert_eq!(answer.count, count, "{step:?}");
                rows = new;
            }
            (None, Err(error)) => {
                assert_eq!(error.state(), crate::error::SqlState::UNIQUE_VIOLATION, "{step:?}");
                // The fixture's client rolls back as a whole after an error.
                if let Some(before) = saved.take() {
                    rows = before;
                }
            }
            (expected, got) => panic!("{step:?}: expected {expected:?}, got {got:?}"),
        }
        let targets = vec![col(0, 0, INT), col(0, 1, INT), col(0, 2, SqlType::TEXT)];
        let answer = client.run(&query(select(vec![range(&t)], None, targets)), &[]).unwrap();
        let found: Rows = answer
            .rows
            .iter()
            .map(|row| (row[0].as_i32().unwrap(), (row[1].as_i32(), row[2].as_str().unwrap().to_owned())))
            .collect();
        assert_eq!(found, rows, "after {step:?}");
        // Each row is found through each index.
        for (id, (a, b)) in rows.iter().take(3) {
            let by_text = op("=", col(0, 2, SqlType::TEXT), text(b));
            let answer = client.run(&query(select(vec![range(&t)], Some(by_text), vec![col(0, 0, INT)])), &[]).unwrap();
            assert!(answer.rows.contains(&vec![Value::Int4(*id)]), "by text after {step:?}");
            if let Some(a) = a {
                let by_unique = op("=", col(0, 1, INT), int(*a));
                let answer = client.run(&query(select(vec![range(&t)], Some(by_unique), vec![col(0, 0, INT)])), &[]);
                assert_eq!(answer.unwrap().rows, vec![vec![Value::Int4(*id)]], "by unique after {step:?}");
            }
        }
        if saved.is_none() {
            fixture.check_indexes();
        }
    }
    if saved.is_some() {
        client.commit();
        fixture.check_indexes();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Goal: table and indexes agree with each other and with a map of rows after any history. Method: runs random
    /// statements
    /// and transactions on small key ranges, so that conflicts of keys are common.
    #[test]
    fn random_statements_leave_rows_and_indexes_as_a_map_says(steps in proptest::collection::vec(step(), 1..40)) {
        run(steps);
    }
}
