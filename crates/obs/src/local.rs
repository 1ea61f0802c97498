//! The interface for call sites: the calling thread's part of the process's sampler.
//!
//! In a model nothing is sampled: a model explores orders of execution, and the sampler has models of its own.

#[cfg(not(any(loom, shuttle)))]
use std::cell::RefCell;

use crate::countdown::Countdown;
use crate::measured::{Started, Told};
#[cfg(not(any(loom, shuttle)))]
use crate::{beside, collector::PROCESS, recorder::Recorder};

std::thread_local! {
    static COUNTDOWN: Countdown = const { Countdown::new() };
}

#[cfg(not(any(loom, shuttle)))]
std::thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Calls `with` with the thread's countdown.
#[inline]
pub(crate) fn with_countdown<R>(with: impl FnOnce(&Countdown) -> R) -> R {
    COUNTDOWN.with(with)
}

/// Returns whether any call of `unit` is measured.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn is_on(unit: u8) -> bool {
    PROCESS.rates().base(unit) != 0
}

#[cfg(any(loom, shuttle))]
pub(crate) const fn is_on(_unit: u8) -> bool {
    false
}

/// Decides whether this call is measured.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn begin(unit: u8) -> Option<Started> {
    let base = PROCESS.rates().base(unit);
    if base == 0 {
        return None;
    }
    if COUNTDOWN.with(|countdown| countdown.passes(unit, base)) {
        return None;
    }
    decide(unit, base)
}

#[cfg(any(loom, shuttle))]
pub(crate) const fn begin(_unit: u8) -> Option<Started> {
    None
}

#[cfg(not(any(loom, shuttle)))]
#[cold]
#[inline(never)]
fn decide(unit: u8, base: u64) -> Option<Started> {
    // A thread that is being torn down, or is just recording, takes no sample.
    RECORDER
        .try_with(|recorder| {
            let mut recorder = recorder.try_borrow_mut().ok()?;
            if recorder.is_none() {
                *recorder = PROCESS.register();
            }
            match recorder.as_mut() {
                Some(recorder) => {
                    let started = COUNTDOWN.with(|countdown| PROCESS.begin(countdown, recorder, unit, base))?;
                    let Some(beside) = beside::get() else { return Some(started) };
                    (beside.begins)();
                    Some(Started { ticks: PROCESS.now(), ..started })
                }
                None => {
                    PROCESS.laneless.add(unit);
                    None
                }
            }
        })
        .ok()
        .flatten()
}

/// Returns the sampler's time.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn now() -> u64 {
    PROCESS.now()
}

#[cfg(any(loom, shuttle))]
pub(crate) const fn now() -> u64 {
    0
}

/// Returns the microseconds from one moment to a later one, rounded up; 0 before a drain has measured the length of
/// a tick.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn us_between(from: u64, to: u64) -> u32 {
    PROCESS.us_between(from, to)
}

#[cfg(any(loom, shuttle))]
pub(crate) const fn us_between(_from: u64, _to: u64) -> u32 {
    0
}

/// Records a call that has ended.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn record(started: Started, ended: u64, told: &Told<'_>) {
    let sample = PROCESS.sample(started, ended, told);
    if let Some(beside) = beside::get() {
        (beside.ends)();
    }
    // A thread that is being torn down loses the sample.
    let _recorded = RECORDER.try_with(|recorder| {
        let Ok(mut recorder) = recorder.try_borrow_mut() else { return };
        // A wait may end on a thread that has not measured anything yet.
        if recorder.is_none() {
            *recorder = PROCESS.register();
        }
        match recorder.as_mut() {
            Some(recorder) => recorder.record(sample),
            None => PROCESS.laneless.add(sample.ou),
        }
    });
}

/// Counts a sample of `unit` that was begun and is given up.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn drop_one(unit: u8) {
    PROCESS.laneless.add(unit);
}

#[cfg(any(loom, shuttle))]
pub(crate) const fn drop_one(_unit: u8) {}

#[cfg(any(loom, shuttle))]
pub(crate) const fn record(_: Started, _: u64, _: &Told<'_>) {}

/// Ignores the clock: a model has no time.
#[cfg(any(loom, shuttle))]
pub const fn offer_clock(_: fn() -> u64) {}
