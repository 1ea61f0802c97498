//! A short run of the crash lab for every test run, and the proof that it can fail: each planted mistake of earlier
//! logs and of this one is caught with the message that names it.
//!
//! | fault of an earlier log (`docs/design/log.md`) | made here as | must show as |
//! |---|---|---|
//! | C1 sync does not reach the records | `WRITE_SKIPPED`, `SYNC_SKIPPED`, `ACK_BEFORE_SYNC` | an acknowledged record is lost |
//! | C2 files used again without an epoch | `NO_EPOCH` | a record of an earlier use comes back |
//! | C3 length trusted before its checksum | `LENGTH_TRUSTED` | a read larger than a frame may be |
//! | C4 no tail policy, or one for all | `TAIL_REFUSED`, `DAMAGE_TRIMMED`, `CRC_IGNORED` | refusal; silence; wrong bytes |
//! | C5 directories not synced | a disk that lies about names | an acknowledged record is lost |
//! | C6 no lock | `LOCK_SKIPPED` | the second owner gets in |
//! | C7 batching promised as durability | `tests/level.rs`: the loss bound of `wal.sync_every` | more records lost than the bound |
//! | C8 wrong units, wrong ratios | `rate_times_time_is_the_count`, `json_keys_carry_units_and_figures_agree` | the sum is off |

use collie_env::Env;

use crate::{
    Level, Log, Lsn, Options, WalError, inspect,
    lab::{
        self, Bits, Lies, Stamp, StatesPlan, StatesReport, Violation, check_states, check_threads, explore,
        explore_threads, sweep_flips,
    },
    mistakes,
};

/// Runs the enumeration with the planted `mistake`, in up to 300 workloads; returns the first violation with the
/// `expected` message.
fn caught(mistake: &'static str, crash_again_every: u64, expected: &str) -> Result<Violation, String> {
    let mut last = None;
    for seed in 1..=300 {
        let plan = StatesPlan { crash_again_every, ..StatesPlan::new(400, seed) };
        match mistakes::with(mistake, || check_states(&plan, &mut |_| {})) {
            Err(violation) if violation.message.contains(expected) => return Ok(violation),
            Err(violation) => last = Some(violation.message),
            Ok(_) => {}
        }
    }
    Err(format!("{mistake} goes unnoticed; last: {last:?}"))
}

/// Goal: in every crash state every acknowledged record is there, nothing follows a gap, nothing stale appears, no
/// position is used twice; also when the opening crashes. Method: a part of the enumeration that `make crash` runs at
/// full length.
#[test]
fn log_keeps_its_promises_in_every_crash_state() {
    let plan = StatesPlan { states_per_workload: 1_000, ..StatesPlan::new(20_000, 1) };
    let report = check_states(&plan, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.states >= 20_000 && report.second_crash_states > 500, "{report:?}");
    assert!(report.exhausted_points * 2 > report.crash_points, "{report:?}");
    let seen = report.coverage;
    assert!(seen.crashes > 20 && seen.closes > 5 && seen.frees > 5 && seen.rewrites > 0 && seen.cuts > 0, "{report:?}");
    assert!(seen.failures > 0 && seen.power_losses > 0, "{report:?}");
    assert!(seen.copied > 5 && seen.lost_copies > 0 && seen.stale_copies > 0 && seen.advances > 20, "{report:?}");
    assert!(report.salvaged > 50, "{report:?}");
    assert!(report.records > report.states * 4, "the states hold too little to lose: {report:?}");
}

/// Goal: the same with threads: background flusher, preparer and four writers in parallel. Method: a few rounds (`make
/// crash` runs many), and one on a disk whose syncs lie, which must show.
#[test]
fn threads_keep_their_promises_in_every_crash_state() {
    let report = check_threads(6, 1, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert!(report.states > 1_000 && report.records > 10_000, "{report:?}");
    let lies = Lies { syncs: true, names: true };
    let violation = explore_threads(1, 1, lies, &mut |_| {}).expect_err("a sync that does nothing goes unnoticed");
    let shows = ["acknowledged record", "is handed out again"].iter().any(|text| violation.message.contains(text));
    assert!(shows, "{violation}");
}

/// Goal: one seed is one enumeration. Method: run it twice and compare all counts.
#[test]
fn one_seed_visits_the_same_states_twice() {
    let visit = || check_states(&StatesPlan::new(2_000, 77), &mut |_| {});
    assert_eq!(visit(), visit());
}

/// Goal: the enumeration catches each planted mistake with its intended message. Method: one mistake on each thread.
#[test]
fn planted_mistakes_are_caught_by_the_enumeration() {
    let mistakes = [
        ("SYNC_SKIPPED", 0, "acknowledged record"),
        ("WRITE_SKIPPED", 0, "acknowledged record"),
        ("ACK_BEFORE_SYNC", 0, "acknowledged record"),
        ("SYNC_RETRIED", 0, "acknowledged record"),
        ("CRC_IGNORED", 0, "has no stamp that fits"),
        ("NO_EPOCH", 0, "was written as number"),
        ("TAIL_REFUSED", 0, "opening is refused"),
        ("POSITION_REUSED", 0, "is handed out again"),
        ("HALF_REWRITE_COUNTS", 16, "after the first opening"),
        ("ONE_FILE_TWO_SPARES", 4, "third crash"),
        ("OPEN_UNSYNCED", 0, "is handed out again"),
        ("CURSOR_NOT_STORED", 0, "the consumer is forgotten"),
        ("CURSOR_AHEAD", 0, "the consumer stands at"),
        ("HOLD_BEFORE_CURSOR", 0, "the consumer needs"),
        ("STARTS_AT_A_JUMP", 0, "the consumer needs"),
        ("SALVAGE_PAST_THE_END", 1, "salvage reads"),
    ];
    std::thread::scope(|scope| {
        for (mistake, again, expected) in mistakes {
            scope.spawn(move || caught(mistake, again, expected).unwrap_or_else(|error| panic!("{error}")));
        }
    });
}

/// Goal: a disk that lies about syncs, or only about directories, is caught. Method: workloads on either; acknowledged
/// records are lost in some states.
#[test]
fn lying_syncs_and_unsynced_names_are_caught() {
    for lies in [Lies { syncs: true, names: true }, Lies { names: true, syncs: false }] {
        let messages: Vec<String> = (1..=40)
            .filter_map(|seed| {
                let plan = StatesPlan::new(400, seed);
                explore(&plan, seed, lies, &mut StatesReport::default()).err().map(|violation| violation.message)
            })
            .collect();
        let losses = messages.iter().filter(|message| message.contains("acknowledged record")).count();
        assert!(messages.len() > 35 && losses > 5, "{lies:?}: {losses} losses among {messages:#?}");
    }
}

/// Goal: every flipped bit below the durable position is reported, no wrong record is yielded, and no other flip counts
/// as damage. Method: one bit of every byte that carries the log; `faultlab log-flips` flips all eight.
#[test]
fn flipped_bits_are_reported_byte_by_byte() {
    let report = sweep_flips(3, Bits::One, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.reported, report.protected_bytes, "{report:?}");
    assert!(report.protected_bytes > 20_000 && report.harmless > 500, "{report:?}");
}

/// Goal: damage that is trimmed like a torn tail is caught. Method: the sweep without the search behind the end of the
/// chain.
#[test]
fn trimmed_damage_is_caught_by_the_flips() {
    let violation = mistakes::with("DAMAGE_TRIMMED", || sweep_flips(3, Bits::One, &mut |_| {})).unwrap_err();
    assert!(violation.message.contains("nothing is reported"), "{violation}");
}

/// Goal: no bit of a frame header makes a reader request more than a frame may hold (4 MiB and its header). Method:
/// flip every bit of the headers of a log whose files are larger than that; the disk records the largest read. The
/// planted mistake of trusting the length must show.
#[test]
fn flipped_header_bits_do_not_size_an_allocation() {
    const LIMIT: u64 = (4 << 20) + 128;
    let largest = |mistake: &'static str| {
        let (env, disk) = Env::simulated(8);
        let options = Options { segment_bytes: 6 << 20, ..lab::lab_options() };
        let (log, _) = Log::open(&env, "/wal".as_ref(), options).unwrap();
        log.writer().commit(1, &[7; 500], Level::Disk).unwrap();
        log.abandon();
        let disk = disk.process_kill();
        let before = inspect(&Env::over(disk.clone(), 1), "/wal".as_ref()).unwrap();
        let path = before.segments()[0].path.clone();
        for bit in 0..2 * 64 * 8_u64 {
            // The opening frame, which has a LINK, then the frame of the record.
            let offset = (1 + bit / 512) * 4096 + bit / 8 % 64;
            disk.flip(&path, offset, 1 << (bit % 8)).unwrap();
            let env = Env::over(disk.clone(), 1);
            let looked = mistakes::with(mistake, || inspect(&env, "/wal".as_ref()));
            assert!(looked.is_ok_and(|found| found.end() <= before.end()), "bit {bit}");
            disk.flip(&path, offset, 1 << (bit % 8)).unwrap();
        }
        disk.largest_read_bytes()
    };
    let honest = largest("NONE");
    assert!(honest <= LIMIT, "a read of {honest} bytes for one frame");
    assert!(largest("LENGTH_TRUSTED") > LIMIT, "a length that is trusted goes unnoticed");
}

/// Goal: a log has one owner: eight writers lose nothing, and a second opening is refused, which would be noticed if it
/// were not. Method: eight threads on one log; open it again at the same time; then the same without the lock.
#[test]
fn eight_writers_share_a_log_and_a_second_owner_is_refused() {
    let (env, disk) = Env::simulated(9);
    let (log, _) = Log::open(&env, "/wal".as_ref(), Options { slots: 4, ..Options::small() }).unwrap();
    let again = || Log::open(&env, "/wal".as_ref(), Options::small()).map(|_| ());
    assert!(matches!(again(), Err(WalError::Locked { .. })));
    std::thread::scope(|scope| {
        for writer in 0..8_u64 {
            let mut appender = log.writer();
            scope.spawn(move || {
                let mut stamp = Stamp { writer, ..Stamp::default() };
                for _ in 0..50 {
                    stamp = stamp.next(1, 0, 200);
                    appender.commit(1, &stamp.body(200), Level::Disk).unwrap();
                }
            });
        }
    });
    log.abandon();
    let (log, _) = Log::open(&Env::over(disk.power_cut(1), 2), "/wal".as_ref(), Options::small()).unwrap();
    let mut last = [Stamp::default(); 8];
    for record in log.read(Lsn::ZERO) {
        let stamp = Stamp::of(&record.unwrap().body).unwrap();
        let before = &mut last[usize::try_from(stamp.writer).unwrap()];
        before.writer = stamp.writer;
        assert!(before.is_continued_by(&stamp, 200), "{before:?}, then {stamp:?}");
        *before = stamp;
    }
    assert!(last.iter().all(|stamp| stamp.number == 50), "{last:?}");

    let (env, _disk) = Env::simulated(9);
    let (_log, _) = Log::open(&env, "/wal".as_ref(), lab::lab_options()).unwrap();
    let second = mistakes::with("LOCK_SKIPPED", || Log::open(&env, "/wal".as_ref(), lab::lab_options()).map(|_| ()));
    assert!(second.is_ok(), "without the lock the second opener is not refused: {second:?}");
}

/// Goal: after a crash no position is handed out again that the crashed incarnation may have handed out, according to
/// its own settings and not to those of the opening. Method: an incarnation with a large ring, most of which never
/// reached the disk; an opening with a small one, with and without the planted mistake.
#[test]
fn opening_with_a_smaller_ring_hands_out_no_position_again() {
    let (env, disk) = Env::simulated(10);
    let large = Options { ring_bytes: 512 << 10, segment_bytes: 2 << 20, flush_bytes: 256 << 10, ..lab::lab_options() };
    let (log, _) = Log::open(&env, "/wal".as_ref(), large).unwrap();
    let mut writer = log.writer();
    writer.commit(1, b"durable", Level::Disk).unwrap();
    let durable = log.durable();
    let mut highest = durable;
    while highest.bytes_since(durable) < 150 << 10 {
        highest = writer.append(1, &[&[7; 3000]]).unwrap().end;
    }
    log.abandon();
    let next = |mistake| {
        let env = Env::over(disk.power_cut(1), 11);
        mistakes::with(mistake, || Log::open(&env, "/wal".as_ref(), lab::lab_options())).unwrap().1.next
    };
    assert!(next("NONE") >= highest, "{} is handed out again, {highest} was", next("NONE"));
    assert!(next("NEW_SKIP") < highest, "a skip by the new settings goes unnoticed");
}

/// Goal: figures have the right unit. Method: a rate times its time is the count.
#[test]
fn rate_times_time_is_the_count() {
    let time = std::time::Duration::from_millis(2_500);
    assert_eq!(lab::per_second(1_000_000, time), 400_000);
    assert_eq!(lab::per_second(7, std::time::Duration::ZERO), 0);
}
