//! [`QuorumWatch`]: since when the quorum of a primary has been in its state, updated with each heartbeat.

use std::collections::BTreeSet;

use collie_base::Lsn;
use collie_replica::primary::{QuorumList, QuorumStat, SlotStat, SlotState, list_text};
use collie_sql::catalog::system::{QuorumRow, QuorumState, WitnessState};
use parking_lot::Mutex;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct QuorumWatch(Mutex<Option<(QuorumState, u64)>>);

impl QuorumWatch {
    /// Looks at a quorum and at the slots of its members, at `now_ns`; returns `None` if no list is in force.
    pub(super) fn look(
        &self,
        stat: &QuorumStat,
        slots: &[SlotStat],
        witness: Option<WitnessState>,
        now_ns: u64,
    ) -> Option<QuorumRow> {
        let asked = &stat.asked;
        let mut stood = self.0.lock();
        if !asked.asks() {
            *stood = None;
            return None;
        }
        let is_there = |name: &String| {
            let streams = |slot: &&SlotStat| matches!(slot.state, SlotState::Streaming | SlotState::CatchingUp);
            slots.iter().filter(streams).any(|slot| slot.name == *name) || stat.counts_itself.as_ref() == Some(name)
        };
        // Of both lists while one replaces the other: commits wait for both.
        let (mut members, mut missing) = (BTreeSet::<&String>::new(), BTreeSet::<String>::new());
        for list in asked.lists() {
            members.extend(list.members());
            missing.extend(list.members().iter().filter(|name| !is_there(name)).cloned());
        }
        let is_short = |list: &QuorumList| list.members().iter().filter(|name| is_there(name)).count() < list.needed();
        let state = match stat.degraded {
            true => QuorumState::Degraded,
            false if asked.lists().any(is_short) => QuorumState::Short,
            false => QuorumState::Whole,
        };
        let since_ns = match *stood {
            Some((before, since_ns)) if before == state => since_ns,
            _ => stood.insert((state, now_ns)).1,
        };
        Some(QuorumRow {
            list: list_text(asked.list()),
            before: asked.before().map(list_text),
            until: Some(stat.until).filter(|until| asked.is_changing() && *until < Lsn::MAX),
            state,
            state_ms: now_ns.saturating_sub(since_ns) / 1_000_000,
            needed: asked.lists().map(QuorumList::needed).max().unwrap_or(0),
            connected: members.len() - missing.len(),
            missing: missing.into_iter().collect(),
            witness,
        })
    }
}

#[cfg(test)]
mod tests {
    use collie_replica::primary::{QuorumConfig, Sent};

    use super::*;

    const MS: u64 = 1_000_000;

    fn slot(name: &str, state: SlotState) -> SlotStat {
        SlotStat { state, ..SlotStat::away(name.to_owned(), 0) }
    }

    fn stat(asked: &QuorumConfig, degraded: bool) -> QuorumStat {
        let (confirmed, until) = (Sent::default(), Lsn::new(0x30));
        QuorumStat { asked: asked.clone(), connected: 0, degraded, confirmed, until, counts_itself: None }
    }

    /// Goal: a quorum is whole with as many members as it needs, and its time restarts with each change. Method:
    /// members come and go, by a clock of the test.
    #[test]
    fn quorum_is_watched() {
        let asked = QuorumConfig::parse("ANY 1 (a, b)", None).unwrap();
        let watch = QuorumWatch::default();
        let look = |degraded, slots: &[SlotStat], ms: u64| {
            let row = watch.look(&stat(&asked, degraded), slots, None, ms * MS).unwrap();
            assert_eq!((&*row.list, row.before, row.until, row.needed), ("ANY 1 (a, b)", None, None, 1));
            (row.state, row.state_ms, row.connected, row.missing.join(" "))
        };
        let (a, b) = (slot("a", SlotState::Streaming), slot("b", SlotState::CatchingUp));
        let text = str::to_owned;
        assert_eq!(look(false, &[slot("a", SlotState::Backup)], 10), (QuorumState::Short, 0, 0, text("a b")));
        assert_eq!(look(false, &[], 15), (QuorumState::Short, 5, 0, text("a b")));
        assert_eq!(look(false, std::slice::from_ref(&a), 20), (QuorumState::Whole, 0, 1, text("b")));
        assert_eq!(look(false, &[a.clone(), b], 22), (QuorumState::Whole, 2, 2, text("")));
        assert_eq!(look(true, &[a], 30), (QuorumState::Degraded, 0, 1, text("b")));
    }

    /// Goal: during a change both lists must be met, even if one is empty; with no list there is nothing to show, and
    /// after that the time restarts. Method: members of the one, of the other and of both; off and on.
    #[test]
    fn both_lists_of_a_change_are_watched() {
        let parsed = |list, before| QuorumConfig::parse(list, before).unwrap();
        let both = parsed("ANY 2 (b, c)", Some("ANY 1 (a, b)"));
        let watch = QuorumWatch::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| slot(name, SlotState::Streaming));
        let look =
            |asked: &QuorumConfig, slots: &[SlotStat], ms: u64| watch.look(&stat(asked, false), slots, None, ms * MS);
        let row = look(&both, &[a.clone(), c.clone()], 5).unwrap();
        assert_eq!((row.state, row.needed, row.connected, &*row.missing.join(" ")), (QuorumState::Short, 2, 2, "b"));
        assert_eq!((row.before.as_deref(), row.until), (Some("ANY 1 (a, b)"), Some(Lsn::new(0x30))));
        assert_eq!(row.asked(), "ANY 2 (b, c), and ANY 1 (a, b) until both have 0/30");
        assert_eq!(look(&both, &[b, c], 6).unwrap().state, QuorumState::Whole, "one is enough for the old list");
        let off = parsed("", Some("ANY 1 (a)"));
        let row = look(&off, &[], 7).unwrap();
        assert_eq!(
            (row.state, row.asked()),
            (QuorumState::Short, "nobody, and ANY 1 (a) until both have 0/30".to_owned())
        );
        let itself = QuorumStat { counts_itself: Some("a".to_owned()), ..stat(&off, false) };
        let row = watch.look(&itself, &[], None, 7 * MS).unwrap();
        assert_eq!((row.state, row.missing.len()), (QuorumState::Whole, 0), "who leads is there");
        assert_eq!(look(&parsed("", None), &[], 8), None);
        assert_eq!(look(&off, &[a], 9).unwrap().state_ms, 0);
    }
}
