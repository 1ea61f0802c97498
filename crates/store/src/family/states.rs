//! The states of a family's rows with their commits, used to compare two databases and to rewrite an LSM tree.

use std::ops::Bound;

use collie_base::Lsn;

use super::{Family, SCAN_BATCH_ROWS};
use crate::epoch::pin;
use crate::index::{OrderedIndex, Span};
use crate::stamp::Resolve;

/// The state of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Where it was committed.
    pub csn: Lsn,
}

impl<I: OrderedIndex> Family<I> {
    /// Visits the states that commits below `snapshot` have left, in key order. The caller holds the snapshot
    /// during the call. `visit` runs under a pin, so it must not wait.
    pub fn states(&self, snapshot: Lsn, fates: &impl Resolve, visit: &mut dyn FnMut(State<'_>)) {
        let mut last: Option<Vec<u8>> = None;
        loop {
            last = self.states_after(last.as_deref(), snapshot, fates, visit);
            if last.is_none() {
                return;
            }
        }
    }

    /// Visits a few hundred rows above the key `after`, or the first rows if it is `None`, as [`Family::states`]
    /// does. Returns the last key examined if there may be more.
    pub fn states_after(
        &self,
        after: Option<&[u8]>,
        snapshot: Lsn,
        fates: &impl Resolve,
        visit: &mut dyn FnMut(State<'_>),
    ) -> Option<Vec<u8>> {
        let first_commit = self.first_commit();
        if first_commit >= snapshot && first_commit > Lsn::ZERO {
            return None; // A2
        }
        let (pin, mut seen, mut next) = (pin(), 0, Vec::new());
        let whole = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
        let from = after.map_or(whole, |key| whole.after(key));
        let ended = self.index.visit(from, SCAN_BATCH_ROWS, &mut |key, row| {
            if let Some((csn, value)) = row.state_below(snapshot, fates, &pin) {
                visit(State { key, value, csn: csn.max(first_commit) });
            }
            seen += 1;
            if seen == SCAN_BATCH_ROWS {
                next.extend_from_slice(key);
            }
        });
        (!ended).then_some(next)
    }
}
