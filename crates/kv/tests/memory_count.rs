//! Compares the memory that families count with the bytes requested from the allocator. It is a separate program, since
//! it counts every allocation in the process.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use collie_engine::{Env, Options};
use collie_kv::{Batch, Cf, CfOptions, Db, Durability, FlushTo};

/// Bytes that were allocated and not freed.
static LIVE: AtomicI64 = AtomicI64::new(0);

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The system's allocator with a counter.
struct Counting;

// SAFETY: passes every call on unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(signed(layout.size()), Relaxed);
        // SAFETY: the caller's promise is the one that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(signed(layout.size()), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Puts rows `from..to` with keys of `key_bytes`, not in the order of the keys if `shuffled`.
fn fill(db: &Db, cf: &Cf, (from, to): (u64, u64), (key_bytes, value_bytes): (usize, usize), shuffled: bool) {
    let mut batch = Batch::new();
    for number in from..to {
        let number = if shuffled { number.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { number };
        let mut key = number.to_be_bytes().to_vec();
        key.resize(key_bytes.max(8), b'k');
        batch.put(cf, &key, vec![b'v'; value_bytes]);
        if batch.len() == 500 {
            db.write(std::mem::take(&mut batch), Durability::Async).unwrap();
        }
    }
    db.write(batch, Durability::Async).unwrap();
    db.flush_wal(FlushTo::Disk).unwrap();
}

/// Goal: the counted memory is that of the rows, within a seventh, and nothing once they are gone. Method: rows of
/// several shapes, in and out of order, compared with the allocator's own figure; all of them changed and cleaned,
/// which changes nothing; deleted and cleaned.
#[test]
fn counted_memory_is_what_the_allocator_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false; // its threads allocate memory for writes
    let db = Db::over(&collie_engine::Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap().0);
    let shapes = [((16, 100), false), ((16, 100), true), ((8, 0), false), ((60, 40), true), ((16, 1000), false)];
    let counted = |cf: &Cf| i64::try_from(db.cf_stats(cf).unwrap().memory_bytes).unwrap();
    let mut filled = Vec::new();
    // Nothing is freed in this loop.
    for (number, (shape, shuffled)) in shapes.into_iter().enumerate() {
        let cf = db.create_cf(&format!("cf{number}"), CfOptions::default()).unwrap();
        fill(&db, &cf, (0, 1000), shape, shuffled); // one-time allocations
        db.engine().tick();
        let before = (LIVE.load(Relaxed), counted(&cf));
        fill(&db, &cf, (1000, 6000), shape, shuffled);
        db.engine().tick();
        let (asked, counts) = (LIVE.load(Relaxed) - before.0, counted(&cf) - before.1);
        println!("{shape:?}: counted {counts}, asked for {asked}, {} a row", asked / 5000);
        assert!((counts - asked).abs() * 7 <= asked, "{shape:?}: counted {counts}, asked for {asked}");
        filled.push((cf, shape, shuffled));
    }
    for (cf, shape, shuffled) in filled {
        let full = counted(&cf);
        fill(&db, &cf, (0, 6000), shape, shuffled);
        (0..3).for_each(|_| _ = db.engine().tick());
        assert_eq!(counted(&cf), full, "the old values are gone");
        for item in db.snapshot().unwrap().scan(&cf, ..) {
            db.delete(&cf, item.unwrap().key(), Durability::Async).unwrap();
        }
        db.flush_wal(FlushTo::Disk).unwrap();
        (0..3).for_each(|_| _ = db.engine().tick());
        assert_eq!((counted(&cf), db.cf_stats(&cf).unwrap().rows), (0, 0), "everything is gone");
    }
}
