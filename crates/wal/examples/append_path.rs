//! One append, compiled as a program of its own: `tests/assembly.rs` counts the locked instructions in it.
//!
//! The program takes the protocol as its argument. It prints positions of records, so that the compiler cannot remove
//! the appends.

use collie_wal::{Appended, Env, Log, Mark, Options, Protocol, WalError, Writer};

/// Appends one short record. The test looks this name up in the disassembly.
#[inline(never)]
fn append_one(writer: &mut Writer, body: &[u8]) -> Result<Appended, WalError> {
    writer.append(1, &[body])
}

fn main() -> Result<(), WalError> {
    let protocol = match std::env::args().nth(1).as_deref() {
        Some("mutex") => Protocol::Mutex,
        Some("base") => Protocol::Base,
        _ => Protocol::Help,
    };
    let (env, _disk) = Env::simulated(1);
    let (log, _found) = Log::open(&env, "/wal".as_ref(), Options { protocol, ..Options::small() })?;
    let mut writer = log.writer();
    for number in 0..1_000_u64 {
        let at = append_one(&mut writer, &number.to_le_bytes())?;
        if number % 250 == 0 {
            println!("{protocol:?}: record {number} at {}", at.start);
        }
    }
    log.wait(Mark::Durable, log.glsn())
}
