//! `ord!` and `mutant!`: the places that a model can weaken, one at a time, to prove that it would notice.
//!
//! In a product build both macros are constants. Under loom and shuttle they ask which site the running model weakens.
//! That is a thread-local, since both run all threads of a model on one thread of the system, and test threads must not
//! disturb each other. Shuttle is sequentially consistent: it detects mistakes, but no weakened ordering.
//!
//! The feature `planted-bugs` makes the mistakes, not the weakened orderings, possible in a real process, where all
//! threads make one of them: for checkers of whole runs, which must notice it. No crate enables the feature by itself.

/// Names the ordering of one atomic access: `ord!("SITE", Release)`.
///
/// The given ordering in a product build; `Relaxed` in a model that weakens `SITE`.
#[cfg(not(any(loom, shuttle)))]
#[macro_export]
macro_rules! ord {
    ($site:literal, $ordering:ident) => {
        $crate::atomic::Ordering::$ordering
    };
}

/// Names the ordering of one atomic access: `ord!("SITE", Release)`.
///
/// The given ordering in a product build; `Relaxed` in a model that weakens `SITE`.
#[cfg(any(loom, shuttle))]
#[macro_export]
macro_rules! ord {
    ($site:literal, $ordering:ident) => {
        $crate::ordering_at($site, $crate::atomic::Ordering::$ordering)
    };
}

/// Returns whether a model makes the mistake `NAME`: always `false` in a product build.
#[cfg(not(any(loom, shuttle, feature = "planted-bugs")))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}

/// Returns whether a model makes the mistake `NAME`: always `false` in a product build.
#[cfg(any(loom, shuttle, feature = "planted-bugs"))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::is_mutant($name)
    };
}

#[cfg(any(loom, shuttle))]
mod under_models {
    use std::{cell::Cell, sync::atomic::Ordering};

    std::thread_local! {
        static SITE: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Sets the site that the models of this system thread weaken from now on.
    pub(crate) fn set(site: Option<&'static str>) {
        SITE.set(site);
    }

    /// Returns `ordering`, or `Relaxed` if `site` is the one being weakened.
    #[must_use]
    pub fn ordering_at(site: &str, ordering: Ordering) -> Ordering {
        if is_mutant(site) { Ordering::Relaxed } else { ordering }
    }

    /// Returns whether `name` is the mistake being made.
    #[must_use]
    pub fn is_mutant(name: &str) -> bool {
        SITE.get() == Some(name)
    }
}

#[cfg(any(loom, shuttle))]
pub(crate) use under_models::set;
#[cfg(any(loom, shuttle))]
pub use under_models::{is_mutant, ordering_at};

#[cfg(all(feature = "planted-bugs", not(any(loom, shuttle))))]
mod planted {
    use std::sync::OnceLock;

    static PLANTED: OnceLock<String> = OnceLock::new();

    /// Makes every thread of this process make the mistake `name` from now on, until the process ends.
    ///
    /// # Panics
    /// If another mistake was planted before.
    pub fn plant(name: &str) {
        assert_eq!(PLANTED.get_or_init(|| name.to_owned()), name, "one mistake at a time");
    }

    /// Returns whether `name` is the mistake being made.
    #[must_use]
    pub fn is_mutant(name: &str) -> bool {
        PLANTED.get().is_some_and(|planted| planted == name)
    }
}

#[cfg(all(feature = "planted-bugs", not(any(loom, shuttle))))]
pub use planted::{is_mutant, plant};
