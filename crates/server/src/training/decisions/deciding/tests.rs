//! Open periods of [`Deciding`], over simulated servers.

use std::path::Path;

use collie_env::SimClock;

use super::{
    super::world::{DIR, Models, World},
    *,
};

fn begin(deciding: &Deciding, world: &World) -> (OpenLife, Option<String>) {
    deciding.begin(Arc::new(world.clone()), Box::new(world.clone()), Arc::new(Models::promise(0.2)))
}

/// Goal: an open period ends with the next one and with its database; settings that were set by hand outlast both.
/// Method: two periods, a tick of the first, a database that is closed; workers and a delay set by hand.
#[test]
fn a_life_ends_with_its_database() {
    let (env, disk) = Env::simulated(1);
    env.files.create_dir_all(Path::new(DIR)).unwrap();
    let deciding = Deciding::new(env, Path::new(DIR), Mode::Propose);
    deciding.note_given(["wal.flush_bytes"]);
    assert!(deciding.set_replication(Setting::ApplyWorkers, 1.0).unwrap_err().contains("no database is open"));
    assert_eq!((deciding.rows(), deciding.values()), (vec![], vec![]));
    let world = World::new(disk, 1, 0.0);
    let (first, _) = begin(&deciding, &world);
    assert!(deciding.tick(first));
    let (second, told) = begin(&deciding, &world);
    assert_eq!((told, deciding.tick(first), deciding.tick(second)), (None, false, true));
    assert_eq!(deciding.values(), [("wal.flush_delay", 10_000), ("wal.flush_bytes", 1_048_576)]);
    let refused = deciding.set_by_hand("wal.flush_delay", &mut || Err("no".to_owned()));
    assert_eq!((refused, deciding.hands.hold(Setting::FlushDelay)), (Err("no".to_owned()), false));
    deciding.set_by_hand("wal.flush_delay", &mut || Ok(())).unwrap();
    deciding.set_by_hand("wal.max_total_wal_size", &mut || Ok(())).unwrap();
    assert!([Setting::FlushDelay, Setting::FlushBytes].into_iter().all(|setting| deciding.hands.hold(setting)));
    world.0.lock().is_open = false;
    assert!(!deciding.tick(second) && !deciding.tick(second));
    assert!(deciding.rows().is_empty() && deciding.values().is_empty() && deciding.candidates().is_empty());
}

/// Goal: a change whose watching task ends, as by a panic, ends with its old value, and the next open period records
/// that; the end of an earlier period ends nothing. Method: a trial, the end of the earlier period, of its own, the
/// next period.
#[test]
fn nothing_is_tried_while_nobody_watches() {
    let clock = Arc::new(SimClock::new());
    let (env, disk) = Env::simulated(1);
    let env = Env { clock: clock.clone(), ..env };
    env.files.create_dir_all(Path::new(DIR)).unwrap();
    let deciding = Deciding::new(env, Path::new(DIR), Mode::Canary);
    let world = World::new(disk, 1, 0.15);
    let (before, _) = begin(&deciding, &world);
    let (life, _) = begin(&deciding, &world);
    while world.delay() == 10_000.0 {
        clock.advance_ns(1_000_000_000);
        assert!(deciding.tick(life));
    }
    deciding.end(before);
    assert_eq!((world.delay(), deciding.rows()[0].verdict), (20_000.0, "trial"));
    let weighed = deciding.candidates().swap_remove(0);
    assert_eq!((weighed.setting, weighed.old, weighed.new), ("wal.flush_delay", 10_000.0, Some(20_000.0)));
    assert_eq!((&*weighed.reason, weighed.at_us), ("proposed", deciding.rows()[0].at_us));
    deciding.end(life);
    assert_eq!((world.delay(), deciding.tick(life)), (10_000.0, false));
    let _next = begin(&deciding, &world);
    assert_eq!(deciding.rows()[0].verdict, "interrupted");
}

/// Goal: an unreadable journal prevents decisions, and nothing else. Method: a file that is no journal.
#[test]
fn a_journal_that_cannot_be_read_stops_decisions_alone() {
    let (env, disk) = Env::simulated(1);
    let dir = Path::new(DIR);
    env.files.create_dir_all(dir).unwrap();
    env.files.create(&dir.join("decisions")).unwrap().write_at(0, b"something else, which is longer").unwrap();
    let deciding = Deciding::new(env, dir, Mode::Canary);
    let world = World::new(disk, 1, 0.0);
    let (life, told) = begin(&deciding, &world);
    assert!(told.unwrap().contains("no decisions are made"));
    assert!(!deciding.tick(life) && deciding.rows().is_empty());
    deciding.interrupt();
    deciding.set_mode(Mode::Off);
    deciding.set_by_hand("wal.flush_delay", &mut || Ok(())).unwrap();
}
