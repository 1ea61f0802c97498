//! Mistakes that tests make on purpose, to check that the crash lab notices them.
//!
//! A mistake is active for one thread, so that tests that run in parallel are not disturbed; it works in logs without
//! threads of their own. The module is compiled for the crate's tests only; elsewhere `mistake!` is `false`.

use std::cell::Cell;

std::thread_local! {
    static MADE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Returns whether this thread makes the mistake `name`.
pub(crate) fn is_made(name: &str) -> bool {
    MADE.get() == Some(name)
}

/// Runs `act` while this thread makes the mistake `name`.
pub(crate) fn with<R>(name: &'static str, act: impl FnOnce() -> R) -> R {
    struct Undo;
    impl Drop for Undo {
        fn drop(&mut self) {
            MADE.set(None);
        }
    }
    MADE.set(Some(name));
    let _undo = Undo;
    act()
}
