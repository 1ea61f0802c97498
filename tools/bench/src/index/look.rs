//! What does a lookup cost: one row by key, a hundred rows from a key on, forward and backward; alone, and with a
//! concurrent writer?

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use collie_store::{OrderedIndex, Span};

use super::{
    Case, KEY_BYTES, candidates, cases,
    churn::Toggler,
    in_turn,
    rows::{Dice, Rows, put},
};
use crate::{
    Plan, Section,
    together::{Load, lasting, together_beside},
};

const GET: &str = "get";
const GET_BESIDE: &str = "get beside a writer";
const FORWARD: &str = "scan 100 forward";
const BACKWARD: &str = "scan 100 backward";
const SCAN_ROWS: usize = 100;
const TIME: Duration = Duration::from_secs(1);

struct Asked<'a> {
    plan: &'a Plan,
    rows: &'a Rows,
    cases: &'a [Case],
}

/// Fills one index and measures all cases with it.
fn look<I: OrderedIndex + Default>(asked: &Asked<'_>, run: u64) -> anyhow::Result<Vec<Load>> {
    let Asked { plan, rows, cases } = asked;
    let index: I = rows.filled();
    let answer = |case: &Case| {
        let workers = (0..case.threads).map(|thread| {
            let (index, mut dice) = (&index, Dice::new(run * 100 + thread as u64));
            move || {
                let row = rows.at(rows.any(&mut dice));
                match case.what {
                    FORWARD | BACKWARD => scan(index, row.key(), case.what == BACKWARD),
                    // Only a row that the writer has removed for a moment may be missing (those at odd places).
                    _ => {
                        let found = index.with(row.key(), |found| Arc::ptr_eq(found, row));
                        let missing = found.is_none() && case.what == GET_BESIDE;
                        anyhow::ensure!(found == Some(true) || missing, "a row was not found");
                    }
                }
                Ok(())
            }
        });
        let writer = (case.what == GET_BESIDE).then(|| {
            let mut toggler = Toggler::new(&index, rows, (0, 1), 99);
            move || toggler.turn()
        });
        let load = together_beside(plan, workers.collect(), writer, lasting(plan, TIME));
        if case.what == GET_BESIDE {
            // Puts back the rows that the writer had removed.
            (0..rows.count()).for_each(|place| {
                put(&index, rows.at(place));
            });
        }
        load
    };
    cases.iter().map(answer).collect()
}

/// Adds up the lengths and key bytes that it visits, so that every row is touched.
fn scan(index: &impl OrderedIndex, from: &[u8], reverse: bool) {
    let span = if reverse {
        Span { start: Bound::Unbounded, end: Bound::Included(from), reverse }
    } else {
        Span { start: Bound::Included(from), end: Bound::Unbounded, reverse }
    };
    let mut bytes = 0;
    index.visit(span, SCAN_ROWS, &mut |key, row| bytes += key.len() + usize::from(row.key()[0]));
    std::hint::black_box(bytes);
}

/// Measures every candidate.
///
/// # Errors
/// A candidate that loses a row.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new(
        "look",
        format!("what does a look cost? (one key of {} at random, a hundred rows from there on)", plan.index_rows()),
    );
    for key_bytes in KEY_BYTES {
        let rows = Rows::new(key_bytes, plan.index_rows());
        let cases = cases(&[GET, GET_BESIDE, FORWARD, BACKWARD], key_bytes);
        let asked = Asked { plan, rows: &rows, cases: &cases };
        let look = candidates!(look);
        in_turn(plan, &mut section, &cases, "looks_per_s", |candidate, run| (look[candidate].1)(&asked, run))?;
    }
    Ok(section)
}
