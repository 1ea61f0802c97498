//! `Drive`: a disk with a volatile cache and a power switch.
//!
//! # Invariants
//! - V1. Everything that was written before a flush began is on the platter when the flush is answered.
//! - V2. From the moment of a cut on nothing reaches the platter, and no write or flush is answered until all processes
//!   that would act on the answer are dead (`cut` kills them).
//! - V3. After a cut the disk is the platter with some of the writes that no flush covered, which may be torn between
//!   sectors.
//! - V4. An armed drive holds all calls from its moment on, like a drive that stalls, until the cut comes.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::image::Image;
use crate::random::Random;

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// A write that no flush has covered yet.
#[derive(Debug)]
struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

/// Which writes of the cache survive a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Everything,
    /// Each with probability 1/2.
    Half,
    /// The oldest ones.
    Prefix,
    /// Each sector with probability 1/2.
    Torn,
    /// The oldest ones, and some sectors of the next one.
    TornPrefix,
}

impl Left {
    const ALL: [Self; 6] = [Self::Nothing, Self::Everything, Self::Half, Self::Prefix, Self::Torn, Self::TornPrefix];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// The power was cut or the drive stalls; callers wait for an answer.
    Held,
    /// Writes have no lasting effect.
    Off,
}

/// A moment between the calls to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A flush was requested, and has not begun.
    BeforeFlush,
    /// A flush is done, and is answered.
    AfterFlush,
    /// A write is in the cache, and is answered.
    AfterWrite,
}

impl Moment {
    pub(super) const ALL: [Self; 3] = [Self::BeforeFlush, Self::AfterFlush, Self::AfterWrite];
}

#[derive(Debug)]
struct State {
    power: Power,
    /// The moment at which the drive holds (V4), and how many such moments pass before.
    armed: Option<(Moment, u64)>,
    /// The content that surely survives a cut.
    platter: Image,
    /// The content that reads return.
    shown: Image,
    cache: Vec<Write>,
    flushes: u64,
}

impl State {
    fn new(image: Image) -> Self {
        let (power, armed, platter) = (Power::On, None, image.clone());
        Self { power, armed, platter, shown: image, cache: Vec::new(), flushes: 0 }
    }

    /// Counts a moment, and holds the drive at the one that it was armed for (V4).
    fn pass(&mut self, moment: Moment) {
        let Some((of, left)) = &mut self.armed else { return };
        match left.checked_sub(1) {
            _ if *of != moment || self.power != Power::On => {}
            Some(less) => *left = less,
            None => (self.power, self.armed) = (Power::Held, None),
        }
    }
}

/// The state of the drive at a cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) cached_writes: usize,
    pub(super) flushes: u64,
}

/// A drive. See the module's documentation.
#[derive(Debug)]
pub(super) struct Drive {
    state: Mutex<State>,
    switched: Condvar,
}

impl Drive {
    pub(super) fn new(image: Image) -> Self {
        Self { state: Mutex::new(State::new(image)), switched: Condvar::new() }
    }

    pub(super) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        self.state.lock().shown.read(offset, bytes)
    }

    /// Returns the content that reads return.
    pub(super) fn shown(&self) -> Image {
        self.state.lock().shown.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.state.lock().shown.len()
    }

    /// Waits until the power is on or off (V2).
    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        self.switched.wait_while(state, |state| state.power == Power::Held);
    }

    /// Counts a moment, and wakes the waiters if the drive now holds.
    fn pass(&self, state: &mut MutexGuard<'_, State>, moment: Moment) {
        state.pass(moment);
        if state.power == Power::Held {
            self.switched.notify_all();
        }
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        let mut state = self.state.lock();
        self.wait(&mut state);
        state.shown.write(offset, bytes);
        if state.power == Power::On {
            state.cache.push(Write { offset, bytes: bytes.to_vec() });
            self.pass(&mut state, Moment::AfterWrite);
        }
    }

    pub(super) fn flush(&self) {
        let mut state = self.state.lock();
        self.wait(&mut state);
        self.pass(&mut state, Moment::BeforeFlush);
        self.wait(&mut state);
        if state.power == Power::On {
            state.flushes += 1;
            for write in std::mem::take(&mut state.cache) {
                state.platter.write(write.offset, &write.bytes); // V1
            }
            self.pass(&mut state, Moment::AfterFlush);
        }
    }

    /// Arms the drive to hold at a moment, after `after` moments of this kind (V4).
    pub(super) fn arm(&self, moment: Moment, after: u64) {
        self.state.lock().armed = Some((moment, after));
    }

    /// Waits until the drive holds at its moment, at most for `time`.
    pub(super) fn wait_until_held(&self, time: Duration) {
        let mut state = self.state.lock();
        self.switched.wait_while_for(&mut state, |state| state.power == Power::On, time);
    }

    /// Lets the drive go on, and disarms it.
    pub(super) fn release(&self) {
        let mut state = self.state.lock();
        state.armed = None;
        if state.power == Power::Held {
            state.power = Power::On;
            self.switched.notify_all();
        }
    }

    /// Cuts the power. `kill` ends all processes that act on answers; calls that wait are answered once it has
    /// returned.
    ///
    /// # Errors
    /// Those of `kill`; the power is off all the same.
    pub(super) fn cut(&self, kill: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Cut> {
        let cut = {
            let mut state = self.state.lock();
            (state.power, state.armed) = (Power::Held, None);
            Cut { cached_writes: state.cache.len(), flushes: std::mem::take(&mut state.flushes) }
        };
        let killed = kill();
        self.state.lock().power = Power::Off;
        self.switched.notify_all();
        killed.map(|()| cut)
    }

    /// Turns the power on again, with some of the writes in the cache. Returns the disk's content.
    pub(super) fn power_on(&self, random: &mut Random) -> Image {
        let mut state = self.state.lock();
        let left = Left::ALL[usize::try_from(random.below(Left::ALL.len() as u64)).unwrap_or(0)];
        let mut image = state.platter.clone();
        let end = random.below(state.cache.len() as u64 + 1);
        for (write, number) in state.cache.iter().zip(0_u64..) {
            let whole = match left {
                Left::Nothing | Left::Torn => false,
                Left::Everything => true,
                Left::Half => random.below(2) == 0,
                Left::Prefix | Left::TornPrefix => number < end,
            };
            let torn = left == Left::Torn || left == Left::TornPrefix && number == end;
            if whole {
                image.write(write.offset, &write.bytes);
            } else if torn {
                for (sector, at) in write.bytes.chunks(SECTOR_BYTES).zip((write.offset..).step_by(SECTOR_BYTES)) {
                    if random.below(2) == 0 {
                        image.write(at, sector);
                    }
                }
            }
        }
        *state = State::new(image.clone());
        image
    }

    /// Replaces the disk by another one.
    pub(super) fn replace(&self, image: Image) {
        *self.state.lock() = State::new(image);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Goal: after a cut everything that was flushed is there, nothing that was written after the cut, and every state
    /// of the rest occurs. Method: one flushed write, two that were not, one after the cut, many seeds.
    #[test]
    fn cut_keeps_what_was_flushed_and_any_part_of_the_rest() {
        let mut met = std::collections::BTreeSet::new();
        for seed in 0..400 {
            let drive = Drive::new(Image::new(1 << 14));
            drive.write(0, &[1; 1024]);
            drive.flush();
            drive.write(1024, &[2; 1024]);
            drive.write(4096, &[3; 512]);
            let cut = drive.cut(|| Ok(())).unwrap();
            assert_eq!((cut.cached_writes, cut.flushes), (2, 1));
            drive.write(0, &[4; 512]);
            drive.flush();
            assert_eq!(drive.read(0, 1), [4], "what is written later is read until the machine is down");
            let image = drive.power_on(&mut Random::new(seed));
            assert_eq!(image.read(0, 1024), [1; 1024]);
            let rest = [image.read(1024, 512), image.read(1536, 512), image.read(4096, 512)];
            met.insert(rest.map(|sector| sector[0] != 0));
            assert_eq!(drive.read(0, 8192), image.read(0, 8192));
        }
        assert_eq!(met.len(), 8, "{met:?}");
    }

    /// Goal: V4. Method: arm a drive for each kind of moment, after one other; check what is on the platter when it
    /// holds, and that nothing is answered before the cut.
    #[test]
    fn armed_drive_holds_at_its_moment() {
        for (moment, kept) in [(Moment::BeforeFlush, 1), (Moment::AfterFlush, 2), (Moment::AfterWrite, 1)] {
            let drive = Drive::new(Image::new(1 << 14));
            drive.arm(moment, 1);
            let steps = std::sync::atomic::AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for step in 1..=2 {
                        drive.write(step << 12, &[1; 512]);
                        steps.fetch_add(1, Ordering::SeqCst);
                        drive.flush();
                        steps.fetch_add(1, Ordering::SeqCst);
                    }
                    drive.write(3 << 12, &[1; 512]);
                    steps.fetch_add(1, Ordering::SeqCst);
                });
                drive.wait_until_held(Duration::from_secs(60));
                let cut = drive.cut(|| {
                    let answered = steps.load(Ordering::SeqCst);
                    anyhow::ensure!(answered < 5, "{answered} steps were answered");
                    Ok(())
                });
                assert_eq!(cut.unwrap().flushes, kept, "{moment:?}");
            });
            let platter = drive.power_on(&mut Random::new(1));
            assert_eq!(platter.read(1 << 12, 1), [1]);
        }
    }

    /// Goal: no call is answered between a cut and the death of its caller. Method: a flush that begins during the kill
    /// has not been answered when the kill is over, and is answered afterwards.
    #[test]
    fn nothing_is_answered_while_the_power_goes() {
        let drive = Drive::new(Image::new(1 << 14));
        let [asked, answered] = [const { AtomicBool::new(false) }; 2];
        std::thread::scope(|scope| {
            let cut = drive.cut(|| {
                scope.spawn(|| {
                    asked.store(true, Ordering::SeqCst);
                    drive.flush();
                    answered.store(true, Ordering::SeqCst);
                });
                while !asked.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                (0..1000).for_each(|_| std::thread::yield_now());
                anyhow::ensure!(!answered.load(Ordering::SeqCst), "answered too early");
                Ok(())
            });
            cut.unwrap();
        });
        assert!(answered.load(Ordering::SeqCst));
    }
}
