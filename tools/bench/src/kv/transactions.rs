//! `Rows`: the rows that a transaction of `randomtransaction` writes, and the sums that must always hold.
//!
//! # Invariant
//! - A1. Each transaction adds one amount to one row of every set, or nothing: the sums of the sets are equal whenever
//!   no transaction is writing. A benchmark in which they differ has lost an update, and fails.

use collie_kv::{Batch, Cf, Db, Durability, Error, ErrorKind, Isolation, TxnOptions};

use super::flags::KvFlags;
use collie_workload::Random;

/// Prefix of the keys of all sets. No key of another benchmark begins with it, since those begin with small numbers.
const PREFIX: &[u8; 4] = b"txn:";
const KEY_BYTES: usize = 16;
const AMOUNT_BYTES: usize = 8;
/// Rows created in one batch.
const BATCH_ROWS: u64 = 1_000;

/// One row of each set.
#[derive(Debug)]
pub(super) struct Rows(Vec<[u8; KEY_BYTES]>);

/// Returns the key of a row: prefix, set, number.
fn key(set: u64, number: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(PREFIX);
    key[4..8].copy_from_slice(&u32::try_from(set).unwrap_or(u32::MAX).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn amount_of(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_be_bytes)
}

impl Rows {
    /// Selects one random row of each set.
    pub(super) fn draw(flags: &KvFlags, random: &mut Random) -> Self {
        Self((0..flags.transaction_sets).map(|set| key(set, random.below(flags.num))).collect())
    }

    /// Returns the bytes of keys and values that the transaction writes.
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * (KEY_BYTES + AMOUNT_BYTES)
    }

    /// Adds `amount` to each row in one transaction. Returns whether it committed: it may lose a race to another (A1).
    ///
    /// # Errors
    /// Those of the engine, except lost races.
    pub(super) fn add(
        &self,
        db: &Db,
        cf: &Cf,
        amount: u64,
        options: TxnOptions,
        durability: Durability,
    ) -> Result<bool, Error> {
        let run = || {
            let mut txn = db.begin(options)?;
            for key in &self.0 {
                let before = txn.get_for_update(cf, key)?.map_or(0, |value| amount_of(&value));
                txn.put(cf, key, (before + amount).to_be_bytes())?;
            }
            txn.commit(durability)
        };
        match run() {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Deadlock) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Creates every row, with nothing in it, where that is needed: READ COMMITTED does not lock a row that does not exist,
/// so two transactions that create it would both believe to be the first.
///
/// # Errors
/// Those of the engine.
pub(super) fn prepare(db: &Db, cf: &Cf, flags: &KvFlags) -> Result<(), Error> {
    if flags.isolation != Isolation::ReadCommitted {
        return Ok(());
    }
    for set in 0..flags.transaction_sets {
        for first in (0..flags.num).step_by(usize::try_from(BATCH_ROWS).unwrap_or(1)) {
            let mut batch = Batch::new();
            for number in first..flags.num.min(first + BATCH_ROWS) {
                if db.get(cf, key(set, number))?.is_none() {
                    batch.put(cf, key(set, number), [0; AMOUNT_BYTES]);
                }
            }
            db.write(batch, Durability::Async)?;
        }
    }
    Ok(())
}

/// Returns the sum of each set.
///
/// # Errors
/// Those of the engine.
pub(super) fn sums(db: &Db, cf: &Cf, flags: &KvFlags) -> Result<Vec<u64>, Error> {
    let snapshot = db.snapshot()?;
    let mut sums = Vec::new();
    for set in 0..flags.transaction_sets {
        let mut sum = 0;
        snapshot.prefix(cf, &key(set, 0)[..8]).visit(|_, value| {
            sum += amount_of(value);
            std::ops::ControlFlow::Continue(())
        })?;
        sums.push(sum);
    }
    Ok(sums)
}
