//! Mistakes that a test may plant, to see that it would be noticed. In a product build none is ever made.

/// Returns whether `mistake` is to be made on this thread.
#[cfg(any(not(test), loom))]
pub(crate) const fn is_planted(_mistake: &str) -> bool {
    false
}

#[cfg(all(test, not(loom)))]
pub(crate) use in_tests::{is_planted, with_planted};

#[cfg(all(test, not(loom)))]
mod in_tests {
    use std::cell::Cell;

    std::thread_local! {
        static MISTAKE: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    pub(crate) fn is_planted(mistake: &str) -> bool {
        MISTAKE.get() == Some(mistake)
    }

    /// Runs `act` with `mistake` made on this thread.
    pub(crate) fn with_planted<R>(mistake: &'static str, act: impl FnOnce() -> R) -> R {
        MISTAKE.set(Some(mistake));
        let answer = act();
        MISTAKE.set(None);
        answer
    }
}
