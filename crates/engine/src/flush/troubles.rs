//! `FlushTroubles`: the flushes that fail, and why, until they succeed. They are the reason why writers wait when
//! the log is too long, and an operator is warned of them before that.

use std::collections::BTreeMap;

use collie_base::CfId;
use parking_lot::Mutex;

use crate::EngineError;

#[derive(Debug, Default)]
struct Inner {
    /// Families whose last flush failed.
    families: BTreeMap<CfId, String>,
    /// Why log that is no longer needed could not be released.
    cut: Option<String>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct FlushTroubles(Mutex<Inner>);

impl FlushTroubles {
    /// Notes the outcome of a flush of a family. Returns a line for the operator if it is news.
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

    /// Notes the outcome of a release of log. Returns a line for the operator if it is news.
    #[must_use]
    pub(crate) fn cut(&self, outcome: Result<(), &EngineError>) -> Option<String> {
        let mut inner = self.0.lock();
        let why = outcome.err().map(ToString::to_string);
        let line = why.as_ref().map(|why| format!("store: log that is no longer needed cannot be released: {why}"));
        let was_failing = std::mem::replace(&mut inner.cut, why).is_some();
        line.filter(|_| !was_failing)
    }

    /// Forgets a family that was dropped or flushed with another one.
    pub(crate) fn forget(&self, cf: CfId) {
        self.0.lock().families.remove(&cf);
    }

    /// Returns why flushes fail, if some do, for families that are still to be flushed; otherwise why log cannot
    /// be released.
    pub(crate) fn why(&self, is_due: impl Fn(CfId) -> bool) -> Option<String> {
        let mut inner = self.0.lock();
        inner.families.retain(|cf, _| is_due(*cf));
        let of_family = inner.families.first_key_value();
        let of_family = of_family.map(|(cf, why)| format!("flushes of column family {cf} fail: {why}"));
        of_family.or_else(|| inner.cut.as_ref().map(|why| format!("log cannot be given up: {why}")))
    }
}
