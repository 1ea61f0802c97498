//! `SccTree`: scc's `TreeIndex`, a B+tree whose readers take no lock. It brings a collector of its own (sdd), so a reader of
//! rows holds two pins; and what was removed is dropped with its leaf, not before.

use std::sync::Arc;

use collie_store::{Key, OrderedIndex, Row, Span};
use collie_sync::StripedCounter;
use scc::{Guard, TreeIndex};

/// `TreeIndex` of rows. Counts them itself: the tree would walk all leaves.
#[derive(Default)]
pub(crate) struct SccTree {
    tree: TreeIndex<Key, Arc<Row>>,
    rows: StripedCounter,
}

impl OrderedIndex for SccTree {
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R> {
        self.tree.peek_with(key, |_, row| look(row))
    }

    /// Looks first: the tree wants the row before it says whether there is one.
    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>> {
        if let Some(row) = self.with(key, Arc::clone) {
            return Err(row);
        }
        let owned = Key::new(key);
        let (row, answer) = make(owned.clone());
        let mut entry = (owned, row);
        loop {
            match self.tree.insert_sync(entry.0, entry.1) {
                Ok(()) => break,
                Err(refused) => entry = refused,
            }
            if let Some(row) = self.with(key, Arc::clone) {
                return Err(row);
            }
        }
        self.rows.add(1);
        Ok(answer)
    }

    fn remove_if(&self, row: &Arc<Row>) -> bool {
        let removed = self.tree.remove_if_sync(row.key(), |present| Arc::ptr_eq(present, row));
        if removed {
            self.rows.add(-1);
        }
        removed
    }

    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool {
        if span.is_empty() {
            return true;
        }
        let guard = Guard::new();
        let mut range = self.tree.range::<[u8], _>((span.start, span.end), &guard);
        for _ in 0..max {
            let Some((key, row)) = (if span.reverse { range.next_back() } else { range.next() }) else { return true };
            visit(key, row);
        }
        false
    }

    fn len(&self) -> usize {
        usize::try_from(self.rows.sum()).unwrap_or(0)
    }

    /// One by one, so that they are counted.
    fn clear(&self) {
        loop {
            let first = self.tree.iter(&Guard::new()).next().map(|(_, row)| Arc::clone(row));
            let Some(row) = first else { return };
            self.remove_if(&row);
        }
    }
}
