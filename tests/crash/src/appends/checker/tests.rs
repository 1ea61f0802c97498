//! Histories made by hand: each has one anomaly, which must be found under its name at exactly the levels that exclude
//! it; and clean histories next to them.

use super::*;

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

fn elements(text: &str) -> Vec<Element> {
    text.split(',').filter(|number| !number.is_empty()).map(|number| Element(number.parse().unwrap())).collect()
}

fn list_of(text: &str) -> List {
    List(text.parse().unwrap())
}

/// Parses `r0=1,2` (read), `a0=3` (append), `u0=4` (append, undone). Steps joined by `&` belong to one statement.
fn ops(text: &str) -> Vec<Op> {
    let statements = text.split_whitespace().enumerate();
    let steps = statements.flat_map(|(statement, steps)| steps.split('&').map(move |step| (statement, step)));
    let op = |(statement, step): (usize, &str)| {
        let (list, what) = step[1..].split_once('=').unwrap();
        let (list, elements) = (list_of(list), elements(what));
        match &step[..1] {
            "r" => Op::Read { list, elements, statement },
            "a" => Op::Append { list, element: elements[0] },
            "u" => Op::Undone { list, element: elements[0] },
            other => panic!("{other}?"),
        }
    };
    steps.map(op).collect()
}

/// Returns a transaction that is concurrent with all others, on its own connection (see [`history`]).
fn at(isolation: Isolation, outcome: Outcome, steps: &str) -> Transaction {
    let statements_ns = vec![0; steps.split_whitespace().count()];
    let ops = ops(steps);
    Transaction { session: 0, replica: None, isolation, began_ns: 0, ended_ns: 1000, outcome, statements_ns, ops }
}

/// Returns the history of the transactions, each on its own connection, with lists at the end such as `0=1,2 1=3`.
fn history(mut transactions: Vec<Transaction>, end: &str) -> History {
    (0..).zip(&mut transactions).for_each(|(number, transaction)| transaction.session = number);
    let end = end.split_whitespace().map(|list| {
        let (list, shown) = list.split_once('=').unwrap();
        (list_of(list), elements(shown))
    });
    History { transactions, end: end.collect() }
}

fn judged(history: &History, order: Order) -> Result<Facts, Violation> {
    check(history, Rules { order, as_level: None })
}

/// Returns a history of acknowledged transactions at one level.
fn same(level: Isolation, steps: &[&str], end: &str) -> History {
    history(steps.iter().map(|steps| at(level, Outcome::Acknowledged, steps)).collect(), end)
}

/// Checks that the anomaly is found at these levels, and nothing at the others.
fn excluded_at(levels: &[Isolation], name: &str, steps: &[&str], end: &str) {
    for level in LEVELS {
        let found = judged(&same(level, steps, end), Order::None);
        if levels.contains(&level) {
            let violation = found.expect_err(name);
            assert!(violation.name == name, "{level:?}, {name} is expected: {violation}");
        } else {
            assert!(found.is_ok(), "{level:?}: {found:?}");
        }
    }
}

/// Goal: clean histories pass and are counted. Method: serial appends and reads of texts and rows; own appends; a
/// rolled-back transaction; an append that was undone; a commit without an answer, there and not there.
#[test]
fn clean_histories_pass() {
    excluded_at(
        &[],
        "",
        &["a0=1 a1=2", "r0=1 a0=3 r0=1,3", "r0=1,3&r1=2 a1=4 a1=5", "r1=2,4,5", "r1="],
        "0=1,3 1=2,4,5",
    );
    for level in LEVELS {
        let ok = |steps| at(level, Outcome::Acknowledged, steps);
        let transactions = vec![
            ok("a0=1 u0=9 r0=1"),
            at(level, Outcome::Aborted, "r0=1 a0=8 r0=1,8"),
            at(level, Outcome::Unknown, "r0=1 a0=2 a1=3"),
            at(level, Outcome::Unknown, "r0=1 a0=7"),
            ok("r0=1,2"),
        ];
        let facts = judged(&history(transactions, "0=1,2 1=3"), Order::RealTime).unwrap();
        assert_eq!((facts.committed, facts.appends, facts.reads), (3, 3, 6), "{level:?}");
    }
}

/// Goal: elements that are lost, duplicated, there in part, or there although they were rolled back are found (L1 to
/// L3). Method: each.
#[test]
fn wrong_end_is_found() {
    let end = |outcome, steps: &str, end: &str| {
        let first = at(Isolation::ReadCommitted, Outcome::Acknowledged, "a0=1");
        let violation = judged(&history(vec![first, at(Isolation::ReadCommitted, outcome, steps)], end), Order::None);
        violation.map_err(|violation| violation.name).err()
    };
    let name = |text: &str| Some(text.to_owned());
    assert_eq!(end(Outcome::Acknowledged, "a0=2 a1=3", "0=1,2 1=3"), None);
    assert_eq!(end(Outcome::Acknowledged, "a0=2 a1=3", "0=1,2"), name("lost append"));
    assert_eq!(end(Outcome::Acknowledged, "a0=2 a0=3", "0=1,3,2"), name("incompatible order"));
    assert_eq!(end(Outcome::Acknowledged, "a0=2", "0=1,2,2"), name("append made twice"));
    assert_eq!(end(Outcome::Acknowledged, "a0=2", "0=1,2,4"), name("garbage"));
    assert_eq!(end(Outcome::Acknowledged, "a0=2", "0=1 1=2"), name("garbage"));
    assert_eq!(end(Outcome::Acknowledged, "u0=2", "0=1,2"), name("aborted append"));
    assert_eq!(end(Outcome::Aborted, "a0=2", "0=1,2"), name("aborted append"));
    assert_eq!(end(Outcome::Aborted, "a0=2", "0=1"), None);
    assert_eq!(end(Outcome::Unknown, "a0=2 a1=3", "0=1 1=3"), name("half a transaction"));
    assert_eq!(end(Outcome::Unknown, "a0=2 a1=3", "0=1"), None);
}

/// Goal: a read of rolled-back elements, of a part of another transaction's appends, or in another order is found at
/// every level, also if its reader was rolled back (L4). Method: each.
#[test]
fn wrong_reads_are_found() {
    let all = &LEVELS;
    excluded_at(all, "aborted read (G1a)", &["a0=1 u0=9", "r0=1,9"], "0=1");
    excluded_at(all, "intermediate read (G1b)", &["a0=1 a0=2", "r0=1"], "0=1,2");
    excluded_at(all, "incompatible order", &["a0=1", "a0=2", "r0=2"], "0=1,2");
    excluded_at(all, "garbage", &["a0=1", "r0=1,2"], "0=1");
    excluded_at(all, "own append unseen", &["a0=1", "a0=2 r0=1"], "0=1,2");
    excluded_at(all, "list that shrinks", &["a0=1", "a0=2", "r0=1,2 r0=1"], "0=1,2");
    excluded_at(&LEVELS[1..], "unrepeatable read", &["a0=1", "a0=2", "r0=1 r0=1,2"], "0=1,2");
    for reader in [Outcome::Acknowledged, Outcome::Aborted] {
        for (writer, name) in [
            (Outcome::Aborted, "aborted read (G1a)"),
            (Outcome::Unknown, "aborted read (G1a) of what a crash took back"),
        ] {
            let read = at(Isolation::ReadCommitted, reader, "r0=1");
            let of = history(vec![at(Isolation::ReadCommitted, writer, "a0=1"), read], "0=");
            let found = judged(&of, Order::None).map_err(|violation| violation.name);
            // A crash may take back both transactions.
            let passes = writer == Outcome::Unknown && reader == Outcome::Aborted;
            assert_eq!(found.err(), (!passes).then(|| name.to_owned()));
        }
    }
}

/// Goal: each cycle is found under its name, at exactly the levels that exclude it (L5 to L7). Method: the smallest
/// history of each, and one with a further transaction in the cycle.
#[test]
fn cycles_are_found_by_name_where_they_are_excluded() {
    let (all, snapshot, serial) = (&LEVELS, &LEVELS[1..], &LEVELS[2..]);
    excluded_at(all, "write cycle (G0)", &["a0=1 a1=2", "a1=3 a0=4"], "0=1,4 1=3,2");
    excluded_at(all, "circular information flow (G1c)", &["a0=1 r1=2", "a1=2 r0=1"], "0=1 1=2");
    excluded_at(all, "circular information flow (G1c)", &["a0=1 r1=2", "a1=2 r2=3", "a2=3 a0=4"], "0=1,4 1=2 2=3");
    excluded_at(snapshot, "lost update (G-single)", &["a0=1", "r0=1 a0=3", "a0=2"], "0=1,2,3");
    excluded_at(snapshot, "read skew (G-single)", &["a0=1 a1=2", "r0= r1=2"], "0=1 1=2");
    excluded_at(snapshot, "read skew (G-single)", &["a0=1", "r0=1 a1=2", "r0= r1=2"], "0=1 1=2");
    excluded_at(serial, "write skew (G2-item)", &["r0= a2=1", "r2= a0=2"], "0=2 2=1");
    excluded_at(serial, "write skew (G2)", &["r0= a1=1", "r1= a0=2"], "0=2 1=1");
    excluded_at(serial, "anti-dependency cycle (G2-item)", &["r0= a2=1", "r2= a4=2", "r4= a0=3"], "0=3 2=1 4=2");
    // A reader between two writers whose write skew snapshot isolation allows.
    excluded_at(serial, "anti-dependency cycle (G2-item)", &["r0=&r2= a4=1", "a0=2", "r0=2&r4="], "0=2 4=1");
    // Two readers that see two independent writers in different orders: no two anti-dependencies are adjacent.
    excluded_at(
        snapshot,
        "anti-dependencies apart from each other (G-nonadjacent)",
        &["a0=1", "a2=2", "r0=1 r2=", "r2=2 r0="],
        "0=1 2=2",
    );
}

/// Goal: one statement of READ COMMITTED sees one moment; two may see two. Method: read skew within one statement, and
/// over two.
#[test]
fn statement_of_read_committed_is_one_moment() {
    let level = Isolation::ReadCommitted;
    let one = judged(&same(level, &["a0=1 a2=2", "r0=&r2=2"], "0=1 2=2"), Order::None);
    assert_eq!(one.expect_err("two moments").name, "read skew (G-single)");
    let two = judged(&same(level, &["a0=1 a2=2", "r0= r2=2"], "0=1 2=2"), Order::None).unwrap();
    assert_eq!(two.read_skews, 1);
}

/// Goal: in a mix of levels each transaction is judged by its own. Method: lost update and write skew, with every pair
/// of levels.
#[test]
fn each_is_held_to_its_own_level() {
    for (reader, other) in LEVELS.into_iter().flat_map(|level| LEVELS.map(|other| (level, other))) {
        let ok = |level, steps| at(level, Outcome::Acknowledged, steps);
        let lost = history(vec![ok(reader, "r0= a0=2"), ok(other, "a0=1")], "0=1,2");
        assert_eq!(judged(&lost, Order::None).is_err(), reader != Isolation::ReadCommitted, "{reader:?}, {other:?}");
        let skew = history(vec![ok(reader, "r0= a2=2"), ok(other, "r2= a0=1")], "0=1 2=2");
        let serial = reader == Isolation::Serializable && other == Isolation::Serializable;
        assert_eq!(judged(&skew, Order::None).is_err(), serial, "{reader:?}, {other:?}");
    }
}

/// Goal: a transaction that begins after another one has ended sees its effects, and only then must it (L8). Method: a
/// stale read on another connection, on the same one, and concurrent with the writer; at each level and order; for READ
/// COMMITTED the begin of the statement counts.
#[test]
fn order_in_time_counts_where_it_is_asked_for() {
    for level in LEVELS {
        for (same_connection, began_ns) in [(false, 1000), (false, 1001), (true, 1001)] {
            let mut of = same(level, &["a0=1", "r0="], "0=1");
            let reader = &mut of.transactions[1];
            (reader.began_ns, reader.statements_ns[0], reader.ended_ns) = (began_ns, began_ns, 2000);
            reader.session = u64::from(!same_connection);
            let name = |order| judged(&of, order).map_err(|violation| violation.name).err();
            assert_eq!(name(Order::None), None);
            let stale = |text: &str| Some(format!("read skew (G-single) in {text}"));
            let in_session = same_connection.then(|| stale("the order of a connection")).flatten();
            assert_eq!(name(Order::Session), in_session, "{level:?}");
            assert_eq!(name(Order::RealTime), (began_ns > 1000).then(|| stale("real time")).flatten(), "{level:?}");
        }
    }
    let mut late = same(Isolation::ReadCommitted, &["a0=1", "r2= r0="], "0=1 2=");
    late.transactions[1].statements_ns[1] = 1001;
    assert!(judged(&late, Order::RealTime).is_err(), "its second statement began after the writer had ended");
    late.transactions[1].statements_ns[1] = 999;
    judged(&late, Order::RealTime).expect("beside it");
}

/// Goal: L9: a replica may show an old state, but none from the future, none in another order than the primary's, and
/// none older than it showed before. Method: two writers, one after the other; a replica's read that shows neither,
/// both, or the second only; readers on two nodes that see two independent writers in different orders; a replica that
/// goes back, within one process and over two.
#[test]
fn reads_on_a_replica_may_be_old_and_nothing_else() {
    let level = Isolation::RepeatableRead;
    let name = |transactions: Vec<(Option<u64>, u64, &str)>, end: &str| {
        let of = |(replica, began_ns, steps): (Option<u64>, u64, &str)| Transaction {
            replica,
            began_ns,
            ended_ns: began_ns + 10,
            ..at(level, Outcome::Acknowledged, steps)
        };
        let of = history(transactions.into_iter().map(of).collect(), end);
        judged(&of, Order::RealTime).map_err(|violation| violation.name).err()
    };
    let writers = [(None, 0, "a0=1"), (None, 100, "a2=2")];
    let with = |more: &[(Option<u64>, u64, &'static str)]| name([&writers[..], more].concat(), "0=1 2=2");
    let skew = |order: &str| Some(format!("{order} in real time"));
    assert_eq!(with(&[(Some(1), 200, "r0= r2=")]), None, "old");
    assert_eq!(with(&[(None, 200, "r0= r2=")]), skew("read skew (G-single)"), "the same on the primary");
    assert_eq!(with(&[(Some(1), 200, "r0=1 r2=")]), None);
    assert_eq!(with(&[(Some(1), 200, "r0=1 r2=2")]), None);
    assert_eq!(with(&[(Some(1), 200, "r0= r2=2")]), skew("read skew (G-single)"), "a hole");
    assert_eq!(with(&[(Some(1), 50, "r2=2 r0=1")]), skew("circular information flow (G1c)"), "new");
    assert_eq!(with(&[(Some(1), 200, "r0=1 r2=2"), (Some(1), 300, "r0= r2=")]), skew("read skew (G-single)"), "back");
    assert_eq!(with(&[(Some(1), 200, "r0=1 r2=2"), (Some(2), 300, "r0= r2=")]), None, "another life");
    let fork = [(None, 0, "a0=1"), (None, 0, "a2=2"), (None, 5, "r0=1 r2="), (Some(1), 5, "r0= r2=2")];
    let fork = name(fork.to_vec(), "0=1 2=2");
    assert_eq!(fork.as_deref(), Some("anti-dependencies apart from each other (G-nonadjacent)"), "long fork");
}

/// Goal: the text of a violation is readable. Method: the text of a lost update in real time, with another transaction
/// in the cycle.
#[test]
fn violation_names_its_transactions_and_what_they_saw() {
    let mut of = same(Isolation::RepeatableRead, &["a0=1", "a0=2", "r0=1 a0=3"], "0=1,2,3");
    of.transactions[2].began_ns = 1500;
    let violation = judged(&of, Order::RealTime).expect_err("it lost 2").to_string();
    let expected = "lost update (G-single): T2 read list 0 without what T1 appended next\n  \
                    T2 appended to list 0 right after T1\n  \
                    T1 is connection 1, RepeatableRead, Acknowledged: 2 to list 0;\n  \
                    T2 is connection 2, RepeatableRead, Acknowledged: statement 0 read list 0 as [1]; 3 to list 0;";
    assert_eq!(violation, expected);
}

/// Goal: anomalies that a level allows are counted, and are found when the history is judged by the next level. Method:
/// lost update, read skew and write skew at the level that allows them.
#[test]
fn allowed_anomalies_are_counted_and_found_one_level_up() {
    let allowed = |[level, above]: [Isolation; 2], steps: &[&str], end: &str| {
        let of = same(level, steps, end);
        check(&of, Rules { order: Order::None, as_level: Some(above) }).expect_err("it is not allowed above");
        let facts = judged(&of, Order::RealTime).expect("it is allowed");
        [facts.lost_updates, facts.read_skews, facts.write_skews]
    };
    let [lowest, middle, highest] = LEVELS;
    assert_eq!(allowed([lowest, middle], &["a0=1", "r0=1 a0=3", "a0=2"], "0=1,2,3"), [1, 0, 0]);
    assert_eq!(allowed([lowest, middle], &["a0=1 a2=2", "r0= r2=2"], "0=1 2=2"), [0, 1, 0]);
    assert_eq!(allowed([middle, highest], &["r0= a2=1", "r2= a0=2"], "0=2 2=1"), [0, 0, 1]);
}
