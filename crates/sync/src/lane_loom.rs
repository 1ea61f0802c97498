//! Loom models of the lane on its own type: a writer and a reader of two slots.
//!
//! Loom explores every interleaving up to the bound and watches the slots: a record that is read during or before its
//! write is a causality violation. Loom does not model load buffering; the lane has no pair that would need it.

use super::lane::lane;
use super::model::{bounds, check};
use super::thread;

/// Three pushes concurrent with three pops; refused records are counted.
fn three_and_three() {
    let (mut writer, mut reader) = lane::<u64>(2);
    let pushing = thread::spawn(move || {
        let mut refused = 0;
        for number in 1..=3 {
            refused += u64::from(writer.push(number).is_err());
        }
        refused
    });
    let mut taken = Vec::new();
    taken.extend((0..3).filter_map(|_| reader.pop()));
    let refused = pushing.join().expect("it ends");
    while let Some(number) = reader.pop() {
        taken.push(number);
    }
    assert!(taken.windows(2).all(|pair| pair[0] < pair[1]), "order is lost: {taken:?}");
    assert_eq!(taken.len() as u64 + refused, 3, "a record is lost");
}

/// One push, then the close; the reader asks whether the lane is over before it has taken all records.
fn closing() {
    let (mut writer, mut reader) = lane::<u64>(2);
    let pushing = thread::spawn(move || {
        writer.push(7).expect("there is room");
        drop(writer);
    });
    assert!(!reader.is_over(), "over with a record in it");
    let taken = reader.pop();
    if reader.is_over() {
        assert_eq!(taken, Some(7), "over with a record in it");
    }
    pushing.join().expect("it ends");
}

/// Goal: a record is complete when it is read, and its slot is free when it is written again. Method: each ordering
/// weakened.
#[test]
fn loom_lane_hands_over_whole_records() {
    const TORN: &str = "Causality violation";
    let (preemptions, floor) = bounds((3, 100), (6, 500));
    let mistakes = [
        ("LANE_TAIL_STORE", 3, TORN),
        ("LANE_TAIL_LOAD", 3, TORN),
        ("LANE_HEAD_STORE", 3, TORN),
        ("LANE_HEAD_LOAD", 3, TORN),
    ];
    check("lane", three_and_three, preemptions, floor, &mistakes);
}

/// Goal: a lane that is over has no records left. Method: each ordering of the close weakened.
#[test]
fn loom_lane_is_over_only_when_it_is_empty() {
    const LEFT: &str = "over with a record in it";
    let (preemptions, floor) = bounds((3, 10), (6, 10));
    let mistakes = [("LANE_CLOSED_STORE", 3, LEFT), ("LANE_CLOSED_LOAD", 3, LEFT)];
    check("lane closing", closing, preemptions, floor, &mistakes);
}
