//! Tests of [`Quorum`] and its list.

use std::time::Duration;

use collie_base::Lsn;
use proptest::{collection::vec, prelude::*, sample::subsequence};

use super::{Change, Degrade, NEAR_BYTES, NEAR_NS, Quorum, QuorumList, Sent};

const MS: u64 = 1_000_000;

fn list(text: &str) -> QuorumList {
    QuorumList::parse(text).expect("it is right").expect("it is not empty")
}

fn at(received: u64, durable: u64, applied: u64) -> Sent {
    let [received, durable, applied] = [received, durable, applied].map(Lsn::new);
    Sent { sent: received, received, durable, applied }
}

/// Agrees to degrade, as the caller.
fn yes(_since_ns: u64) -> bool {
    true
}

/// Goal: PostgreSQL's forms are read with their meaning here, or refused with its codes. Method: table.
#[test]
fn lists_are_read_or_refused_with_a_code() {
    assert_eq!(QuorumList::parse("  "), Ok(None));
    for (text, shown) in [
        ("ANY 2 (a, b, c)", "ANY 2 (a, b, c)"),
        ("any 1(a)", "ANY 1 (a)"),
        ("  Any  1  ( \"node-7\" , b.x_ )  ", "ANY 1 (node-7, b.x_)"),
        ("a", "ANY 1 (a)"),
        ("2 (a, b)", "ANY 2 (a, b)"),
        ("FIRST 2 (a, b)", "ANY 2 (a, b)"),
    ] {
        assert_eq!(list(text).to_string(), shown, "{text}");
        assert_eq!(list(shown), list(text), "what is shown can be read");
    }
    for (text, code) in [
        ("ANY 3 (a, b)", "22023"),
        ("ANY 0 (a)", "22023"),
        ("ANY 1 (a, a)", "22023"),
        ("ANY 1 (a, )", "22023"),
        ("ANY 1 (a", "22023"),
        ("ANY (a)", "22023"),
        ("ANY -1 (a)", "22023"),
        ("MOST 1 (a)", "22023"),
        ("ANY 99999999999999999999 (a)", "22023"),
        ("ANY 1 (a b)", "22023"),
        ("FIRST 1 (a, b)", "0A000"),
        ("1 (a, b)", "0A000"),
        ("a, b", "0A000"),
        ("*", "0A000"),
        ("ANY 1 (*)", "0A000"),
    ] {
        let error = QuorumList::parse(text).expect_err(text);
        assert_eq!(error.sqlstate(), code, "{text}: {error}");
    }
}

/// Goal: Q1 in numbers. Method: two of three members, one replica that is not named, one that returns with less.
#[test]
fn the_second_best_of_three_counts_and_nothing_is_taken_back() {
    let mut quorum = Quorum::new(list("ANY 2 (a, b, c)"), Degrade::Wait);
    assert!(quorum.has("c") && !quorum.has("d"));
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|slot| quorum.connected(slot));
    assert_eq!(quorum.connected_len(), 3);
    assert!(!quorum.on_ack("a", a, at(500, 400, 300)), "one alone");
    assert!(!quorum.on_ack("d", d, at(900, 900, 900)), "it is not named");
    assert!(quorum.on_ack("b", b, at(450, 450, 100)));
    assert_eq!(quorum.confirmed(), Sent { sent: Lsn::ZERO, ..at(450, 400, 100) });
    quorum.on_ack("b", b, at(460, 100, 100));
    assert_eq!(quorum.confirmed().durable, Lsn::new(400), "nothing is taken back");
    quorum.gone("a", a);
    assert_eq!(quorum.connected_len(), 2);
    assert!(quorum.on_ack("c", c, at(480, 480, 480)), "who is away still has what it had");
    assert_eq!(quorum.confirmed().received, Lsn::new(480));
    let anew = quorum.connected("a");
    assert!(!quorum.on_ack("a", a, at(999, 999, 999)), "the connection before is over");
    quorum.gone("a", a);
    assert_eq!(quorum.connected_len(), 3, "the end of the one before comes late");
    assert!(!quorum.on_ack("a", anew, at(10, 10, 10)), "it was filled anew");
    assert_eq!(quorum.confirmed().received, Lsn::new(480));
    assert!(quorum.on_ack("b", b, at(490, 485, 480)) && quorum.confirmed().durable == Lsn::new(480));
}

/// Goal: Q2. Method: time passes while a position is owed, while the owed position changes, and while nothing is
/// owed; with and without permission.
#[test]
fn it_makes_do_without_only_when_told_to_and_when_something_waited() {
    let mut waits = Quorum::new(list("a"), Degrade::Wait);
    assert_eq!(waits.tick(Lsn::new(100), 0, yes), None);
    assert_eq!(waits.tick(Lsn::new(100), 1 << 60, yes), None);
    assert!(!waits.is_degraded());

    let mut quorum = Quorum::new(list("a"), Degrade::After(Duration::from_millis(100)));
    let a = quorum.connected("a");
    quorum.on_ack("a", a, at(100, 100, 100));
    assert_eq!(quorum.tick(Lsn::new(100), 0, yes), None);
    assert_eq!(quorum.tick(Lsn::new(100), 900 * MS, yes), None, "nothing is owed");
    assert_eq!(quorum.tick(Lsn::new(200), 901 * MS, yes), None);
    quorum.on_ack("a", a, at(200, 200, 100));
    assert_eq!(quorum.tick(Lsn::new(300), 1_000 * MS, yes), None, "what was owed is there, something else is owed");
    assert_eq!(quorum.tick(Lsn::new(400), 1_099 * MS, yes), None);
    quorum.on_ack("a", a, at(300, 299, 100));
    assert_eq!(quorum.tick(Lsn::new(400), 1_100 * MS, yes), Some(Change::Degraded), "a byte is missing");
    assert!(quorum.is_degraded());
    assert_eq!(quorum.tick(Lsn::new(400), 1_200 * MS, yes), None, "it is told once");
}

/// Goal: Q3. Method: a quorum of two that comes close, falls back, loses one, and then stays close for long
/// enough.
#[test]
fn it_asks_again_once_enough_are_near_for_long_enough() {
    let far = NEAR_BYTES + 100_000;
    let mut quorum = Quorum::new(list("ANY 2 (a, b)"), Degrade::After(Duration::ZERO));
    assert_eq!(quorum.tick(Lsn::new(far), 1, yes), Some(Change::Degraded));
    assert_eq!(quorum.tick(Lsn::new(10), 9 * NEAR_NS, yes), None, "nobody is there, however little is owed");
    let mut now_ns = 10 * NEAR_NS;
    let (a, b) = (quorum.connected("a"), quorum.connected("b"));
    quorum.on_ack("a", a, at(far, far, far));
    quorum.on_ack("b", b, at(far, 99_999, far));
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None);
    now_ns += 2 * NEAR_NS;
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None, "one of the two is not near");
    quorum.on_ack("b", b, at(far, 100_000, far));
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None);
    now_ns += NEAR_NS - 1;
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None);
    assert_eq!(quorum.tick(Lsn::new(far + 1), now_ns, yes), None, "it fell back");
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None);
    quorum.gone("a", a);
    assert_eq!(quorum.tick(Lsn::new(far), now_ns + NEAR_NS, yes), None, "one is away");
    let a = quorum.connected("a");
    quorum.on_ack("a", a, at(far, far, far));
    now_ns += 2 * NEAR_NS;
    assert_eq!(quorum.tick(Lsn::new(far), now_ns, yes), None);
    assert_eq!(quorum.tick(Lsn::new(far), now_ns + NEAR_NS, yes), Some(Change::Restored));
    assert!(!quorum.is_degraded());
}

/// Goal: Q4. Method: changes from one replica to another and to no list: acks of one list, of the other, below the
/// record and at it; confirmed positions stay, and a change whose record has no position yet is not complete.
#[test]
fn a_change_is_over_once_both_lists_have_its_record() {
    let mut quorum = Quorum::new(list("a"), Degrade::Wait);
    let (a, b) = (quorum.connected("a"), quorum.connected("b"));
    quorum.on_ack("a", a, at(100, 100, 100));
    quorum.on_ack("b", b, at(150, 150, 150));
    let changing = quorum.asked().changed_to(Some(list("b")));
    assert!(!quorum.ask(changing), "both have no more than one of them");
    assert_eq!((quorum.tick(Lsn::new(200), 0, yes), quorum.confirmed().durable), (None, Lsn::new(100)));
    assert!(quorum.has("a") && quorum.has("b") && quorum.connected_len() == 2);
    quorum.until(Lsn::new(180));
    assert!(quorum.on_ack("a", a, at(300, 300, 300)) && quorum.confirmed().durable == Lsn::new(150));
    assert_eq!(quorum.tick(Lsn::new(300), 0, yes), None, "the new list has not got the record");
    assert!(quorum.on_ack("b", b, at(180, 180, 180)));
    assert_eq!(quorum.tick(Lsn::new(300), 0, yes), Some(Change::Changed));
    assert_eq!((quorum.tick(Lsn::new(300), 0, yes), quorum.confirmed().durable), (None, Lsn::new(180)));
    assert!(!quorum.has("a") && quorum.on_ack("b", b, at(250, 250, 250)), "the new list alone");
    quorum.gone("a", a);

    let off = quorum.asked().changed_to(None);
    quorum.ask(off);
    quorum.until(Lsn::new(260));
    assert_eq!(quorum.tick(Lsn::new(260), 0, yes), None);
    quorum.on_ack("b", b, at(260, 260, 260));
    assert_eq!(quorum.tick(Lsn::new(260), 0, yes), Some(Change::Changed));
    assert!(!quorum.asked().asks() && !quorum.on_ack("b", b, at(900, 900, 900)), "nobody is asked");
    assert_eq!((quorum.confirmed().durable, quorum.tick(Lsn::new(900), 1 << 60, yes)), (Lsn::new(260), None));
}

/// Goal: the leader counts for each list that names it, with its durable position, and never waits for itself
/// (Q5): a majority of three is reached with one other node, a list that it satisfies alone asks no other node,
/// and a list whose only replica was promoted can be left. Method: fixed acks and positions of its own.
#[test]
fn the_leader_counts_for_each_list_that_names_it() {
    let names = ["c", "a", "b"].map(str::to_owned).to_vec();
    let majority = QuorumList::majority(names).expect("three names");
    assert_eq!(majority.to_string(), "ANY 2 (a, b, c)", "it is the same on each node");
    let mut quorum = Quorum::new(majority, Degrade::Wait).led_by("a");
    let b = quorum.connected("b");
    assert!(quorum.asks_others() && quorum.own_member() == Some("a") && quorum.connected_len() == 2);
    assert!(!quorum.on_own(Lsn::new(100)), "one of two");
    assert!(quorum.on_ack("b", b, at(90, 80, 70)));
    let confirmed = quorum.confirmed();
    assert_eq!((confirmed.received, confirmed.durable, confirmed.applied), (Lsn::new(90), Lsn::new(80), Lsn::new(70)));
    assert!(quorum.on_ack("b", b, at(120, 120, 120)) && quorum.confirmed().durable == Lsn::new(100));
    assert!(
        !quorum.on_own(Lsn::new(60)) && quorum.on_own(Lsn::new(130)) && quorum.confirmed().durable == Lsn::new(120)
    );

    let mut quorum = Quorum::new(list("a"), Degrade::After(Duration::ZERO)).led_by("a");
    let b = quorum.connected("b");
    assert!(!quorum.asks_others(), "its own disk is enough");
    assert_eq!((quorum.tick(Lsn::new(90), 1, yes), quorum.is_degraded()), (None, false));
    assert!(quorum.on_own(Lsn::new(100)) && quorum.confirmed().durable == Lsn::new(100));
    let changing = quorum.asked().changed_to(Some(list("b")));
    quorum.ask(changing);
    quorum.until(Lsn::new(120));
    assert!(quorum.asks_others() && quorum.own_member() == Some("a"));
    assert!(!quorum.on_own(Lsn::new(120)) && quorum.on_ack("b", b, at(110, 110, 110)));
    assert_eq!(quorum.confirmed().durable, Lsn::new(110));
    assert!(quorum.on_ack("b", b, at(120, 120, 120)));
    assert_eq!((quorum.tick(Lsn::new(120), 0, yes), quorum.own_member()), (Some(Change::Changed), None));

    let mut quorum = Quorum::new(list("a"), Degrade::Wait).led_by("a");
    let off = quorum.asked().changed_to(None);
    quorum.ask(off);
    quorum.until(Lsn::new(120));
    assert!(quorum.on_own(Lsn::new(110)) && !quorum.asks_others());
    assert_eq!(quorum.tick(Lsn::new(110), 0, yes), None, "its record is not on its disk yet");
    assert!(quorum.on_own(Lsn::new(120)));
    assert_eq!(quorum.tick(Lsn::new(120), 0, yes), Some(Change::Changed));
    assert!(QuorumList::majority(vec!["a".to_owned(), "a".to_owned()]).is_err());
}

/// Goal: the primary degrades only when the caller agrees, and time in which the process stood still does not
/// count (Q2). Method: a position is owed for long; a refusal, a restart of the time, consent.
#[test]
fn it_makes_do_without_only_by_leave_and_in_time_that_it_ran() {
    let mut quorum = Quorum::new(list("a"), Degrade::After(Duration::from_millis(100)));
    assert_eq!(quorum.tick(Lsn::new(10), 5 * MS, yes), None);
    let mut since = None;
    let refused = quorum.tick(Lsn::new(10), 105 * MS, |since_ns| {
        since = Some(since_ns);
        false
    });
    assert_eq!((refused, since, quorum.is_degraded()), (None, Some(5 * MS), false));
    quorum.begin_time();
    assert_eq!(quorum.tick(Lsn::new(10), 1_000 * MS, yes), None, "the time starts again");
    assert_eq!(quorum.tick(Lsn::new(10), 1_099 * MS, yes), None);
    assert_eq!(quorum.tick(Lsn::new(10), 1_100 * MS, yes), Some(Change::Degraded));
}

/// Goal: a quorum that is no longer required is not degraded, and a change completes in a degraded quorum too.
/// Method: a degraded quorum is turned off, and completes that change.
#[test]
fn a_change_ends_while_replicas_are_made_do_without() {
    let mut quorum = Quorum::new(list("a"), Degrade::After(Duration::ZERO));
    let a = quorum.connected("a");
    assert_eq!(quorum.tick(Lsn::new(10), 1, yes), Some(Change::Degraded));
    let off = quorum.asked().changed_to(None);
    quorum.ask(off);
    quorum.until(Lsn::new(20));
    assert!(quorum.is_degraded() && quorum.tick(Lsn::new(20), 2, yes).is_none());
    quorum.on_ack("a", a, at(20, 20, 20));
    assert_eq!(quorum.tick(Lsn::new(20), 3, yes), Some(Change::Changed));
    assert!(!quorum.is_degraded());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Connected(usize),
    Gone(usize),
    Ack(usize, u64, u64, u64),
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..NAMES.len();
    let step = prop_oneof![
        1 => who().prop_map(Step::Connected),
        1 => who().prop_map(Step::Gone),
        8 => (who(), 0..100_u64, 0..100_u64, 0..100_u64).prop_map(|(who, r, d, a)| Step::Ack(who, r, d, a)),
    ];
    vec(step, 0..60)
}

proptest! {
    /// Goal: Q1. Method: members connect, leave and report at random; the model checks for each position whether
    /// enough members had it at some time, each by its newest report.
    #[test]
    fn confirmed_is_what_enough_members_had(
        members in subsequence(NAMES.to_vec(), 1..=4), needed in 1..=4_usize, steps in steps(),
    ) {
        let needed = needed.min(members.len());
        let list = QuorumList::new(needed, members.iter().map(|name| (*name).to_owned()).collect()).unwrap();
        let mut quorum = Quorum::new(list, Degrade::Wait);
        let (mut newest, mut best, mut connections) = ([(0, 0, 0); NAMES.len()], (0, 0, 0), [0; NAMES.len()]);
        let mut here = [false; NAMES.len()];
        for step in steps {
            match step {
                Step::Connected(who) => {
                    connections[who] = quorum.connected(NAMES[who]);
                    (here[who], newest[who]) = (true, (0, 0, 0));
                }
                Step::Gone(who) => {
                    quorum.gone(NAMES[who], connections[who]);
                    here[who] = false;
                }
                Step::Ack(who, received, durable, applied) => {
                    let before = quorum.confirmed();
                    let grew = quorum.on_ack(NAMES[who], connections[who], at(received, durable, applied));
                    prop_assert_eq!(grew, quorum.confirmed() != before);
                    if here[who] {
                        newest[who] = (received, durable, applied);
                    }
                }
            }
            let enough = |of: &dyn Fn(&(u64, u64, u64)) -> u64| {
                let has = |bound: u64| {
                    let having = (0..NAMES.len()).filter(|who| members.contains(&NAMES[*who]) && of(&newest[*who]) >= bound);
                    having.count() >= needed
                };
                (0..=100_u64).rev().find(|bound| has(*bound)).unwrap_or(0)
            };
            best = (best.0.max(enough(&|r| r.0)), best.1.max(enough(&|r| r.1)), best.2.max(enough(&|r| r.2)));
            let confirmed = quorum.confirmed();
            let found = (confirmed.received.get(), confirmed.durable.get(), confirmed.applied.get());
            prop_assert_eq!(found, best);
        }
    }
}
