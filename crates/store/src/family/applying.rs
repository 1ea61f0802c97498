//! A family that follows a log: commits are applied while other threads read. Several threads apply in parallel;
//! all writes of one key come from one thread, in log order.

use std::sync::Arc;

use super::counters::Counted;
use super::{Family, LoggedWrite, signed};
use crate::epoch::Pin;
use crate::index::OrderedIndex;
use crate::key::Key;
use crate::row::{Applied, Row};

/// The old versions that [`Family::apply`] left behind.
#[derive(Debug, Default)]
#[must_use]
pub struct Superseded {
    /// A row that now has an old version.
    pub row: Option<Arc<Row>>,
    /// Bytes of versions that become old once the commit is visible.
    pub bytes: u64,
}

impl<I: OrderedIndex> Family<I> {
    /// Applies a committed write that is the latest of its row, or that the row already has. No snapshot may be
    /// above its commit until this has returned for all of the commit's writes. From then on the row is listed as
    /// unflushed.
    pub fn apply(&self, write: &LoggedWrite<'_>, pin: &Pin) -> Superseded {
        let LoggedWrite { key, value, csn, since, .. } = *write;
        let value_bytes = value.map_or(0, <[u8]>::len);
        loop {
            let found = match value {
                Some(value) => self.index.get_or_insert(key, |key: Key| {
                    let row = Row::committed(key, value, csn);
                    (Arc::clone(&row), row)
                }),
                None => match self.index.with(key, Arc::clone) {
                    Some(row) => Err(row),
                    None => return Superseded::default(),
                },
            };
            let row = match found {
                Ok(row) => {
                    let memory = signed(row.loaded_bytes());
                    self.counters.add(Counted { memory, inserts: 1, ..Counted::default() });
                    self.mark(&row, value_bytes, since);
                    return Superseded::default();
                }
                Err(row) => row,
            };
            match row.apply(value, csn, pin) {
                Applied::OnTop { outdates, bytes } => {
                    self.counters.add(Counted { memory: i64::from(bytes), writes: 1, ..Counted::default() });
                    self.mark(&row, value_bytes, since);
                    return Superseded { row: Some(row), bytes: outdates };
                }
                Applied::Known => return Superseded::default(),
                Applied::Dead => {
                    self.leave_index(&row);
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
