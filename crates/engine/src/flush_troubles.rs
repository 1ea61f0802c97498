//! `FlushTroubles`: flushes that fail, and why, until they succeed: what writers wait for when the log is too long, and what an operator is
//! told before that.

use std::collections::BTreeMap;

use collie_base::CfId;
use parking_lot::Mutex;

use crate::EngineError;

#[derive(Debug, Default)]
struct Inner {
    /// Families whose last flush failed.
    families: BTreeMap<CfId, String>,
    /// Why log that nobody needs was not given up.
    cut: Option<String>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct FlushTroubles(Mutex<Inner>);

impl FlushTroubles {
    /// Notes what came of a flush of a family. Returns a line to tell, if that is news.
    #[must_use]
    pub(crate) fn flushed(&self, cf: CfId, outcome: Result<(), &EngineError>) -> Option<String> {
        let mut inner = self.0.lock();
        match outcome {
            Ok(()) => {
                let was_failing = inner.families.remove(&cf).is_some();
                was_failing.then(|| format!("store: column family {cf} is flushed again"))
            }
            Err(error) => {
                let why = error.to_string();
                let line = format!("store: a flush of column family {cf} failed and will be tried again: {why}");
                inner.families.insert(cf, why).is_none().then_some(line)
            }
        }
    }

    /// Notes what came of giving up log. Returns a line to tell, if that is news.
    #[must_use]
    pub(crate) fn cut(&self, outcome: Result<(), &EngineError>) -> Option<String> {
        let mut inner = self.0.lock();
        let why = outcome.err().map(ToString::to_string);
        let line = why.as_ref().map(|why| format!("store: log that nobody needs cannot be given up: {why}"));
        let was_failing = std::mem::replace(&mut inner.cut, why).is_some();
        line.filter(|_| !was_failing)
    }

    /// Forgets a family that is gone.
    pub(crate) fn forget(&self, cf: CfId) {
        self.0.lock().families.remove(&cf);
    }

    /// Returns why flushes fail, if some do, of families that are still to be flushed.
    pub(crate) fn why(&self, is_due: impl Fn(CfId) -> bool) -> Option<String> {
        let mut inner = self.0.lock();
        inner.families.retain(|cf, _| is_due(*cf));
        let of_family = inner.families.first_key_value();
        let of_family = of_family.map(|(cf, why)| format!("flushes of column family {cf} fail: {why}"));
        of_family.or_else(|| inner.cut.as_ref().map(|why| format!("log cannot be given up: {why}")))
    }
}
