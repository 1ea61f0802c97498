//! What does it cost to insert and remove all the time: half of each all over the index, or all threads in the same leaf?

use std::time::Duration;

use collie_store::OrderedIndex;

use super::{
    Case, KEY_BYTES, candidates, cases, in_turn,
    rows::{Dice, Rows, put},
};
use crate::{
    Plan, Section,
    txn::together::{Load, lasting, together},
};

const HOT: &str = "same leaf";
/// Rows that a thread inserts and removes between the same two keys.
const HOT_ROWS: usize = 16;
const CHURN: &str = "insert and remove";
const TIME: Duration = Duration::from_secs(1);

/// Puts rows of its own in that are not there, and takes out those that are: half of each.
pub(crate) struct Toggler<'a, I> {
    index: &'a I,
    rows: &'a Rows,
    /// The first of its places, and how many threads share.
    mine: (usize, usize),
    dice: Dice,
}

impl<'a, I: OrderedIndex> Toggler<'a, I> {
    /// `mine`: its number, and how many there are; nobody else may touch its rows, every `2 * mine.1`th.
    pub(crate) fn new(index: &'a I, rows: &'a Rows, mine: (usize, usize), seed: u64) -> Self {
        Self { index, rows, mine, dice: Dice::new(seed) }
    }

    /// Turns one row on or off.
    ///
    /// # Errors
    /// A row that is neither there nor not there.
    pub(crate) fn turn(&mut self) -> anyhow::Result<()> {
        let (number, threads) = self.mine;
        let groups = self.rows.count() / (2 * threads);
        let place = self.dice.below(groups) * 2 * threads + 2 * number + 1;
        let row = self.rows.at(place);
        anyhow::ensure!(
            put(self.index, row) || self.index.remove_if(row),
            "a row of one thread was touched by another"
        );
        Ok(())
    }
}

struct Asked<'a> {
    plan: &'a Plan,
    rows: &'a Rows,
    cases: &'a [Case],
}

/// Fills one index and answers all cases with it.
fn churn<I: OrderedIndex + Default>(asked: &Asked<'_>, _run: u64) -> anyhow::Result<Vec<Load>> {
    let Asked { plan, rows, cases } = asked;
    let index: I = rows.filled();
    let answer = |case: &Case| {
        if case.what == HOT {
            return same_leaf(plan, &index, rows, case.threads);
        }
        let worker = |thread: usize| {
            let mut toggler = Toggler::new(&index, rows, (thread, case.threads), thread as u64 + 1);
            move || toggler.turn()
        };
        Ok(together(plan, (0..case.threads).map(worker).collect(), lasting(plan, TIME))?.0)
    };
    cases.iter().map(answer).collect()
}

/// Every thread inserts rows of its own between the same two keys and removes them again; both together count once.
fn same_leaf(plan: &Plan, index: &impl OrderedIndex, rows: &Rows, threads: usize) -> anyhow::Result<Load> {
    let middle = rows.count() / 2;
    let hot: Vec<_> = (middle..middle + threads * HOT_ROWS).map(|place| rows.at(place)).collect();
    anyhow::ensure!(hot.iter().all(|row| index.remove_if(row)), "a row of the index was not found");
    let worker = |thread: usize| {
        let (hot, mut turn) = (&hot, 0);
        move || {
            let row = hot[turn % HOT_ROWS * threads + thread];
            turn += 1;
            anyhow::ensure!(put(index, row) && index.remove_if(row), "a row of one thread was touched by another");
            Ok(())
        }
    };
    let (load, _) = together(plan, (0..threads).map(worker).collect(), lasting(plan, TIME))?;
    anyhow::ensure!(hot.iter().all(|row| put(index, row)), "a row that was removed is there");
    Ok(load)
}

/// Measures every candidate.
///
/// # Errors
/// A candidate that loses a row.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = format!(
        "what does inserting and removing cost? (same leaf: in and out again; else half of each, in {} rows)",
        plan.index_rows()
    );
    let mut section = Section::new("churn", question);
    for key_bytes in KEY_BYTES {
        let rows = Rows::new(key_bytes, plan.index_rows());
        // The same leaf first: it needs rows that nobody has taken out.
        let cases = cases(&[HOT, CHURN], key_bytes);
        let asked = Asked { plan, rows: &rows, cases: &cases };
        let churn = candidates!(churn);
        in_turn(plan, &mut section, &cases, "changes_per_s", |candidate, run| (churn[candidate].1)(&asked, run))?;
    }
    Ok(section)
}
