//! What does an insert cost: with keys in order, as from a sequence, or in random order?

use collie_store::OrderedIndex;

use super::{
    Case, KEY_BYTES, candidates, cases, in_turn,
    rows::{Rows, put},
};
use crate::{
    Plan, Section,
    together::{Load, each_once},
};

const ORDER: &str = "in order";
const RANDOM: &str = "random";

struct Asked<'a> {
    plan: &'a Plan,
    rows: &'a Rows,
    order: &'a [usize],
    cases: &'a [Case],
}

fn fill<I: OrderedIndex + Default>(asked: &Asked<'_>, _run: u64) -> anyhow::Result<Vec<Load>> {
    let Asked { plan, rows, order, cases } = asked;
    let mut loads = Vec::new();
    for case in *cases {
        let index = I::default();
        let load = each_once(plan, case.threads, rows.count(), |at| {
            let place = if case.what == ORDER { at } else { order[at] };
            assert!(put(&index, rows.at(place)), "each key comes once");
        });
        anyhow::ensure!(index.len() == rows.count(), "{} of {} rows are there", index.len(), rows.count());
        loads.push(load);
    }
    Ok(loads)
}

/// Measures every candidate.
///
/// # Errors
/// A candidate that loses a row.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = format!("what does an insert cost? (into a new index, until it has {} rows)", plan.index_rows());
    let mut section = Section::new("fill", question);
    for key_bytes in KEY_BYTES {
        let rows = Rows::new(key_bytes, plan.index_rows());
        let (order, cases) = (rows.shuffled(7), cases(&[ORDER, RANDOM], key_bytes));
        let asked = Asked { plan, rows: &rows, order: &order, cases: &cases };
        let fill = candidates!(fill);
        in_turn(plan, &mut section, &cases, "inserts_per_s", |candidate, run| (fill[candidate].1)(&asked, run))?;
    }
    Ok(section)
}
