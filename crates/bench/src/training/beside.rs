//! What `collie serve --beside-samples` has done beside each sample that is taken: what a dearer sampler does, or what more samples of the same
//! call would cost. For the questions of this folder alone.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use anyhow::Context;
use collie_obs::{Beside, call_beside_samples};
use collie_sync::ticks;

use super::six_calls::SixCalls;

/// Samples of a thread's ring, of as many words as one of Collie's has.
const RING_SAMPLES: usize = 4096;
type OwnSample = [u64; 12];

/// How often it is done for each sample: 0 for nothing.
static TIMES: AtomicU32 = AtomicU32::new(0);
/// Whether the kernel is asked, or else what Collie's sampler does is done again.
static ASKS_KERNEL: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    static SIX: RefCell<Option<SixCalls>> = const { RefCell::new(None) };
    static OWN: RefCell<(Vec<OwnSample>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Has `what` done beside each sample of this process from now on: `own:TIMES` for what Collie's sampler does (two readings of the processor's
/// counter, and a sample into a ring of the thread), `six-calls:TIMES` for six system calls. Returns what that is, in a line.
///
/// # Errors
/// It is neither; samples of this process have something else beside them.
pub fn beside_samples(what: &str) -> anyhow::Result<String> {
    static OURS: AtomicBool = AtomicBool::new(false);
    let (kind, times) = what.split_once(':').context("what is done beside samples is own:TIMES or six-calls:TIMES")?;
    let times: u32 = times.parse().with_context(|| format!("{times} is no number of times"))?;
    let asks_kernel = match kind {
        "own" => false,
        "six-calls" => true,
        other => anyhow::bail!("what is done beside samples is own:TIMES or six-calls:TIMES, not {other}"),
    };
    if !OURS.swap(true, Relaxed) {
        anyhow::ensure!(call_beside_samples(Beside { begins, ends }), "samples have something else beside them");
    }
    ASKS_KERNEL.store(asks_kernel, Relaxed);
    TIMES.store(times, Relaxed);
    let does = match asks_kernel {
        false => "what the sampler does itself",
        true if SixCalls::new().is_some() => "six system calls: a counter of the thread, and its use of resources",
        true => "six system calls, all for the use of resources: the system has no counter for this process",
    };
    Ok(format!("beside each sample, {times} times: {does}"))
}

fn with_six(with: impl Fn(&mut SixCalls) -> std::io::Result<()>) {
    // A thread that is being torn down does without. What the kernel says is of no interest here.
    let _asked = SIX.try_with(|six| {
        let mut six = six.borrow_mut();
        let six = six.get_or_insert_with(SixCalls::of_any_kind);
        (0..TIMES.load(Relaxed)).try_for_each(|_| with(six))
    });
}

fn begins() {
    if ASKS_KERNEL.load(Relaxed) {
        with_six(SixCalls::begin);
    }
}

fn ends() {
    if ASKS_KERNEL.load(Relaxed) {
        return with_six(SixCalls::end);
    }
    let _done = OWN.try_with(|own| {
        let (ring, taken) = &mut *own.borrow_mut();
        ring.resize(RING_SAMPLES, [0; 12]);
        for _ in 0..TIMES.load(Relaxed) {
            let begun = black_box(ticks());
            let elapsed = ticks().saturating_sub(begun);
            ring[*taken % RING_SAMPLES] = black_box([begun, elapsed, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            *taken = taken.wrapping_add(1);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: both kinds do as often as they were asked to, on the thread that samples, and 0 is nothing. Method: both calls by hand, counted
    /// in what they keep; words that say something else.
    #[test]
    fn it_is_done_so_often() {
        let taken = || OWN.with(|own| own.borrow().1);
        let said = beside_samples("own:3").unwrap();
        assert!(said.starts_with("beside each sample, 3 times: "), "{said}");
        begins();
        ends();
        assert_eq!(taken(), 3);
        assert!(beside_samples("six-calls:2").unwrap().contains("six system calls"));
        begins();
        ends();
        assert_eq!((taken(), SIX.with(|six| six.borrow().as_ref().map(SixCalls::taken))), (3, Some(2)));
        beside_samples("own:0").unwrap();
        begins();
        ends();
        assert_eq!(taken(), 3);
        for wrong in ["own", "own:x", "seven:1"] {
            assert!(beside_samples(wrong).is_err(), "{wrong}");
        }
    }
}
