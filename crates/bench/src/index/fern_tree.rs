//! `FernTree`: ferntree, a B+tree of optimistic lock coupling over the collector that rows use too.
//!
//! It keeps each key in a box of its own, since a key is no word that can be loaded at once; and rows as addresses, which
//! can: an `Arc` would be counted up and down by each look.
//!
//! Three things had to be gone around in 0.7.0. An insert that has to split a full leaf returns without a word when another
//! thread put the same key in meanwhile: here it looks at what is there afterwards. An entry looked at through the exclusive
//! cursor is written back to its place later, even when another stands there by then: here nothing is removed through a cursor
//! that has looked. So "remove it if it is this one" takes two steps, with a mark between them.
//!
//! # Invariants
//! - F1. Each address in the tree came from `Arc::into_raw` and stands for one count of its row. Who takes it out of the
//!   tree gives that count back once no pin taken before is left.
//! - F2. An address becomes `GONE` under the lock of its leaf; whoever made it so removes the entry, and nobody else changes or
//!   removes it. Who wants to insert waits for that.

use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::sync::Arc;

use collie_store::{Key, OrderedIndex, Row, Span};
use collie_sync::{StripedCounter, epoch};
use ferntree::Tree;

/// Stands in the place of an address whose entry is being removed (F2).
const GONE: usize = 0;

/// A key in the tree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct BoxedKey(Key);

ferntree::impl_optimistic_read_boxed!(BoxedKey);

impl std::borrow::Borrow<[u8]> for BoxedKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A tree of rows. Counts them itself: the tree would walk all leaves.
#[derive(Default)]
pub(crate) struct FernTree {
    tree: Tree<BoxedKey, usize>,
    rows: StripedCounter,
}

/// Lends the row at `address`.
///
/// # Safety
/// `address` was in the tree at some time since a pin that is still held was taken.
unsafe fn row_at(address: usize) -> ManuallyDrop<Arc<Row>> {
    // SAFETY: F1: the tree's count is not given back before that pin is gone; the one made here is never given back.
    ManuallyDrop::new(unsafe { Arc::from_raw(std::ptr::with_exposed_provenance::<Row>(address)) })
}

/// Gives the tree's count of a row back once nobody looks.
///
/// # Safety
/// `address` was taken out of the tree by the caller.
unsafe fn retire(address: usize, pin: &epoch::Guard) {
    // SAFETY: F1: the caller has the right to this count, and readers found the address under pins older than this.
    unsafe { pin.defer_unchecked(move || drop(Arc::from_raw(std::ptr::with_exposed_provenance::<Row>(address)))) };
}

impl OrderedIndex for FernTree {
    fn with<R>(&self, key: &[u8], look: impl FnOnce(&Arc<Row>) -> R) -> Option<R> {
        let _pin = epoch::pin();
        let address = self.tree.lookup_optimistic(key, |address| *address).filter(|address| *address != GONE)?;
        // SAFETY: found under the pin.
        let row = unsafe { row_at(address) };
        Some(look(&row))
    }

    fn get_or_insert<T>(&self, key: &[u8], make: impl FnOnce(Key) -> (Arc<Row>, T)) -> Result<T, Arc<Row>> {
        let _pin = epoch::pin();
        let mut make = Some(make);
        let mut made = None;
        let first = loop {
            let mut place = self.tree.raw_iter_mut();
            if !place.seek_exact(key) {
                let (address, _) = made.get_or_insert_with(|| {
                    let make = make.take().expect("called once, as `made` keeps the row");
                    let (row, answer) = make(Key::new(key));
                    (Arc::into_raw(row).expose_provenance(), answer)
                });
                place.insert_here(BoxedKey(Key::new(key)), *address);
            }
            let (_, found) = place.next().expect("the key is there, and the leaf is held");
            let found = *found;
            if made.as_ref().is_some_and(|(address, _)| *address == found) {
                self.rows.add(1);
                break None;
            }
            if found != GONE {
                break Some(found);
            }
            drop(place);
            std::thread::yield_now();
        };
        match (first, made) {
            (None, Some((_, answer))) => Ok(answer),
            (Some(first), made) => {
                if let Some((address, _)) = made {
                    // SAFETY: F1: it never was in the tree, so nobody else has this count.
                    drop(unsafe { Arc::from_raw(std::ptr::with_exposed_provenance::<Row>(address)) });
                }
                // SAFETY: found under the pin.
                Err(Arc::clone(&*unsafe { row_at(first) }))
            }
            (None, None) => unreachable!("what was put in was made"),
        }
    }

    fn remove_if(&self, row: &Arc<Row>) -> bool {
        let pin = epoch::pin();
        let address = Arc::as_ptr(row).expose_provenance();
        let mut place = self.tree.raw_iter_mut();
        if !place.seek_exact(row.key()) {
            return false;
        }
        match place.next() {
            Some((_, found)) if *found == address => *found = GONE,
            _ => return false,
        }
        drop(place); // writes the mark
        let removed = self.tree.remove(row.key());
        assert_eq!(removed, Some(GONE), "F2");
        self.rows.add(-1);
        // SAFETY: it was taken out just now.
        unsafe { retire(address, &pin) };
        true
    }

    fn visit(&self, span: Span<'_>, max: usize, visit: &mut dyn FnMut(&[u8], &Arc<Row>)) -> bool {
        let _pin = epoch::pin();
        let mut place = self.tree.raw_iter();
        match (if span.reverse { span.end } else { span.start }, span.reverse) {
            (Bound::Unbounded, false) => place.seek_to_first(),
            (Bound::Unbounded, true) => place.seek_to_last(),
            (Bound::Included(key) | Bound::Excluded(key), false) => place.seek(key),
            (Bound::Included(key) | Bound::Excluded(key), true) => place.seek_for_prev(key),
        }
        let mut seen = 0;
        while seen < max {
            let Some((key, address)) = (if span.reverse { place.prev() } else { place.next() }) else { return true };
            let above = match span.start {
                Bound::Included(start) => *key.0 >= *start,
                Bound::Excluded(start) => *key.0 > *start,
                Bound::Unbounded => true,
            };
            let below = match span.end {
                Bound::Included(end) => *key.0 <= *end,
                Bound::Excluded(end) => *key.0 < *end,
                Bound::Unbounded => true,
            };
            match (above, below) {
                (true, true) => {}
                // Not there yet: an excluded end, or the tree changed on the way.
                (false, _) if !span.reverse => continue,
                (_, false) if span.reverse => continue,
                _ => return true,
            }
            if *address == GONE {
                continue;
            }
            // SAFETY: found under the pin.
            let row = unsafe { row_at(*address) };
            visit(&key.0, &row);
            seen += 1;
        }
        false
    }

    fn len(&self) -> usize {
        usize::try_from(self.rows.sum()).unwrap_or(0)
    }

    /// Nobody else may be at it.
    fn clear(&self) {
        let pin = epoch::pin();
        while let Some((_, address)) = self.tree.pop_first() {
            self.rows.add(-1);
            // SAFETY: it was taken out just now.
            unsafe { retire(address, &pin) };
        }
    }
}

impl Drop for FernTree {
    fn drop(&mut self) {
        self.clear();
    }
}
