//! `Queue`: which flights are in the air, who waits beside them, and whether another may begin. Everything in it is read
//! and written under its mutex (W1, W2), and nothing here blocks or wakes.

use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use collie_base::Lsn;

use crate::{Mark, options::FLIGHTS_MAX, reserve::State};

/// Futures that wait, by position and a number of their own.
pub(super) type Wakers = BTreeMap<(Lsn, u64), Waker>;

/// Lanes to park in: one for each flight that is in the air or next. Numbers of flights are taken modulo this.
pub(super) const LANES: usize = 16;
const _: () =
    assert!(LANES as u64 > 2 * FLIGHTS_MAX - 1, "landed flights wait for those before them: at most twice as many");

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Write, no sync.
    Write,
    /// Write and sync.
    Sync,
    /// Sync what is written, write nothing.
    SyncOnly,
    /// Write an empty frame that names what is durable, no sync.
    Heartbeat,
    /// Write and sync the closing frame; everything is durable, nothing is appended any more.
    Close,
}

impl Purpose {
    /// Returns whether a flight of this kind makes durable what was written.
    pub(super) fn syncs(self) -> bool {
        matches!(self, Self::Sync | Self::SyncOnly)
    }

    /// Returns whether a flight of this kind writes what was appended.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Sync)
    }

    /// Returns whether nothing may fly beside it (W1).
    fn is_alone(self) -> bool {
        matches!(self, Self::Close | Self::Heartbeat)
    }
}

/// A flight that has begun and is not done with.
#[derive(Clone, Copy, Debug)]
pub(super) struct InAir {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    /// What it covers, down to the disk if it syncs.
    pub(super) target: Lsn,
    /// Whether it has landed, and only waits for those before it.
    pub(super) landed: bool,
    pub(super) began_ns: u64,
    /// Since the flight before it began.
    pub(super) since_last_ns: u64,
}

impl InAir {
    fn covers(&self, mark: Mark, lsn: Lsn) -> bool {
        let reaches = if mark == Mark::Durable { self.purpose.syncs() } else { self.purpose.writes() };
        reaches && self.target >= lsn
    }
}

/// The state of the flusher that is under its mutex.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Oldest first, numbered without a gap.
    pub(super) air: VecDeque<InAir>,
    /// File descriptions that no flight uses.
    pub(super) free: Vec<usize>,
    /// Number of the flight that began last.
    pub(crate) flight: u64,
    /// When it began; 0 for none.
    pub(super) last_began_ns: u64,
    pub(super) parked: [usize; LANES],
    pub(super) parked_written: usize,
    pub(super) durable_wakers: Wakers,
    pub(super) written_wakers: Wakers,
    pub(super) next_waker: u64,
    pub(crate) state: State,
    pub(crate) stop: bool,
}

impl Queue {
    pub(super) fn new(flights: usize) -> Self {
        Self {
            air: VecDeque::new(),
            free: (0..flights).rev().collect(),
            flight: 0,
            last_began_ns: 0,
            parked: [0; LANES],
            parked_written: 0,
            durable_wakers: Wakers::new(),
            written_wakers: Wakers::new(),
            next_waker: 0,
            state: State::Open,
            stop: false,
        }
    }

    /// Returns the flight in the air that will bring `mark` to `lsn`.
    pub(super) fn ride(&self, mark: Mark, lsn: Lsn) -> Option<u64> {
        self.air.iter().find(|flight| flight.covers(mark, lsn)).map(|flight| flight.number)
    }

    /// Returns whether a flight with `purpose` may begin (W1).
    pub(super) fn may_begin(&self, purpose: Purpose) -> bool {
        let mut flying = self.air.iter().filter(|flight| !flight.landed);
        let blocked =
            if purpose.is_alone() { flying.next().is_some() } else { flying.any(|flight| flight.purpose.is_alone()) };
        !blocked && !self.free.is_empty() && self.state == State::Open
    }

    /// Returns the flight `number`, which has not landed.
    pub(super) fn flying(&mut self, number: u64) -> &mut InAir {
        let flight = self.air.iter_mut().find(|flight| flight.number == number && !flight.landed);
        flight.expect("a flight lands once")
    }

    /// Returns the futures that wait for `mark`, which is not the boundary: those wait with `reserve`.
    pub(super) fn wakers(&mut self, mark: Mark) -> &mut Wakers {
        if mark == Mark::Durable { &mut self.durable_wakers } else { &mut self.written_wakers }
    }

    /// Takes out the futures whose position is reached.
    pub(super) fn take_reached(&mut self, durable: Lsn, written: Lsn) -> impl Iterator<Item = Waker> + use<> {
        let durable = take_reached(&mut self.durable_wakers, durable);
        durable.into_values().chain(take_reached(&mut self.written_wakers, written).into_values())
    }

    /// Takes out the futures that wait for the kernel only and whose position is reached.
    pub(super) fn take_written(&mut self, written: Lsn) -> impl Iterator<Item = Waker> + use<> {
        take_reached(&mut self.written_wakers, written).into_values()
    }

    /// Takes out all futures.
    pub(super) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let durable = std::mem::take(&mut self.durable_wakers);
        durable.into_values().chain(std::mem::take(&mut self.written_wakers).into_values())
    }

    /// Returns how many threads wait for a flight to end.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.parked.iter().sum::<usize>() + self.parked_written
    }
}

/// Returns the lane in which the followers of a flight park.
pub(super) fn lane(flight: u64) -> usize {
    usize::try_from(flight % LANES as u64).expect("below the number of lanes")
}

/// Takes out the wakers whose position is reached.
fn take_reached(wakers: &mut Wakers, mark: Lsn) -> Wakers {
    let waiting = wakers.split_off(&(mark.plus(1), 0));
    std::mem::replace(wakers, waiting)
}
