//! What do constant inserts and removals cost: half of each all over the index, or all threads in the same leaf?

use std::time::Duration;

use collie_store::OrderedIndex;

use super::{
    Case, KEY_BYTES, candidates, cases, in_turn,
    rows::{Dice, Rows, put},
};
use crate::{
    Plan, Section,
    together::{Load, lasting, together},
};

const HOT: &str = "same leaf";
/// Rows that a thread inserts and removes between the same two keys.
const HOT_ROWS: usize = 16;
const CHURN: &str = "insert and remove";
const TIME: Duration = Duration::from_secs(1);

/// A thread's worker that picks its own rows at random, inserts those that are absent and removes those that are
/// present: half of each in the long run.
pub(crate) struct Toggler<'a, I> {
    index: &'a I,
    rows: &'a Rows,
    /// The number of this thread, and how many threads there are.
    mine: (usize, usize),
    dice: Dice,
}

impl<'a, I: OrderedIndex> Toggler<'a, I> {
    /// Creates it. `mine`: its number, and how many there are. Its rows are every `2 * mine.1`th; no other thread may
    /// touch them.
    pub(crate) fn new(index: &'a I, rows: &'a Rows, mine: (usize, usize), seed: u64) -> Self {
        Self { index, rows, mine, dice: Dice::new(seed) }
    }

    /// Inserts or removes one random row.
    ///
    /// # Errors
    /// A row that can be neither inserted nor removed.
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

/// Fills one index and measures all cases with it.
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

/// Lets every thread insert its own rows between the same two keys and remove them again; an insert and its removal
/// count as one operation.
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
        // The case of the same leaf is first, since it needs rows that no other case has removed.
        let cases = cases(&[HOT, CHURN], key_bytes);
        let asked = Asked { plan, rows: &rows, cases: &cases };
        let churn = candidates!(churn);
        in_turn(plan, &mut section, &cases, "changes_per_s", |candidate, run| (churn[candidate].1)(&asked, run))?;
    }
    Ok(section)
}
