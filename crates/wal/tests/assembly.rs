//! The cost of an append in locked instructions, read from the machine code and not from the source.
//!
//! Counted are the functions through which an append runs that finds room in the ring: the caller (`append_one` of the
//! example, with everything of `Writer` inlined into it), the protocol's `append`, and the staging of a record. Not
//! counted, and kept out of them as separate functions: draining for a boundary waiter, waiting for room, a shared
//! slot, a log that has stopped. On x86-64 an instruction is locked if it has the prefix `lock` or is an exchange with
//! memory.
#![cfg(target_arch = "x86_64")]

use std::process::Command;

/// The locked instructions of one function.
#[derive(Debug, Default, PartialEq, Eq)]
struct Locked {
    /// `lock xadd`: taking positions, on the line that all writers share.
    adds: usize,
    /// Exchanges with memory: leaving black, on the slot's own line.
    exchanges: usize,
    /// All others with the prefix, including fences of this kind.
    others: usize,
}

/// Builds the example in release mode and returns its disassembly.
fn disassembly() -> String {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/assembly");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let build = ["build", "--release", "--offline", "--quiet", "--example", "append_path", "--manifest-path", manifest];
    let built = Command::new(env!("CARGO")).args(build).args(["--target-dir", target]).output().expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let program = format!("{target}/release/examples/append_path");
    for protocol in ["mutex", "base", "help"] {
        assert!(
            Command::new(&program).arg(protocol).output().expect("it was built").status.success(),
            "{protocol} runs"
        );
    }
    let dump = Command::new("objdump").args(["-d", "--demangle=rust", "--no-show-raw-insn", &program]).output();
    let dump = dump.expect("objdump, of binutils, which the linker belongs to as well");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    String::from_utf8(dump.stdout).expect("objdump prints text")
}

/// Counts the locked instructions of the one function whose name holds `name`.
fn locked_in(dump: &str, name: &str) -> Locked {
    let is_head = |line: &str| line.ends_with(">:");
    let heads: Vec<&str> = dump.lines().filter(|line| is_head(line) && line.contains(name)).collect();
    assert_eq!(heads.len(), 1, "functions named {name}: {heads:?}");
    let mut locked = Locked::default();
    let body = dump.lines().skip_while(|line| *line != heads[0]).skip(1).take_while(|line| !is_head(line));
    let mut instructions = 0;
    for line in body {
        let Some((_, code)) = line.split_once('\t') else { continue };
        instructions += 1;
        let words: Vec<&str> = code.split_whitespace().collect();
        match words.first().copied() {
            Some("lock") if words[1].starts_with("xadd") => locked.adds += 1,
            Some("lock") => locked.others += 1,
            Some(word) if word.starts_with("xchg") && code.contains('(') => locked.exchanges += 1,
            Some("mfence") => locked.others += 1,
            _ => {}
        }
    }
    assert!(instructions > 20, "{name} has {instructions} instructions: not what was meant");
    locked
}

/// Goal: an append is one read-modify-write on the shared line and, for the lock-free protocols, one exchange on the
/// slot's own; the code around it has none. Method: build the example in release mode, disassemble, count.
#[test]
fn append_holds_one_locked_add_and_one_exchange_of_its_own() {
    let dump = disassembly();
    assert_eq!(locked_in(&dump, "append_path::append_one"), Locked::default());
    let lock_free = || Locked { adds: 1, exchanges: 1, others: 0 };
    assert_eq!(locked_in(&dump, "collie_wal::append::base::append"), lock_free());
    assert_eq!(locked_in(&dump, "collie_wal::append::help::append"), lock_free());
    assert_eq!(locked_in(&dump, "collie_wal::append::staging::Staging::put"), Locked::default());
    let mutex = locked_in(&dump, "collie_wal::append::mutex::MutexProtocol::append");
    assert!(mutex.adds == 0 && mutex.others >= 2, "the counting sees the mutex of the mutex protocol: {mutex:?}");
}
