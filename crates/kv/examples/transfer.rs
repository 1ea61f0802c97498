//! Several threads move money between accounts at once. The sum never changes, and a reader sees the right sum at every
//! moment.
//!
//! `cargo run -p collie-kv --example transfer -- DIR` keeps the accounts in DIR; without DIR they are in a
//! temporary directory.

use std::path::Path;

use collie_kv::{Batch, Cf, CfOptions, Db, Durability, Error, ErrorKind, RowBytes, TxnOptions};

const ACCOUNTS: u64 = 10;
const EACH: u64 = 100;
const THREADS: u64 = 4;
const TRANSFERS: u64 = 200;

fn main() -> Result<(), Error> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("db"), Into::into);
    let (retries, sum) = run(&dir)?;
    println!("{} transfers, {retries} of them run again after a conflict; the sum is {sum}", THREADS * TRANSFERS);
    Ok(())
}

/// Runs the transfers; returns how many of them were run again, and the sum of all accounts.
pub(crate) fn run(dir: &Path) -> Result<(u64, u64), Error> {
    let db = Db::open(dir)?;
    let accounts = match db.create_cf("accounts", CfOptions::default()) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => db.cf("accounts")?,
        made => {
            let accounts = made?;
            let mut batch = Batch::new();
            (0..ACCOUNTS).for_each(|account| batch.put(&accounts, key(account), EACH.to_be_bytes()));
            db.write(batch, Durability::Local)?;
            accounts
        }
    };
    let retries = std::thread::scope(|scope| {
        let movers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let (db, accounts) = (&db, &accounts);
                    move || {
                        (0..TRANSFERS)
                            .map(|n| transfer_again_and_again(db, accounts, thread, n))
                            .sum::<Result<u64, _>>()
                    }
                })
            })
            .collect();
        // A snapshot shows both sides of each transfer or neither.
        for _ in 0..20 {
            assert_eq!(sum(&db, &accounts)?, ACCOUNTS * EACH);
        }
        movers.into_iter().map(|mover| mover.join().expect("no thread panics")).sum::<Result<u64, Error>>()
    })?;
    let sum = sum(&db, &accounts)?;
    db.close()?;
    Ok((retries, sum))
}

/// Runs a transfer until it commits; returns how often it failed before that.
fn transfer_again_and_again(db: &Db, accounts: &Cf, thread: u64, n: u64) -> Result<u64, Error> {
    let (from, to) = ((thread + n) % ACCOUNTS, (thread + n * 7 + 1) % ACCOUNTS);
    let mut retries = 0;
    loop {
        match transfer(db, accounts, from, to) {
            // The remedy of a conflict and of a deadlock is to run the transaction again.
            Err(error) if error.is_retryable() => retries += 1,
            outcome => return outcome.map(|()| retries),
        }
    }
}

fn transfer(db: &Db, accounts: &Cf, from: u64, to: u64) -> Result<(), Error> {
    let mut txn = db.begin(TxnOptions::default())?;
    // The rows are locked, so another transfer from or to these accounts waits instead of failing later.
    let balance = |value: Option<_>| value.map_or(0, |value: RowBytes| number(&value));
    let left = balance(txn.get_for_update(accounts, key(from))?);
    if left == 0 || from == to {
        return Ok(()); // dropping the transaction rolls it back
    }
    let there = balance(txn.get_for_update(accounts, key(to))?);
    txn.put(accounts, key(from), (left - 1).to_be_bytes())?;
    txn.put(accounts, key(to), (there + 1).to_be_bytes())?;
    txn.commit(Durability::Async)?;
    Ok(())
}

fn sum(db: &Db, accounts: &Cf) -> Result<u64, Error> {
    db.snapshot()?.scan(accounts, ..).map(|item| item.map(|item| number(item.value()))).sum()
}

fn key(account: u64) -> [u8; 8] {
    account.to_be_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("balances are 8 bytes"))
}
