//! A key-value database on one page: open it, create families, write, read a range, close it, open it again.
//!
//! `cargo run -p collie-kv --example quickstart -- DIR` keeps the database in DIR, and each run adds to it;
//! without DIR the database is in a temporary directory.

use std::path::Path;

use collie_kv::{Batch, CfOptions, Db, Durability, Error, ErrorKind};

fn main() -> Result<(), Error> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("db"), Into::into);
    for line in run(&dir)? {
        println!("{line}");
    }
    Ok(())
}

/// Writes and reads; returns the lines to print.
pub(crate) fn run(dir: &Path) -> Result<Vec<String>, Error> {
    let mut said = Vec::new();
    let db = Db::open(dir)?;
    let users = db.open_cf("users", CfOptions::new())?; // made by the first run

    // The write is on disk when the call returns. The receipt's token is the position of the commit in the log.
    let receipt = db.put(&users, "alice", "1 Main Street", Durability::Local)?;
    said.push(format!("alice is on disk: {}", receipt.is_durable()));
    // The batch is ordered and visible when the call returns, and on disk 10 ms later. After a crash either all of it
    // is there or nothing.
    let mut batch = Batch::new();
    batch.put(&users, "bob", "2 Side Street");
    batch.put(&users, "carol", "3 High Street");
    batch.delete(&users, "dave");
    db.write(batch, Durability::Async)?;
    db.close()?;

    let db = Db::open(dir)?;
    let users = db.cf("users")?;
    // A snapshot shows one state of all families for as long as it is held.
    let snapshot = db.snapshot()?;
    for item in snapshot.scan(&users, "b"..) {
        let item = item?;
        said.push(format!("{}: {}", String::from_utf8_lossy(item.key()), String::from_utf8_lossy(item.value())));
    }
    // An error has a kind and a remedy.
    let error = db.put(&users, vec![0; 70_000], "", Durability::Async).expect_err("the key is too long");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    said.push(format!("{error}: {:?}", error.remedy()));
    drop(snapshot);
    db.close()?;
    Ok(said)
}
