//! [`fault_point!`](crate::fault_point): named places at which the fault laboratory may kill the process or delay
//! it.
//!
//! Expands to nothing in a product build. With the feature `planted-bugs` two environment variables name a place
//! each: `COLLIE_KILL_AT=NAME:N` ends the process when it reaches the place for the `N`th time, without a flush or
//! a destructor, as a kill does; `COLLIE_HOLD_AT=NAME:PATH` makes every thread that reaches the place wait while
//! the file PATH exists, as a slow disk would.

/// Names a place in the code for the fault laboratory: `fault_point!("wal.sync")`. Expands to nothing in a product
/// build.
#[cfg(not(feature = "planted-bugs"))]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {};
}

/// Names a place in the code for the fault laboratory: `fault_point!("wal.sync")`. Expands to nothing in a product
/// build.
#[cfg(feature = "planted-bugs")]
#[macro_export]
macro_rules! fault_point {
    ($name:literal) => {
        $crate::pass_fault_point($name)
    };
}

#[cfg(feature = "planted-bugs")]
mod in_a_lab {
    use std::{
        path::PathBuf,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    /// Interval at which a held thread checks whether the file still exists.
    const LOOK_EVERY: Duration = Duration::from_millis(1);

    struct Kill {
        name: String,
        /// Remaining passes, the last one included.
        left: AtomicU64,
    }

    struct Hold {
        name: String,
        path: PathBuf,
    }

    fn variable(name: &str) -> Option<(String, String)> {
        let value = std::env::var(name).ok()?;
        let (point, rest) = value.split_once(':').unwrap_or_else(|| panic!("{name}={value}: expected NAME:VALUE"));
        Some((point.to_owned(), rest.to_owned()))
    }

    static KILL: LazyLock<Option<Kill>> = LazyLock::new(|| {
        let (name, nth) = variable("COLLIE_KILL_AT")?;
        let nth = nth.parse().unwrap_or_else(|_| panic!("COLLIE_KILL_AT={name}:{nth}: expected a number"));
        Some(Kill { name, left: AtomicU64::new(nth) })
    });

    static HOLD: LazyLock<Option<Hold>> =
        LazyLock::new(|| variable("COLLIE_HOLD_AT").map(|(name, path)| Hold { name, path: path.into() }));

    /// Passes the place `name`: kills the process or waits, if a variable asks for it.
    ///
    /// # Panics
    /// When a variable does not have its form.
    pub fn pass_fault_point(name: &str) {
        if let Some(kill) = KILL.as_ref().filter(|kill| kill.name == name)
            && kill.left.fetch_sub(1, Ordering::Relaxed) == 1
        {
            std::process::abort();
        }
        if let Some(hold) = HOLD.as_ref().filter(|hold| hold.name == name) {
            while hold.path.exists() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

#[cfg(feature = "planted-bugs")]
#[doc(hidden)]
pub use in_a_lab::pass_fault_point;
