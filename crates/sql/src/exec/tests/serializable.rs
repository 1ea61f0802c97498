//! Two sessions at SERIALIZABLE: the commit validates what the plan has read, in a table or through an index.

use collie_engine::Isolation;

use super::{
    conflict::fixture_of,
    fixture::{Client, Fixture},
    tree::{col, delete, insert, int, op, query, range, select, update},
};
use crate::{
    analyze::bound::Analyzed,
    error::{Result, SqlState},
    exec::error::from_engine,
    types::SqlType,
};

const INT: SqlType = SqlType::INT4;

/// Rows (1, 10) to (40, 400).
fn fixture() -> Fixture {
    fixture_of(40)
}

/// SELECT id FROM t WHERE column = value.
fn equal(fixture: &Fixture, column: usize, value: i32) -> Analyzed {
    let t = fixture.table("t");
    query(select(vec![range(&t)], Some(op("=", col(0, column, INT), int(value))), vec![col(0, 0, INT)]))
}

fn serializable<'f>(fixture: &'f Fixture, read: &Analyzed) -> Client<'f> {
    let mut client = fixture.client();
    client.begin(Isolation::Serializable);
    client.run(read, &[]).unwrap();
    client
}

fn commit(mut client: Client<'_>) -> Result<()> {
    client.session.commit(true).map_err(from_engine)?.block().map_err(from_engine)?;
    Ok(())
}

fn refused(ended: Result<()>) {
    let error = ended.unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    let text = format!("{error:?}");
    assert!(text.contains("read/write dependencies among transactions"), "{text}");
}

/// Goal: a look-up by the primary key or through an index conflicts with changes of the rows it found or did not find,
/// and
/// with no others. Method: combines each of two look-ups with each change by another session; the reader then writes an
/// unrelated row.
#[test]
fn look_up_answers_for_what_it_looked_for_and_no_more() {
    let fixture = fixture();
    let t = fixture.table("t");
    let set_a = |id: i32, a: i32| update(&t, vec![(1, int(a))], Some(op("=", col(0, 0, INT), int(id))));
    let by_id = |id: i32| equal(&fixture, 0, id);
    let by_a = |a: i32| equal(&fixture, 1, a);
    let cases: Vec<(&str, Analyzed, Analyzed, bool)> = vec![
        ("the row by key changes", by_id(1), set_a(1, 11), false),
        ("another row changes", by_id(1), set_a(2, 21), true),
        ("the key that was not there comes", by_id(100), insert(&t, vec![vec![int(100), int(1)]]), false),
        ("another key comes", by_id(101), insert(&t, vec![vec![int(102), int(1)]]), true),
        ("the row by index goes", by_a(50), delete(&t, Some(op("=", col(0, 0, INT), int(5)))), false),
        ("a row moves into the index range", by_a(60), set_a(8, 60), false),
        ("a row moves out of the index range", by_a(90), set_a(9, 91), false),
        ("a row moves beside the index range", by_a(110), set_a(12, 121), true),
        (
            "a row that was not there comes into the index range",
            by_a(7),
            insert(&t, vec![vec![int(103), int(7)]]),
            false,
        ),
    ];
    for (what, read, change, passes) in cases {
        let mut reader = serializable(&fixture, &read);
        fixture.client().run(&change, &[]).unwrap();
        reader.run(&set_a(40, 1), &[]).unwrap();
        let ended = commit(reader);
        if passes {
            ended.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        } else {
            assert!(ended.is_err(), "{what}: goes unnoticed");
            refused(ended);
        }
    }
    fixture.check_indexes();
}

/// Goal: write skew through an index ends one of two transactions. Method: each looks for the other's value, finds
/// nothing,
/// and moves a row there; at REPEATABLE READ both commit.
#[test]
fn write_skew_through_an_index_ends_one_of_two() {
    let fixture = fixture();
    let t = fixture.table("t");
    let set_a = |id: i32, a: i32| update(&t, vec![(1, int(a))], Some(op("=", col(0, 0, INT), int(id))));
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let (low, high) = if isolation == Isolation::RepeatableRead { (1001, 1002) } else { (2001, 2002) };
        let [one, two] = [(high, 1, low), (low, 2, high)].map(|(absent, id, value)| {
            let mut client = fixture.client();
            client.begin(isolation);
            assert!(client.run(&equal(&fixture, 1, absent), &[]).unwrap().rows.is_empty());
            client.run(&set_a(id, value), &[]).unwrap();
            client
        });
        commit(two).unwrap();
        match isolation {
            Isolation::Serializable => refused(commit(one)),
            _ => commit(one).unwrap(),
        }
    }
    fixture.check_indexes();
}
