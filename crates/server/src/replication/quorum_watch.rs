//! [`QuorumWatch`]: since when the quorum of a primary has stood as it does, looked at with each heartbeat.

use collie_replica::primary::{QuorumStat, SlotStat, SlotState};
use collie_sql::catalog::system::{QuorumRow, QuorumState};
use parking_lot::Mutex;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct QuorumWatch(Mutex<Option<(QuorumState, u64)>>);

impl QuorumWatch {
    /// Looks at a quorum and at the slots of its members, at `now_ns`.
    pub(super) fn look(&self, stat: &QuorumStat, slots: &[SlotStat], now_ns: u64) -> QuorumRow {
        let is_there = |name: &String| {
            let streams = |slot: &&SlotStat| matches!(slot.state, SlotState::Streaming | SlotState::CatchingUp);
            slots.iter().filter(streams).any(|slot| slot.name == *name)
        };
        let members = stat.list.members();
        let missing: Vec<String> = members.iter().filter(|name| !is_there(name)).cloned().collect();
        let (needed, connected) = (stat.list.needed(), members.len() - missing.len());
        let state = match stat.degraded {
            true => QuorumState::Degraded,
            false if connected < needed => QuorumState::Short,
            false => QuorumState::Whole,
        };
        let mut stood = self.0.lock();
        let since_ns = match *stood {
            Some((before, since_ns)) if before == state => since_ns,
            _ => stood.insert((state, now_ns)).1,
        };
        let state_ms = now_ns.saturating_sub(since_ns) / 1_000_000;
        QuorumRow { list: stat.list.to_string(), state, state_ms, needed, connected, missing }
    }
}

#[cfg(test)]
mod tests {
    use collie_base::Lsn;
    use collie_replica::primary::{QuorumList, Sent};

    use super::*;

    const MS: u64 = 1_000_000;

    fn slot(name: &str, state: SlotState) -> SlotStat {
        SlotStat { state, ..SlotStat::away(name.to_owned(), 0) }
    }

    /// Goal: a quorum is whole with as many as it needs, and its time begins anew with each change. Method: members come and go, by a
    /// clock of the test's own.
    #[test]
    fn quorum_is_watched() {
        let list = QuorumList::new(1, vec!["a".to_owned(), "b".to_owned()]).unwrap();
        let watch = QuorumWatch::default();
        let look = |degraded, slots: &[SlotStat], ms: u64| {
            let confirmed = Sent { durable: Lsn::ZERO, ..Sent::default() };
            let stat = QuorumStat { list: list.clone(), connected: 0, degraded, confirmed };
            let row = watch.look(&stat, slots, ms * MS);
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
}
