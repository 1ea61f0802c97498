//! Tests of the workload on the embedded engine, at a hundredth of the rows: the initial rows and the conditions. The
//! program's tests run the workload over the wire.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_engine::Options;
use collie_env::Env;
use collie_workload::{
    Constants, Population, Scale,
    request::Terminal,
    target::{Answer, Failure, Target},
};

use super::audit::Audited as _;
use super::books::{self, Books, Payments, Verdict};
use super::embedded::{Embedded, restocked};

const SEED: u64 = 11;

fn loaded(dir: &Path, scale: Scale, threads: usize) -> Embedded {
    let engine = Embedded::open(&Env::real(), dir, Options::small(), false).unwrap();
    engine.load(&Population::new(scale, SEED, 1), threads, &|_| ()).unwrap();
    engine
}

/// Runs `each` requests on each client and returns the number of answers by kind.
fn run_requests(target: &dyn Target, scale: Scale, clients: u32, each: u32) -> [u64; 5] {
    let ended: [AtomicU64; 5] = std::array::from_fn(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for number in 0..clients {
            let ended = &ended;
            scope.spawn(move || {
                let mut session = target.connect().unwrap();
                let mut terminal = Terminal::new(scale, Constants::draw(SEED), SEED, number, clients);
                for _ in 0..each {
                    let request = terminal.draw();
                    let ran = std::iter::repeat_with(|| session.run(&request))
                        .find(|ran| !matches!(ran, Err(Failure::Conflict | Failure::Deadlock)));
                    let _answer: Answer = ran.unwrap().unwrap();
                    ended[request.kind() as usize].fetch_add(1, Relaxed);
                }
            });
        }
    });
    ended.map(AtomicU64::into_inner)
}

/// Goal: initial rows follow the specification, regardless of the loading threads. Method: two warehouses by one
/// thread and by three; counts, conditions, and the books of both compared.
#[test]
fn rows_at_first_are_those_of_the_specification() {
    let (dir, scale) = (tempfile::tempdir().unwrap(), Scale::small(2));
    let [one, three] = [1, 3].map(|threads| loaded(dir.path(), scale, threads));
    for engine in [&one, &three] {
        books::check_loaded(engine, &Population::new(scale, SEED, 1)).unwrap();
    }
    for warehouse in 1..=2 {
        let [one, three] = [&one, &three].map(|engine| engine.reader().unwrap().books(warehouse).unwrap());
        assert_eq!(format!("{one:?}"), format!("{three:?}"));
        let lines: u32 = one.lines.iter().map(|of| of.count).sum();
        assert!((5 * 300..=15 * 300).contains(&lines) && one.orders.len() == 300, "{lines} lines");
        assert_eq!((one.stock, one.customers.len(), one.new_orders.len()), (1_000, 300, 90));
    }
}

/// Goal: four clients that conflict in one warehouse leave it consistent. Method: 230 requests each, so that every
/// kind is dealt ten times.
#[test]
fn clients_leave_the_engine_consistent() {
    let (dir, scale) = (tempfile::tempdir().unwrap(), Scale::small(1));
    let engine = loaded(dir.path(), scale, 2);
    assert_eq!(run_requests(&engine, scale, 4, 230), [400, 400, 40, 40, 40]);
    let verdict = books::check(&engine, &scale).unwrap();
    assert!(verdict.holds(), "{verdict:?}");
    let books = engine.reader().unwrap().books(1).unwrap();
    assert!(books.orders.len() > 600, "new orders stand: {}", books.orders.len());
    assert!(books.customers.iter().map(|of| of.deliveries).sum::<u32>() > 100, "orders were delivered");
}

/// Goal: remote customers and remote stock leave three warehouses consistent. Method: as above, with three clients.
#[test]
fn remote_warehouses_stay_consistent() {
    let (dir, scale) = (tempfile::tempdir().unwrap(), Scale::small(3));
    let engine = loaded(dir.path(), scale, 2);
    run_requests(&engine, scale, 3, 230);
    let verdict = books::check(&engine, &scale).unwrap();
    assert!(verdict.holds(), "{verdict:?}");
}

/// Goal: a transaction that omits a column is detected. Method: a Payment that leaves d_ytd unchanged.
#[test]
fn forgotten_column_is_seen() {
    let (dir, scale) = (tempfile::tempdir().unwrap(), Scale::small(1));
    let mut engine = loaded(dir.path(), scale, 1);
    engine.forgets_district_ytd = true;
    run_requests(&engine, scale, 1, 23);
    let verdict = books::check(&engine, &scale).unwrap();
    let broken =
        |condition: u32| verdict.breaches.iter().any(|told| told.starts_with(&format!("condition {condition}:")));
    assert!(!verdict.holds() && broken(1) && broken(9), "{verdict:?}");
    assert!((2..=12).filter(|condition| *condition != 9).all(|condition| !broken(condition)), "{verdict:?}");
    let error = verdict.ensure("engine", "now").unwrap_err().to_string();
    assert!(error.contains("w_ytd and the sum of d_ytd in warehouse 1"), "{error}");
}

/// Goal: each condition detects its mistake. Method: the books of a fresh database, with one mistake at a time.
#[test]
fn each_condition_sees_its_mistake() {
    type Mistake = fn(&mut Books, &mut Payments);
    let (dir, scale) = (tempfile::tempdir().unwrap(), Scale::small(1));
    let engine = loaded(dir.path(), scale, 1);
    let mut reader = engine.reader().unwrap();
    let (books, payments) = (reader.books(1).unwrap(), reader.payments().unwrap());
    let mistakes: [(usize, Mistake); 14] = [
        (0, |books, _| books.stock -= 1),
        (1, |books, _| books.ytd += 1),
        (2, |books, _| books.districts[4].next_order += 1),
        (3, |books, _| {
            books.new_orders.remove(4);
        }),
        (4, |books, _| books.lines[9].count += 1),
        (5, |books, _| books.orders[0].carried = false),
        (5, |books, _| books.new_orders.push((3, 1))),
        (6, |books, _| {
            books.lines.remove(7);
        }),
        (7, |books, _| books.lines[0].delivered -= 1),
        (8, |_, payments| *payments.taken.get_mut(&(1, 1)).unwrap() += 1),
        (9, |_, payments| {
            payments.taken.remove(&(1, 7));
        }),
        (10, |_, payments| *payments.made.get_mut(&(1, 2, 3)).unwrap() -= 1),
        (11, |books, _| books.customers[5].deliveries += 1),
        (12, |books, _| books.customers[5].ytd_payment += 1),
    ];
    for (condition, mistake) in mistakes {
        let (mut books, mut payments) = (books.clone(), payments.clone());
        let mut verdict = Verdict::default();
        books.check(1, &scale, &payments, &mut verdict);
        assert_eq!(verdict.breaches, [""; 0]);
        mistake(&mut books, &mut payments);
        books.check(1, &scale, &payments, &mut verdict);
        let begin = format!("condition {condition}: ");
        assert!(verdict.breaches.iter().any(|told| told.starts_with(&begin)), "{condition}: {verdict:?}");
    }
}

/// Goal: stock is refilled as specified. Method: numbers by hand.
#[test]
fn stock_is_refilled_as_specified() {
    assert_eq!([(20, 10), (19, 10), (10, 1), (11, 1)].map(|(have, want)| restocked(have, want)), [10, 100, 100, 10]);
}
