//! `Recorder`: a thread's own part of the sampler behind its countdown: its draws, and the writer's end of its
//! lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_sync::LaneWriter;

use crate::countdown::{Countdown, PLACES};
use crate::draws::Draws;
use crate::rates::Rates;
use crate::sample::{FLAG_AFTER_DROPS, Sample};
use crate::schema::UNIT_SLOTS;
use crate::source::Source;

/// Samples that a lane holds: 96 bytes each.
pub(crate) const LANE_SAMPLES: usize = 4096;

/// Lost samples by unit: any number of threads add, and the drain takes.
#[derive(Debug)]
pub(crate) struct Dropped([AtomicU64; UNIT_SLOTS]);

impl Dropped {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; UNIT_SLOTS])
    }

    pub(crate) fn add(&self, unit: u8) {
        self.0[usize::from(unit)].fetch_add(1, Relaxed);
    }

    /// Resets the counts and adds them to `into`. Returns their sum.
    pub(crate) fn take(&self, into: &mut [u64; UNIT_SLOTS]) -> u64 {
        let mut all = 0;
        for (count, into) in self.0.iter().zip(into) {
            if count.load(Relaxed) > 0 {
                let taken = count.swap(0, Relaxed);
                *into += taken;
                all += taken;
            }
        }
        all
    }
}

/// The values with which the next sample of a unit will be taken.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    p: f32,
    then_due: bool,
    source: Source,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    writer: LaneWriter<Sample>,
    dropped: Arc<Dropped>,
    thread: u16,
    draws: Draws,
    drawn: [[Drawn; UNIT_SLOTS]; PLACES],
    /// Whether the last sample did not fit.
    after_drops: bool,
}

impl Recorder {
    pub(crate) fn new(writer: LaneWriter<Sample>, dropped: Arc<Dropped>, thread: u16, seed: u64) -> Self {
        let nothing = Drawn { p: 0.0, then_due: false, source: Source::Local };
        Self {
            writer,
            dropped,
            thread,
            draws: Draws::new(seed),
            drawn: [[nothing; UNIT_SLOTS]; PLACES],
            after_drops: false,
        }
    }

    /// Decides about a call that the countdown did not pass over, and draws the next skip. Returns `None` if the
    /// call is not taken.
    pub(crate) fn decide(
        &mut self,
        rates: &Rates,
        default_source: Source,
        countdown: &Countdown,
        unit: u8,
        base: u64,
    ) -> Option<(f32, Source)> {
        let place = countdown.place();
        let drawn = &mut self.drawn[place][usize::from(unit)];
        if !countdown.is_of(unit, base) || !drawn.then_due {
            let source = match place.checked_sub(1) {
                Some(number) => Source::ALL[number],
                None => default_source,
            };
            // The probability changed, or nothing was drawn yet: this call is the first of a new draw.
            let p = rates.p(unit, source);
            let skip = self.draws.skip(p);
            *drawn = Drawn { p, then_due: skip.then_due, source };
            if let Some(left) = skip.calls.checked_sub(1) {
                countdown.set(unit, base, left);
                return None;
            }
        }
        let Drawn { p, source, .. } = *drawn;
        let next = self.draws.skip(p);
        drawn.then_due = next.then_due;
        countdown.set(unit, base, next.calls);
        Some((p, source))
    }

    /// Puts `sample` into the lane, or counts it as dropped.
    pub(crate) fn record(&mut self, mut sample: Sample) {
        sample.thread = self.thread;
        if self.after_drops {
            sample.flags |= FLAG_AFTER_DROPS;
        }
        self.after_drops = self.writer.push(sample).is_err();
        if self.after_drops {
            self.dropped.add(sample.ou);
        }
    }
}
