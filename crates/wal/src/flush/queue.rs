//! `Queue`: the in-flight flush, the waiters, and whether another flush may begin. All of it is read and written under
//! its mutex (W1, W2), and nothing here blocks or wakes.

use std::{collections::BTreeMap, task::Waker};

use collie_base::Lsn;

use crate::{Mark, append::State};

/// Futures that wait, by position and a unique number.
pub(super) type Wakers = BTreeMap<(Lsn, u64), Waker>;

/// Lanes to park in: one for the flush in flight, one for the next. The lane of a flush is its number modulo this.
pub(super) const LANES: usize = 2;

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
}

/// The flush that has begun and not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) number: u64,
    pub(super) purpose: Purpose,
    /// The position that it covers, on disk if it syncs.
    pub(super) target: Lsn,
    pub(super) began_ns: u64,
    /// Nanoseconds since the flush before it began.
    pub(super) since_last_ns: u64,
}

impl InFlight {
    fn covers(&self, mark: Mark, lsn: Lsn) -> bool {
        let reaches = if mark == Mark::Durable { self.purpose.syncs() } else { self.purpose.writes() };
        reaches && self.target >= lsn
    }
}

/// The state of the flusher that its mutex protects.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) in_flight: Option<InFlight>,
    /// Number of the flush that began last.
    pub(crate) flush: u64,
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
    pub(super) fn new() -> Self {
        Self {
            in_flight: None,
            flush: 0,
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

    /// Returns the number of the in-flight flush if it will bring `mark` to `lsn`.
    pub(super) fn covering(&self, mark: Mark, lsn: Lsn) -> Option<u64> {
        self.in_flight.filter(|flush| flush.covers(mark, lsn)).map(|flush| flush.number)
    }

    /// Returns whether a flush may begin (W1).
    pub(super) fn may_begin(&self) -> bool {
        self.in_flight.is_none() && self.state == State::Open
    }

    /// Returns the futures that wait for `mark`. It is not the boundary: futures for that wait in `append`.
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
pub(super) fn lane(flush: u64) -> usize {
    usize::try_from(flush % LANES as u64).expect("below the number of lanes")
}

/// Removes and returns the wakers whose position is reached.
fn take_reached(wakers: &mut Wakers, mark: Lsn) -> Wakers {
    let waiting = wakers.split_off(&(mark.plus(1), 0));
    std::mem::replace(wakers, waiting)
}
