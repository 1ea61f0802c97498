//! Follows a log while another thread appends: each record arrives once it is on disk, and the next run continues where
//! the last one stopped.
//!
//! `cargo run -p collie-wal --example tail -- DIR` keeps the log and the consumer's cursor in DIR; run it twice.
//! Without DIR the log is in a temporary directory.

use collie_wal::{Env, Level, Log, Options, TailOptions, WalError};

const RECORDS: u32 = 5;

fn main() -> Result<(), WalError> {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().join("log"), Into::into);
    let (log, _) = Log::open(&Env::real(), &dir, Options::default())?;
    // A durable cursor of this name in the log's directory. It keeps the files that it needs, up to a bound.
    let mut tail = log.tail("example", TailOptions::resume())?;
    let mut writer = log.writer();
    let last = std::thread::spawn(move || {
        (0..RECORDS).map(|n| writer.commit(1, format!("record {n}").as_bytes(), Level::Disk)).last()
    });
    for _ in 0..RECORDS {
        let record = tail.next()?;
        println!("{} {}", record.lsn, String::from_utf8_lossy(&record.body));
        // Records below are not yielded again, also after a restart. After a crash some may be.
        tail.advance(record.end)?;
    }
    let last = last.join().expect("the appender does not panic").expect("it appends")?;
    println!("read to {}: truncate_before may free whole files below that", last.end);
    drop(tail);
    log.close()
}
