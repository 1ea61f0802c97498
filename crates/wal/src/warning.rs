//! `Warnings`: where the log says what an operator should read while it runs: spares run out, a device stalls, a file
//! failed.
//!
//! One line per event, without a time stamp and without a line end. Never on the path of a commit that goes well.

use std::{fmt, sync::Arc};

/// Takes the warnings of a log. By default they go nowhere; [`Stat`](crate::Stat) shows what is wrong now.
///
/// The function is called by whichever thread noticed, perhaps in the midst of a flush that others wait for: it must not
/// call the log, and should not block.
#[derive(Clone, Default)]
pub struct Warnings(Option<Arc<Take>>);

type Take = dyn Fn(&str) + Send + Sync;

impl Warnings {
    /// Sends each line to `take`.
    pub fn to(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(take)))
    }

    pub(crate) fn say(&self, line: &str) {
        if let Some(take) = &self.0 {
            take(line);
        }
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Warnings(taken)" } else { "Warnings(none)" })
    }
}
