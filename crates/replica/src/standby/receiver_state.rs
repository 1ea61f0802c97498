//! `ReceiverState`: the receiver state of one connection, and the acks to send. A state machine without I/O.
//!
//! # Invariants
//! - E1. Records are accepted only in the term of the connection and at the end of those before.
//! - E2. The position that readers may see never falls on one connection, and never passes the primary's durable
//!   position.
//! - E3. An ack never reports less than the one before, and echoes the newest clock that arrived.
//! - E4. A mark is never earlier than the time at which its position became visible: if there are more than fit,
//!   intermediate ones are left out, and the next kept ones represent them.
//!
//! Checked by the tests here.

use collie_base::{Lsn, Term};

use super::Positions;
use crate::{
    LinkError,
    packet::{Ack, Data, ErrorCode, Heartbeat, MARKS_MAX, Mark},
};

/// The receiver state of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverState {
    term: Term,
    expected: Lsn,
    durable: Lsn,
    show: Lsn,
    echo_mono_ns: u64,
    echoed_at_ns: u64,
    /// Whether an ack is wanted even if nothing moved.
    asked: bool,
    /// Whether commits wait for this replica's acks.
    waited_for: bool,
    told: Positions,
}

impl ReceiverState {
    /// Creates the state of a connection in `term` that continues at `expected`.
    pub fn new(term: Term, expected: Lsn) -> Self {
        Self {
            term,
            expected,
            durable: Lsn::ZERO,
            show: Lsn::ZERO,
            echo_mono_ns: 0,
            echoed_at_ns: 0,
            asked: true,
            waited_for: false,
            told: Positions::default(),
        }
    }

    fn note(&mut self, term: Term, (durable, show): (Lsn, Lsn), mono_ns: u64, now_ns: u64) -> Result<(), LinkError> {
        if term != self.term {
            let text = format!("a packet of term {term} on a connection of term {}", self.term);
            return Err(LinkError::refused(ErrorCode::Term, self.expected, text));
        }
        self.durable = self.durable.max(durable);
        self.show = self.show.max(show).min(self.durable); // E2
        (self.echo_mono_ns, self.echoed_at_ns) = (mono_ns, now_ns);
        Ok(())
    }

    /// Records the arrival of records, which are accepted if this is `Ok` (E1).
    ///
    /// # Errors
    /// They are of another term, or do not continue the ones before.
    pub fn on_data(&mut self, data: &Data<'_>, now_ns: u64) -> Result<(), LinkError> {
        self.note(data.term, (data.durable, data.show), data.mono_ns, now_ns)?;
        if data.prev_end != self.expected {
            let text = format!("records that continue {}, where {} was expected", data.prev_end, self.expected);
            return Err(LinkError::refused(ErrorCode::Gap, self.expected, text));
        }
        self.expected = data.start.plus(u64::try_from(data.records.len()).unwrap_or(u64::MAX));
        self.waited_for = data.flags.want_flush || data.flags.want_apply;
        self.asked |= self.waited_for;
        Ok(())
    }

    /// Records a heartbeat, which is always answered.
    ///
    /// # Errors
    /// It is of another term.
    pub fn on_heartbeat(&mut self, heartbeat: &Heartbeat, now_ns: u64) -> Result<(), LinkError> {
        self.asked = true;
        self.note(heartbeat.term, (heartbeat.durable, heartbeat.show), heartbeat.mono_ns, now_ns)
    }

    /// Requests an ack even if nothing moves, as a sign to the primary that the replica is alive.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Returns the term of the connection.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Returns the position below which readers may see applied records.
    pub fn show(&self) -> Lsn {
        self.show
    }

    /// Returns the position that the next records must continue.
    pub fn expected(&self) -> Lsn {
        self.expected
    }

    /// Returns whether readers see everything that is durable on the primary, as far as this node knows.
    pub fn is_synced(&self, positions: Positions) -> bool {
        self.durable > Lsn::ZERO && positions.applied >= self.durable
    }

    /// Returns whether news may be reported a little later, together with further news: no commit waits for them,
    /// no ack was requested, and readers do not see everything received.
    pub fn may_hold_back(&self, positions: Positions) -> bool {
        !self.waited_for && !self.asked && positions.applied < self.expected
    }

    /// Returns the positions whose growth is to be reported at once: any growth where commits wait for it,
    /// otherwise only that readers see everything received, whatever is on disk. `None` if nothing can grow.
    pub fn awaited(&self, positions: Positions) -> Option<Positions> {
        if self.waited_for {
            return self.is_behind(positions).then_some(positions);
        }
        let last = Lsn::new(self.expected.get().saturating_sub(1));
        (positions.applied < self.expected).then_some(Positions { durable: self.expected, applied: last, ..positions })
    }

    /// Returns whether something received is still to be acknowledged at some level.
    pub fn is_behind(&self, positions: Positions) -> bool {
        positions.received.min(positions.durable).min(positions.applied) < self.expected
    }

    /// Returns the ack to send now, if there is something to report; `times` are the positions since the last ack,
    /// oldest first, with the times at which they became visible; it is emptied if `applied` has grown.
    pub fn ack(
        &mut self,
        positions: Positions,
        times: &mut Vec<(Lsn, u64)>,
        queue_bytes: u64,
        now_ns: u64,
    ) -> Option<Ack> {
        let told = self.told;
        // E3. Readers may see records a moment before files have them, so `applied` is limited to `received`.
        let received = positions.received.max(told.received);
        let now = Positions {
            received,
            durable: positions.durable.min(received).max(told.durable),
            applied: positions.applied.min(received).max(told.applied),
        };
        if now == told && !self.asked {
            return None;
        }
        let marks = marks(times, (told.applied, now.applied), now_ns);
        (self.told, self.asked) = (now, false);
        Some(Ack {
            term: self.term,
            received: now.received,
            durable: now.durable,
            applied: now.applied,
            echo_mono_ns: self.echo_mono_ns,
            hold_ns: if self.echo_mono_ns == 0 { 0 } else { now_ns.saturating_sub(self.echoed_at_ns) },
            replica_mono_ns: now_ns,
            queue_bytes: u32::try_from(queue_bytes).unwrap_or(u32::MAX),
            marks,
        })
    }
}

/// Returns marks of when the positions between the two became visible, and then empties `times`; none if there are
/// no such positions (E4).
fn marks(times: &mut Vec<(Lsn, u64)>, (told, applied): (Lsn, Lsn), now_ns: u64) -> Vec<Mark> {
    if applied <= told {
        return Vec::new();
    }
    times.retain(|(lsn, _)| *lsn > told && *lsn <= applied);
    // Positions above the last of them become visible now.
    if times.last().is_none_or(|(lsn, _)| *lsn < applied) {
        times.push((applied, now_ns));
    }
    let mark = |(lsn, at_ns): (Lsn, u64)| Mark {
        lsn,
        age_us: u32::try_from(now_ns.saturating_sub(at_ns) / 1000).unwrap_or(u32::MAX),
    };
    let (count, kept) = (times.len(), times.len().min(MARKS_MAX));
    let chosen = (1..=kept).filter_map(|place| times.get(place * count / kept - 1));
    let marks = chosen.map(|time| mark(*time)).collect();
    times.clear();
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::DataFlags;

    fn data(term: u64, prev_end: u64, start: u64, records: &[u8]) -> Data<'_> {
        Data {
            term: Term::new(term),
            start: Lsn::new(start),
            prev_end: Lsn::new(prev_end),
            durable: Lsn::new(5000),
            show: Lsn::new(6000),
            mono_ns: 70,
            flags: DataFlags::default(),
            records,
        }
    }

    fn at(received: u64, durable: u64, applied: u64) -> Positions {
        let [received, durable, applied] = [received, durable, applied].map(Lsn::new);
        Positions { received, durable, applied }
    }

    /// Goal: E1 and E2. Method: records in order, over a jump, out of order and of another term.
    #[test]
    fn records_are_taken_in_order_and_in_their_term() {
        let mut heard = ReceiverState::new(Term::new(1), Lsn::new(4096));
        heard.on_data(&data(1, 4096, 4096, b"four"), 1).unwrap();
        assert_eq!((heard.expected(), heard.show()), (Lsn::new(4100), Lsn::new(5000)));
        heard.on_data(&data(1, 4100, 4200, b"1"), 1).unwrap();
        for wrong in [data(1, 4200, 4200, b"1"), data(1, 4202, 4202, b"1"), data(2, 4201, 4201, b"1")] {
            assert!(heard.on_data(&wrong, 1).is_err(), "{wrong:?}");
        }
        assert_eq!(heard.expected(), Lsn::new(4201));
        assert!(heard.is_behind(at(4201, 4200, 4201)) && !heard.is_behind(at(4201, 4201, 4201)));
        assert!(!heard.is_synced(at(4201, 4201, 4201)) && heard.is_synced(at(5000, 4201, 5000)));
    }

    /// Goal: where no commit waits, an ack may be held back until everything received is visible, and waits for no
    /// disk; where one waits, each step is reported. Method: a packet of each kind, before and after it is
    /// applied; a heartbeat.
    #[test]
    fn what_nobody_waits_for_is_told_when_all_of_it_is_seen() {
        let mut heard = ReceiverState::new(Term::new(1), Lsn::new(4096));
        heard.ack(at(4096, 4096, 4096), &mut Vec::new(), 0, 1).expect("the first says where it stands");
        assert_eq!(heard.awaited(at(4096, 4096, 4096)), None);
        heard.on_data(&data(1, 4096, 4096, b"four"), 2).unwrap();
        let [came, seen, synced] = [at(4100, 4096, 4096), at(4100, 4096, 4100), at(4100, 4100, 4100)];
        assert!(heard.may_hold_back(came) && !heard.may_hold_back(seen));
        assert_eq!(heard.awaited(came), Some(at(4100, 4100, 4099)), "woken once 4100 is seen, by no flush");
        assert_eq!(heard.awaited(seen), None);
        let asked = Data {
            flags: DataFlags { want_flush: true, want_apply: true, ..DataFlags::default() },
            ..data(1, 4100, 4100, b"1")
        };
        heard.on_data(&asked, 3).unwrap();
        let came = at(4101, 4100, 4100);
        assert!(!heard.may_hold_back(came), "a commit waits");
        assert_eq!(heard.awaited(came), Some(came));
        assert_eq!((heard.awaited(at(4101, 4101, 4101)), heard.awaited(synced)), (None, Some(synced)));
        let mut idle = ReceiverState::new(Term::new(1), Lsn::new(4096));
        idle.ack(at(4096, 4096, 4000), &mut Vec::new(), 0, 1).expect("the first says where it stands");
        assert!(idle.may_hold_back(at(4096, 4096, 4000)));
        idle.ask();
        assert!(!idle.may_hold_back(at(4096, 4096, 4000)), "a primary that asks is answered");
    }

    /// Goal: E3, and no ack without news. Method: positions that stay, move, and fall; a heartbeat in between.
    #[test]
    fn acks_follow_progress_and_heartbeats() {
        let mut heard = ReceiverState::new(Term::new(1), Lsn::new(4096));
        assert!(heard.ack(at(4096, 4096, 4000), &mut Vec::new(), 0, 1).is_some(), "the first says where it stands");
        assert_eq!(heard.ack(at(4096, 4096, 4000), &mut Vec::new(), 0, 2), None);
        heard.on_data(&data(1, 4096, 4096, b"four"), 10).unwrap();
        let ack = heard.ack(at(4100, 4096, 4101), &mut Vec::new(), 1 << 40, 15).unwrap();
        assert_eq!((ack.echo_mono_ns, ack.hold_ns, ack.queue_bytes), (70, 5, u32::MAX));
        assert_eq!((ack.received, ack.durable, ack.applied), (Lsn::new(4100), Lsn::new(4096), Lsn::new(4100)));
        assert_eq!(ack.marks, [Mark { lsn: Lsn::new(4100), age_us: 0 }]);
        assert_eq!(heard.ack(at(4090, 4090, 4090), &mut Vec::new(), 0, 16), None, "nothing is taken back");
        let heartbeat = Heartbeat {
            term: Term::new(1),
            durable: Lsn::new(4100),
            show: Lsn::new(4100),
            mono_ns: 80,
            delay: None,
            owed_ns: 0,
            rtt_min_ns: 0,
            commits: 0,
        };
        heard.on_heartbeat(&heartbeat, 20).unwrap();
        let ack = heard.ack(at(4100, 4096, 4100), &mut Vec::new(), 0, 21).unwrap();
        assert_eq!((ack.echo_mono_ns, ack.hold_ns, ack.marks.len()), (80, 1, 0));
    }

    /// Goal: E4: an ack reports since when each position has been visible, however long it was held back, with no
    /// more marks than fit, and never too early. Method: two positions; one that became visible without a note of
    /// it; far more than fit.
    #[test]
    fn acks_say_since_when_positions_are_seen() {
        let mut heard = ReceiverState::new(Term::new(1), Lsn::new(4096));
        let mut times = vec![(Lsn::new(4000), 1_000_000), (Lsn::new(4050), 3_500_000), (Lsn::new(4096), 5_000_000)];
        let ack = heard.ack(at(4096, 4096, 4096), &mut times, 0, 6_000_000).unwrap();
        let told: Vec<(u64, u32)> = ack.marks.iter().map(|mark| (mark.lsn.get(), mark.age_us)).collect();
        assert_eq!((told, times.len()), (vec![(4000, 5000), (4050, 2500), (4096, 1000)], 0));
        heard.on_data(&data(1, 4096, 4096, b"four"), 7_000_000).unwrap();
        let mut times = vec![(Lsn::new(4098), 8_000_000)];
        let ack = heard.ack(at(4100, 4096, 4100), &mut times, 0, 9_000_000).unwrap();
        assert_eq!(ack.marks, [Mark { lsn: Lsn::new(4098), age_us: 1000 }, Mark { lsn: Lsn::new(4100), age_us: 0 }]);
        heard.on_data(&data(1, 4100, 4100, &[0; 500]), 10_000_000).unwrap();
        let mut times: Vec<(Lsn, u64)> = (1..=500).map(|n| (Lsn::new(4100 + n), 10_000_000 + n * 1000)).collect();
        let marks = heard.ack(at(4600, 4100, 4600), &mut times, 0, 11_000_000).unwrap().marks;
        assert_eq!((marks.len(), marks.last()), (MARKS_MAX, Some(&Mark { lsn: Lsn::new(4600), age_us: 500 })));
        assert!(marks.iter().all(|mark| u64::from(mark.age_us) == 1000 - (mark.lsn.get() - 4100)), "{marks:?}");
    }
}
