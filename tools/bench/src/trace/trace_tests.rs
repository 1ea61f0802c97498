//! Tests that the tracer counts correctly, holds a thread at the named place, and does no harm.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use collie_wal::Protocol;

use super::{Counts, Hold, Place, Tracer, TracerProgram};
use crate::{
    collie::Collie,
    subject::{Append, Subject},
    subjects::{Kind, Setup, Visit, with_subject},
};

/// The argument that makes this program the tracer; to the test harness it is a name that matches no test.
const BE_THE_TRACER: &str = "be-the-tracer";

/// Goal: a tracer does not outlive the process that started it. Method: this program again, started as the tracer,
/// with an input at its end. The other tests start it the same way and then send requests.
#[test]
fn tracer_ends_with_its_input() {
    if std::env::args().any(|argument| argument == BE_THE_TRACER) {
        return super::trace_thread().expect("the tests send what is understood");
    }
    let TracerProgram { program, arguments } = program();
    let ended =
        std::process::Command::new(program).args(arguments).stdin(std::process::Stdio::null()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// Returns the tracer of tests: this program, running only the test above.
pub(crate) fn program() -> TracerProgram {
    let arguments = ["--exact", "trace::trace_tests::tracer_ends_with_its_input", BE_THE_TRACER].map(Into::into).into();
    TracerProgram { program: std::env::current_exe().expect("the program that runs"), arguments }
}

/// Starts the tracer; returns `None`, with a message, if the kernel forbids tracing.
pub(crate) fn tracer() -> Option<Tracer> {
    let tracer = Tracer::start(&program()).expect("it is this program");
    match tracer.count(1, &mut || ()) {
        Ok(_) => Some(tracer),
        Err(error) => {
            let required = std::env::var_os("COLLIE_REQUIRE_LAB").is_some_and(|value| value == "1");
            assert!(!required, "COLLIE_REQUIRE_LAB=1 and no tracing here: {error}");
            println!("NOT RUN: no tracing here: {error}");
            None
        }
    }
}

const RING_BYTES: u64 = 1 << 20;

fn log(protocol: Protocol) -> Collie {
    Collie::open(protocol, 2, RING_BYTES, RING_BYTES / 2).expect("the settings are good")
}

/// Counts appends of one subject.
struct Appends<'a>(&'a Tracer);

impl Visit for Appends<'_> {
    type Out = Counts;

    fn visit<S: Subject>(self, subject: &S) -> Counts {
        let mut writer = subject.writer(0);
        let mut append = || {
            std::hint::black_box(writer.append(std::hint::black_box(&[0xA5; 64])));
        };
        let counts = self.0.count(5, &mut append).expect("it counted before");
        assert!(counts[1..].iter().all(|count| count == &counts[4]), "not the same each time: {counts:?}");
        counts[4]
    }
}

fn counts(kind: Kind, tracer: &Tracer) -> Counts {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup { threads: 1, ring_bytes: RING_BYTES, flush_bytes: RING_BYTES / 2, dir: dir.path().to_owned() };
    with_subject(kind, &setup, Appends(tracer)).unwrap().expect("it is built")
}

/// Goal: the executed instructions match what the log's `tests/assembly.rs` finds in the machine code: one locked
/// addition, one exchange, no other lock; and a mutex is detected where there is one. Method: appends, counted by
/// single-stepping.
#[test]
fn counted_appends_lock_as_the_machine_code_says() {
    let Some(tracer) = tracer() else { return };
    for kind in [Kind::Base, Kind::Help] {
        let found = counts(kind, &tracer);
        assert_eq!((found.adds, found.exchanges, found.others), (1, 1, 0), "{kind:?}: {found:?}");
        assert!(found.instructions > 50, "{kind:?}: {found:?}");
    }
    for kind in [Kind::Mutex, Kind::OneMutex] {
        let found = counts(kind, &tracer);
        assert!(found.adds == 0 && found.locked() == u64::from(kind.shared_rmws()), "{kind:?}: {found:?}");
    }
}

/// Goal: each instruction between the marks is counted once. Method: a loop with varying rounds; a copy with a
/// repeating instruction and varying length.
#[test]
fn loops_count_by_their_rounds_and_repeating_copies_once() {
    let Some(tracer) = tracer() else { return };
    let size = AtomicU64::new(0);
    let mut in_a_loop = || {
        for round in 0..size.load(Ordering::Relaxed) {
            std::hint::black_box(round);
        }
    };
    let (from, mut to) = ([7; 1000], [0; 1000]);
    let mut repeating = || {
        let size = usize::try_from(size.load(Ordering::Relaxed)).unwrap();
        super::tracee::copy_repeating(&from[..size], &mut to[..size]);
    };
    let counts = [100, 550, 1000].map(|wanted| {
        size.store(wanted, Ordering::Relaxed);
        let of = |counts: Vec<Counts>| counts[0].instructions;
        [of(tracer.count(1, &mut in_a_loop).unwrap()), of(tracer.count(1, &mut repeating).unwrap())]
    });
    let [[loop_100, copy_100], [loop_550, copy_550], [loop_1000, copy_1000]] = counts;
    assert!(loop_550 - loop_100 >= 450 && loop_1000 - loop_550 == loop_550 - loop_100, "{counts:?}");
    assert!(copy_100 < 100 && copy_550 == copy_100 && copy_1000 == copy_100, "{counts:?}");
    assert_eq!(to, from);
}

/// Goal: a system call and an allocation are detected, and neither where there is none. Method: a yield, a box, a sum.
#[test]
fn system_calls_and_allocations_are_seen() {
    let Some(tracer) = tracer() else { return };
    tracer.learn_allocator().unwrap();
    // The first windows may fill the allocator's caches.
    let last = |work: &mut dyn FnMut()| tracer.count(3, &mut || work()).unwrap()[2];
    assert_eq!(last(&mut std::thread::yield_now).system_calls, 1);
    let boxed = last(&mut || drop(std::hint::black_box(Box::new(std::hint::black_box([7_u8; 40])))));
    assert!(boxed.allocator > 0 && boxed.system_calls == 0, "{boxed:?}");
    let sum = last(&mut || {
        std::hint::black_box(std::hint::black_box(1_u64) + 1);
    });
    assert_eq!((sum.allocator, sum.system_calls), (0, 0), "{sum:?}");
}

/// Goal: a thread whose record is staged delays no other; one whose record is not yet published delays all that wait
/// for the boundary; appending continues in both cases. Method: a thread of the helping log is held at either place
/// until released, and another one reads the boundary; no time is measured.
#[test]
fn held_after_staged_lets_others_be_acknowledged_and_held_before_does_not() {
    let Some(tracer) = tracer() else { return };
    let cases = [
        (Protocol::Help, Place::Taken, false),
        (Protocol::Help, Place::Staged, true),
        (Protocol::Help, Place::MidCopy, true),
        (Protocol::Help, Place::BeforeWhite, true),
        (Protocol::Base, Place::Taken, false),
        (Protocol::Base, Place::MidCopy, false),
        (Protocol::Base, Place::BeforeWhite, false),
    ];
    for (protocol, place, passes) in cases {
        let log = log(protocol);
        let attached = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| {
                let mut writer = log.writer(0);
                let mut append = || {
                    std::hint::black_box(Append::append(&mut writer, std::hint::black_box(&[0x5A; 1024])));
                };
                tracer.count(1, &mut append).expect("it counted before");
                let hold = Hold { place, millis_max: 60_000 };
                tracer.run_held(hold, &mut append, || attached.store(true, Ordering::Release)).expect("it is attached");
            });
            // Its own answers are read by then; what follows is for us. This spins, since waking a waiter is not part
            // of an append.
            while !attached.load(Ordering::Acquire) && !held.is_finished() {
                std::thread::yield_now();
            }
            assert!(tracer.wait_held().unwrap(), "{protocol:?} passes {place:?}");
            let end = Append::append(&mut log.writer(1), &[0xA5; 64]);
            assert_eq!(log.boundary() >= end, passes, "{protocol:?} at {place:?}");
            assert!(!held.is_finished(), "{protocol:?} at {place:?} is held");
            tracer.let_go().unwrap();
            assert!(tracer.end_held().unwrap(), "{protocol:?} at {place:?}: held until told");
            held.join().unwrap();
            assert!(log.boundary() >= end, "{protocol:?} at {place:?}: goes on");
        });
    }
}

/// Goal: a request for a place that an append does not have is refused, and the append is made. Method: STAGED, of the
/// base protocol.
#[test]
fn unknown_place_is_refused_and_the_append_is_made() {
    let Some(tracer) = tracer() else { return };
    let log = log(Protocol::Base);
    let (mut writer, mut made) = (log.writer(0), 0);
    let mut append = || {
        Append::append(&mut writer, &[0x5A; 64]);
        made += 1;
    };
    tracer.count(1, &mut append).unwrap();
    let error = tracer.hold(Hold { place: Place::Staged, millis_max: 1 }, &mut append).unwrap_err();
    assert!(error.to_string().contains("no place STAGED"), "{error}");
    assert!(tracer.hold(Hold { place: Place::Taken, millis_max: 1 }, &mut append).unwrap());
    assert_eq!(made, 3);
}

/// Goal: a tracer that dies while single-stepping leaves the thread running and the process alive (X1, X2). Method: it
/// is killed while it steps through a loop, which must then end by itself.
#[test]
fn traced_thread_outlives_its_tracer() {
    let Some(mut tracer) = tracer() else { return };
    let (rounds, is_dead) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut work = || {
        while !is_dead.load(Ordering::Acquire) {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    };
    let is_time = || {
        while rounds.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
    };
    tracer.die_stepping(&mut work, is_time, || is_dead.store(true, Ordering::Release)).unwrap();
    let after = tracer.count(1, &mut || ()).unwrap_err();
    assert!(rounds.load(Ordering::Relaxed) >= 1000, "{after}");
}

/// Goal: a program that is not a tracer causes an error, not an endless wait. Method: one that exits at once; one that
/// does not exist.
#[test]
fn other_programs_are_refused() {
    let start = |program: &str| {
        Tracer::start(&TracerProgram { program: program.into(), arguments: Vec::new() }).unwrap_err().to_string()
    };
    assert!(start("/bin/true").contains("the tracer has ended"));
    assert!(!start("/no/such/program").is_empty());
}
