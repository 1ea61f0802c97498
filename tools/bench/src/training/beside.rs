//! The extra work of `collie-bench serve-with --six-calls` for each sample: that of a more expensive sampler. Only for
//! the question `overhead`.

use std::cell::RefCell;

use collie_obs::{Beside, call_beside_samples};

use super::six_calls::SixCalls;

std::thread_local! {
    static SIX: RefCell<Option<SixCalls>> = const { RefCell::new(None) };
}

/// Makes six system calls in addition to each sample of this process from now on. Returns a line that describes them.
///
/// # Errors
/// Samples of this process already have other extra work.
pub fn six_calls_with_samples() -> anyhow::Result<&'static str> {
    anyhow::ensure!(call_beside_samples(Beside { begins, ends }), "samples have other extra work");
    Ok(match SixCalls::new() {
        Some(_) => "beside each sample: six system calls: a counter of the thread, and its use of resources",
        None => "beside each sample: six system calls, all for the use of resources: the system has no counter",
    })
}

fn with_six(with: impl Fn(&mut SixCalls) -> std::io::Result<()>) {
    // A thread that is being torn down skips this. Errors of the kernel do not matter here.
    let _asked = SIX.try_with(|six| with(six.borrow_mut().get_or_insert_with(SixCalls::of_any_kind)));
}

fn begins() {
    with_six(SixCalls::begin);
}

fn ends() {
    with_six(SixCalls::end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the calls are made on the sampling thread, once for each sample, and only one such work is accepted.
    /// Method: both calls by hand, counted in what they store; a second request.
    #[test]
    fn they_are_made_once_for_each_sample() {
        assert!(six_calls_with_samples().unwrap().contains("six system calls"));
        begins();
        ends();
        assert_eq!(SIX.with(|six| six.borrow().as_ref().map(SixCalls::taken)), Some(1));
        assert!(six_calls_with_samples().is_err());
    }
}
