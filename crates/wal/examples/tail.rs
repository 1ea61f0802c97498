//! Follows a log while another thread appends: each record arrives once it is on disk, and a restart goes on where the
//! last run had got to.
//!
//! `cargo run -p collie-wal --example tail -- DIR` keeps the log and the consumer's cursor in DIR; run it twice. Without DIR
//! the log is in a temporary directory.

use collie_env::Env;
use collie_wal::{Level, Log, Options, TailOptions, WalError};

const RECORDS: u32 = 5;

fn main() -> Result<(), WalError> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("log"), Into::into);
    let (log, _) = Log::open(&Env::real(), &dir, Options::default())?;
    // A cursor of this name, durable in the log's directory. It keeps the files that it needs, up to a bound.
    let mut tail = log.tail("example", TailOptions::resume())?;
    let mut writer = log.writer();
    let last = std::thread::spawn(move || {
        (0..RECORDS).map(|n| writer.commit(1, format!("record {n}").as_bytes(), Level::Disk)).last()
    });
    for _ in 0..RECORDS {
        let record = tail.next()?;
        println!("{} {}", record.lsn, String::from_utf8_lossy(&record.body));
        // What lies below is not handed out again, after a restart either.
        tail.advance(record.end)?;
    }
    let last = last.join().expect("the appender does not panic").expect("it appends")?;
    println!("read to {}: truncate_before may free whole files below that", last.end);
    drop(tail);
    log.close()
}
