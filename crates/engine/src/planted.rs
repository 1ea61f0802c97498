//! Mistakes that a test can plant in order to see that it would be noticed. A product build never makes one.
//!
//! Unit tests plant them on one thread; `tests/planted.rs`, with the feature `planted-bugs`, plants them in a whole
//! process.

/// Returns whether this thread is to make `mistake`.
#[cfg(all(any(not(test), loom), not(feature = "planted-bugs")))]
pub(crate) const fn is_planted(_mistake: &str) -> bool {
    false
}

/// Returns whether this process is to make `mistake`.
#[cfg(all(any(not(test), loom), feature = "planted-bugs"))]
pub(crate) fn is_planted(mistake: &str) -> bool {
    collie_sync::is_mutant(mistake)
}

/// Reports that this thread is at `place`, where a test may run code of its own.
#[cfg(any(not(test), loom))]
pub(crate) const fn passes(_place: &str) {}

#[cfg(all(test, not(loom)))]
pub(crate) use in_tests::{is_planted, passes, with_planted, with_visit};

#[cfg(all(test, not(loom)))]
mod in_tests {
    use std::cell::{Cell, RefCell};

    /// The place, and the code that a test runs there.
    type Visit = (&'static str, Box<dyn FnOnce()>);

    std::thread_local! {
        static MISTAKE: Cell<Option<&'static str>> = const { Cell::new(None) };
        static VISIT: RefCell<Option<Visit>> = const { RefCell::new(None) };
    }

    pub(crate) fn is_planted(mistake: &str) -> bool {
        MISTAKE.get() == Some(mistake)
    }

    /// Runs `act` while this thread makes `mistake`.
    pub(crate) fn with_planted<R>(mistake: &'static str, act: impl FnOnce() -> R) -> R {
        MISTAKE.set(Some(mistake));
        let answer = act();
        MISTAKE.set(None);
        answer
    }

    pub(crate) fn passes(place: &str) {
        let visit = VISIT.with_borrow_mut(|visit| visit.take_if(|(at, _)| *at == place));
        if let Some((_, visit)) = visit {
            visit();
        }
    }

    /// Runs `act`; calls `visit` once, the first time that this thread passes `place` within it.
    pub(crate) fn with_visit<R>(place: &'static str, visit: impl FnOnce() + 'static, act: impl FnOnce() -> R) -> R {
        VISIT.set(Some((place, Box::new(visit))));
        let answer = act();
        assert!(VISIT.take().is_none(), "nobody came to {place}");
        answer
    }
}
