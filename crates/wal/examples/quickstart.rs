//! A log in ten lines: open, append, wait for the disk, close, open again, read.
//!
//! `cargo run -p collie-wal --example quickstart -- DIR` keeps the log in DIR, and each run adds to it. Without DIR the
//! log is in a temporary directory.

use collie_wal::{Env, Level, Log, Mark, Options, WalError};

fn main() -> Result<(), WalError> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("log"), Into::into);

    let (log, found) = Log::open(&Env::real(), &dir, Options::default())?;
    found.notes.iter().for_each(|note| println!("{note}"));
    let mut writer = log.writer();
    // On return the record is in memory; its end is the position to wait for.
    let first = writer.append(1, &[b"hello, ", b"log"])?;
    log.wait(Mark::Durable, first.end)?;
    // Append and wait in one call. The caller chooses the tag (0 to 31).
    writer.commit(2, b"and goodbye", Level::Disk)?;
    log.close()?;

    let (log, found) = Log::open(&Env::real(), &dir, Options::default())?;
    for record in log.read(found.start) {
        let record = record?;
        println!("{} tag {} {}", record.lsn, record.tag, String::from_utf8_lossy(&record.body));
    }
    log.close()
}
