//! `Queue`: the in-flight flushes, the waiters, and whether another flush may begin. All of it is read and written
//! under its mutex (W1, W2), and nothing here blocks or wakes.

use std::{
    collections::{BTreeMap, VecDeque},
    task::Waker,
};

use collie_base::Lsn;

use crate::{Mark, options::FLIGHTS_MAX, reserve::State};

/// Futures that wait, by position and a unique number.
pub(super) type Wakers = BTreeMap<(Lsn, u64), Waker>;

/// Lanes to park in: one for each flush that is in flight or next. The lane of a flush is its number modulo this.
pub(super) const LANES: usize = 16;
const _: () =
    assert!(LANES as u64 > 2 * FLIGHTS_MAX - 1, "landed flights wait for those before them: at most twice as many");

/// The purpose of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Write, no sync.
    Write,
    /// Write and sync.
    Sync,
    /// Sync the written bytes, write nothing.
    SyncOnly,
    /// Write an empty frame that names the durable position, no sync.
    Heartbeat,
    /// Write and sync the closing frame; everything is durable, nothing is appended any more.
    Close,
}

impl Purpose {
    /// Returns whether a flush of this kind makes written records durable.
    pub(super) fn syncs(self) -> bool {
        matches!(self, Self::Sync | Self::SyncOnly)
    }

    /// Returns whether a flush of this kind writes appended records.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Sync)
    }

    /// Returns whether no other flush may be in flight with it (W1).
    fn is_alone(self) -> bool {
        matches!(self, Self::Close | Self::Heartbeat)
    }
}

/// A flush that has begun and is still in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct InAir {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    /// The position that it covers, on disk if it syncs.
    pub(super) target: Lsn,
    /// Whether it has ended, and only waits for those before it.
    pub(super) landed: bool,
    pub(super) began_ns: u64,
    /// Nanoseconds since the flush before it began.
    pub(super) since_last_ns: u64,
}

impl InAir {
    fn covers(&self, mark: Mark, lsn: Lsn) -> bool {
        let reaches = if mark == Mark::Durable { self.purpose.syncs() } else { self.purpose.writes() };
        reaches && self.target >= lsn
    }
}

/// The state of the flusher that its mutex protects.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Oldest first, numbered without a gap.
    pub(super) air: VecDeque<InAir>,
    /// File descriptions that no flush uses.
    pub(super) free: Vec<usize>,
    /// Number of the flush that began last.
    pub(crate) flight: u64,
    /// The time at which it began; 0 if none has.
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

    /// Returns the in-flight flush that will bring `mark` to `lsn`.
    pub(super) fn ride(&self, mark: Mark, lsn: Lsn) -> Option<u64> {
        self.air.iter().find(|flight| flight.covers(mark, lsn)).map(|flight| flight.number)
    }

    /// Returns whether a flush with `purpose` may begin (W1).
    pub(super) fn may_begin(&self, purpose: Purpose) -> bool {
        let mut flying = self.air.iter().filter(|flight| !flight.landed);
        let blocked =
            if purpose.is_alone() { flying.next().is_some() } else { flying.any(|flight| flight.purpose.is_alone()) };
        !blocked && !self.free.is_empty() && self.state == State::Open
    }

    /// Returns the flush `number`, which has not ended.
    pub(super) fn flying(&mut self, number: u64) -> &mut InAir {
        let flight = self.air.iter_mut().find(|flight| flight.number == number && !flight.landed);
        flight.expect("a flight lands once")
    }

    /// Returns the futures that wait for `mark`. It is not the boundary: futures for that wait in `reserve`.
    pub(super) fn wakers(&mut self, mark: Mark) -> &mut Wakers {
        if mark == Mark::Durable { &mut self.durable_wakers } else { &mut self.written_wakers }
    }

    /// Removes and returns the wakers of futures whose position is reached.
    pub(super) fn take_reached(&mut self, durable: Lsn, written: Lsn) -> impl Iterator<Item = Waker> + use<> {
        let durable = take_reached(&mut self.durable_wakers, durable);
        durable.into_values().chain(take_reached(&mut self.written_wakers, written).into_values())
    }

    /// Removes and returns the wakers of futures that wait only for the kernel and whose position is reached.
    pub(super) fn take_written(&mut self, written: Lsn) -> impl Iterator<Item = Waker> + use<> {
        take_reached(&mut self.written_wakers, written).into_values()
    }

    /// Removes and returns all wakers.
    pub(super) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let durable = std::mem::take(&mut self.durable_wakers);
        durable.into_values().chain(std::mem::take(&mut self.written_wakers).into_values())
    }

    /// Returns the number of threads that wait for a flush to end.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.parked.iter().sum::<usize>() + self.parked_written
    }
}

/// Returns the lane in which the waiters of a flush park.
pub(super) fn lane(flight: u64) -> usize {
    usize::try_from(flight % LANES as u64).expect("below the number of lanes")
}

/// Removes and returns the wakers whose position is reached.
fn take_reached(wakers: &mut Wakers, mark: Lsn) -> Wakers {
    let waiting = wakers.split_off(&(mark.plus(1), 0));
    std::mem::replace(wakers, waiting)
}
