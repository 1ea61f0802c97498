//! The state machine, step by step.

use super::{super::proposal::tests::sound, *};

fn canary() -> Decisions {
    Decisions::recover(Mode::Canary, &[], 0).0
}

fn baseline() -> Watch {
    Watch::new(0.0009, 0.0009)
}

/// Passes a trial; returns the actions at its end.
fn pass_trial(decisions: &mut Decisions, now_s: u64) -> Vec<Action> {
    for _ in 0..40 {
        let actions = decisions.trial_pair(Pair { old: 100.0, new: 110.0 }, true, &baseline(), now_s);
        if !actions.is_empty() {
            return actions;
        }
    }
    panic!("a trial of forty good pairs does not end")
}

const GOOD: Window = Window { latency_loss: 0.0, throughput_loss: -0.1 };
const BAD: Window = Window { latency_loss: 0.0, throughput_loss: 0.1 };

fn rows(actions: &[Action]) -> Vec<Row> {
    actions.iter().filter_map(|action| if let Action::Journal(row) = action { Some(*row) } else { None }).collect()
}

/// Goal: a good change goes through all stages, with the actions in the order of RT9. Method: every action from
/// proposal to kept.
#[test]
fn a_good_change_is_tried_watched_and_kept() {
    let (mut decisions, proposal) = (canary(), sound());
    let (setting, old, new) = (proposal.setting, proposal.old, proposal.new);
    let actions = decisions.propose(&proposal, 1000).unwrap();
    assert!(
        matches!(actions[..], [Action::Journal(row), Action::StartTrial(_)] if row.verdict == Verdict::Trial && row.old == old)
    );
    let actions = pass_trial(&mut decisions, 1040);
    assert_eq!(actions[0], Action::EndTrial { setting, old });
    assert_eq!(rows(&actions)[0].verdict, Verdict::Canary { until_s: 1040 + DEADLINE_S });
    assert_eq!(actions[2], Action::Set { setting, value: new }, "after the row with the old value");
    for second in 0..599 {
        assert_eq!(decisions.canary_window(GOOD, 1041 + second), []);
    }
    let actions = decisions.canary_window(GOOD, 1640);
    let [Action::Journal(row), Action::WriteConfiguration { value, .. }] = actions[..] else { panic!("{actions:?}") };
    assert!(matches!(row.verdict, Verdict::Kept { gain } if (gain - 0.1).abs() < 1e-9) && value == new);
    assert_eq!(
        row.to_string(),
        format!(
            "0: {} 10 -> 20, model 0000000000000007 predicts +10.0 % (+5.0 % to +15.0 %), trial p = 0.0001; kept, +10.0 % seen",
            setting.key()
        )
    );
    assert_eq!(decisions.in_flight(), None);
}

/// Goal: a worse value is rolled back within ten seconds, the old value before the row. Method: bad windows after a
/// trial that passed wrongly.
#[test]
fn a_bad_canary_is_rolled_back() {
    let (mut decisions, proposal) = (canary(), sound());
    decisions.propose(&proposal, 1000).unwrap();
    pass_trial(&mut decisions, 1040);
    let seconds = (1..).find(|second| !decisions.canary_window(BAD, 1040 + second).is_empty()).unwrap();
    assert!(seconds <= 10, "{seconds}");
    let mut again = canary();
    again.propose(&proposal, 1000).unwrap();
    pass_trial(&mut again, 1040);
    let actions = again.guard(Guard::Errors, 1041);
    assert_eq!(actions[0], Action::Set { setting: proposal.setting, value: proposal.old });
    assert_eq!(rows(&actions)[0].verdict, Verdict::Guarded(Guard::Errors));
}

/// Goal: a value that a person sets in the meantime stays (RT8). Method: that guard during a canary.
#[test]
fn a_setting_taken_over_by_hand_is_not_touched() {
    let mut decisions = canary();
    decisions.propose(&sound(), 1000).unwrap();
    pass_trial(&mut decisions, 1040);
    let actions = decisions.guard(Guard::SetByHand, 1041);
    assert!(matches!(actions[..], [Action::Journal(row)] if row.verdict == Verdict::Guarded(Guard::SetByHand)));
}

/// Goal: at most one change is in flight, ten minutes lie between two, and a refusal changes nothing. Method: proposals
/// at each time.
#[test]
fn changes_come_one_at_a_time() {
    let (mut decisions, proposal) = (canary(), sound());
    decisions.propose(&proposal, 1000).unwrap();
    assert_eq!(decisions.propose(&proposal, 1001), Err(Refusal::Busy));
    let late = decisions.trial_pair(Pair { old: 1.0, new: 2.0 }, false, &baseline(), 1010);
    assert!(
        matches!(late[..], [Action::EndTrial { .. }, Action::Journal(row)] if row.verdict == Verdict::RejectedLate)
    );
    assert_eq!(decisions.propose(&proposal, 1010 + COOL_DOWN_S - 1), Err(Refusal::CoolDown));
    let next = decisions.propose(&proposal, 1010 + COOL_DOWN_S).unwrap();
    assert_eq!(rows(&next)[0].id, 1);
    assert_eq!(Decisions::recover(Mode::Off, &[], 0).0.propose(&proposal, 0), Err(Refusal::Off));
}

/// Goal: `propose` changes no setting, and neither does a proposal for a setting that changes at an open only. Method:
/// both; the row is the only action.
#[test]
fn proposals_are_only_journalled() {
    let live = (Mode::Propose, sound());
    let next_open = (Mode::Canary, Proposal { setting: Setting::RingSize, ..sound() });
    for (mode, proposal) in [live, next_open] {
        let mut decisions = Decisions::recover(mode, &[], 0).0;
        let actions = decisions.propose(&proposal, 5).unwrap();
        assert!(matches!(actions[..], [Action::Journal(row)] if row.verdict == Verdict::Proposed));
        assert_eq!(decisions.in_flight(), None);
        assert_eq!(decisions.propose(&proposal, 6), Err(Refusal::CoolDown));
    }
}

/// Goal: D1: a change ends though nothing is measured any more. Method: only time passes, in a trial and in a canary.
#[test]
fn a_change_past_its_deadline_is_rolled_back() {
    for is_canary in [false, true] {
        let mut decisions = canary();
        decisions.propose(&sound(), 1000).unwrap();
        if is_canary {
            pass_trial(&mut decisions, 1000);
        }
        assert_eq!(decisions.tick(1000 + DEADLINE_S - 1), []);
        let actions = decisions.tick(1000 + DEADLINE_S);
        let is_back = actions.contains(&Action::Set { setting: Setting::FlushDelay, value: 10.0 });
        assert_eq!(is_back, is_canary);
        assert_eq!(rows(&actions)[0].verdict, Verdict::Guarded(Guard::Blind));
    }
}

/// Goal: RT10 and D2 hold over restarts. Method: the process dies in three canaries, each time continuing from the
/// journal.
#[test]
fn a_crash_is_a_rollback_and_three_are_a_quarantine() {
    let (mut journal, mut now_s) = (Vec::new(), 10_000);
    for crash in 0..3 {
        let (mut decisions, actions) = Decisions::recover(Mode::Canary, &journal, now_s);
        journal.extend(rows(&actions));
        now_s += COOL_DOWN_S;
        journal.extend(rows(&decisions.propose(&sound(), now_s).unwrap()));
        journal.extend(rows(&pass_trial(&mut decisions, now_s)));
        assert_eq!(decisions.in_flight().map(|row| row.id), Some(crash));
    }
    let (mut decisions, actions) = Decisions::recover(Mode::Canary, &journal, now_s);
    assert!(matches!(actions[..], [Action::Journal(row)] if row.verdict == Verdict::Interrupted && row.id == 2));
    journal.extend(rows(&actions));
    assert_eq!(decisions.in_flight(), None, "the old value is in force");
    now_s += COOL_DOWN_S;
    assert_eq!(decisions.propose(&sound(), now_s), Err(Refusal::Quarantined));
    let other = Proposal { setting: Setting::FlushBytes, ..sound() };
    assert!(decisions.propose(&other, now_s).is_ok());
    let (mut later, _) = Decisions::recover(Mode::Canary, &journal, now_s);
    assert!(later.propose(&sound(), now_s + 86_400).is_ok());
}

/// Goal: a call that comes too late is ignored. Method: pairs, windows and guards with nothing in flight, and in the
/// wrong stage.
#[test]
fn stray_measurements_do_nothing() {
    let mut decisions = canary();
    let pair = Pair { old: 1.0, new: 2.0 };
    assert_eq!(decisions.trial_pair(pair, false, &baseline(), 1), []);
    assert_eq!(decisions.canary_window(BAD, 1), []);
    assert_eq!(decisions.guard(Guard::Disk, 1), []);
    decisions.propose(&sound(), 1000).unwrap();
    assert_eq!(decisions.canary_window(BAD, 1001), []);
    pass_trial(&mut decisions, 1040);
    assert_eq!(decisions.trial_pair(pair, false, &baseline(), 1041), []);
}

/// Goal: a change that is no longer watched ends with its old value at once, in its trial and in its canary, and counts
/// as a rollback only after the canary had begun. Method: an interrupt in each stage; three interrupted canaries within
/// a day.
#[test]
fn an_interrupted_change_ends_with_its_old_value() {
    let mut decisions = canary();
    let proposal = sound();
    let (setting, old) = (proposal.setting, proposal.old);
    assert_eq!(decisions.interrupt(1), []);
    decisions.propose(&proposal, 1000).unwrap();
    assert!(decisions.is_on_trial());
    let actions = decisions.interrupt(1001);
    assert_eq!((actions[0], rows(&actions)[0].verdict), (Action::EndTrial { setting, old }, Verdict::Interrupted));
    let mut now_s = 1001;
    for _ in 0..3 {
        now_s += COOL_DOWN_S;
        decisions.propose(&proposal, now_s).unwrap();
        pass_trial(&mut decisions, now_s);
        assert!(!decisions.is_on_trial());
        let actions = decisions.interrupt(now_s);
        assert_eq!(
            (actions[0], rows(&actions)[0].verdict),
            (Action::Set { setting, value: old }, Verdict::Interrupted)
        );
    }
    assert_eq!(decisions.propose(&proposal, now_s + COOL_DOWN_S), Err(Refusal::Quarantined));
    decisions.set_mode(Mode::Off);
    assert_eq!((decisions.mode(), decisions.propose(&proposal, now_s + 90_000)), (Mode::Off, Err(Refusal::Off)));
}

/// Goal: D3. Method: the clock goes a year back after a change has ended, also in a journal; it goes a year back and
/// forth during a canary.
#[test]
fn a_clock_that_jumps_makes_nothing_last_longer() {
    const YEAR_S: u64 = 31_536_000;
    let (mut decisions, proposal) = (canary(), sound());
    decisions.propose(&proposal, 2 * YEAR_S).unwrap();
    let end = rows(&decisions.guard(Guard::Memory, 2 * YEAR_S));
    for mut decisions in [decisions, Decisions::recover(Mode::Canary, &end, YEAR_S).0] {
        assert_eq!(decisions.propose(&proposal, YEAR_S), Err(Refusal::CoolDown));
        assert_eq!(decisions.propose(&proposal, YEAR_S + COOL_DOWN_S - 1), Err(Refusal::CoolDown));
        assert!(decisions.propose(&proposal, YEAR_S + COOL_DOWN_S).is_ok());
    }
    for (now_s, ends) in [(YEAR_S, false), (YEAR_S + DEADLINE_S, true), (3 * YEAR_S, true)] {
        let mut decisions = canary();
        decisions.propose(&proposal, 2 * YEAR_S).unwrap();
        pass_trial(&mut decisions, 2 * YEAR_S);
        assert_eq!(decisions.tick(YEAR_S).len() + decisions.tick(now_s).len(), if ends { 2 } else { 0 }, "{now_s}");
    }
}
