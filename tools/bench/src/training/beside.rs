//! The extra work of `collie-bench serve-with --beside-samples` for each sample: that of a more expensive sampler, or
//! that of more samples of the same call. Only for the questions of this folder.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use anyhow::Context;
use collie_obs::{Beside, call_beside_samples};
use collie_sync::ticks;

use super::six_calls::SixCalls;

/// Samples of a thread's ring; a sample has as many words as Collie's.
const RING_SAMPLES: usize = 4096;
type OwnSample = [u64; 12];

/// How often the work is repeated for each sample; 0 for never.
static TIMES: AtomicU32 = AtomicU32::new(0);
/// Whether the work is six system calls; otherwise it is that of Collie's sampler.
static ASKS_KERNEL: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    static SIX: RefCell<Option<SixCalls>> = const { RefCell::new(None) };
    static OWN: RefCell<(Vec<OwnSample>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Does `what` in addition to each sample of this process from now on: `own:TIMES` for the work of Collie's sampler
/// (two readings of the processor's counter, and a sample into a ring of the thread), `six-calls:TIMES` for six system
/// calls. Returns a line that describes it.
///
/// # Errors
/// `what` is neither, or samples of this process already have other extra work.
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
    // A thread that is being torn down skips this. Errors of the kernel do not matter here.
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

    /// Goal: both kinds run as often as requested, on the sampling thread, and 0 is never. Method: both calls by hand,
    /// counted in what they store; invalid arguments.
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
