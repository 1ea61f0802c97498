//! Databases of the engine behind the traits of `primary` and `standby`.

#[cfg(test)]
mod compare_tests;
mod hearing;
mod source;
mod standing;
mod target;
#[cfg(test)]
mod target_tests;

use collie_base::Lsn;
use collie_engine::{HeldState, HistoryStart};

pub use self::{
    hearing::DelaysHeard,
    source::{CONSUMER_PREFIX, EngineShipper, EngineSource, SlotOptions},
    standing::{following, leading},
    target::{EngineTarget, plant},
};
use crate::{compare::Held, packet::History};

impl Held for HeldState {
    fn at(&self) -> Lsn {
        Self::at(self)
    }

    fn sums(&self) -> Vec<(u32, u64)> {
        self.hashes().into_iter().map(|(cf, hash)| (cf.get(), hash)).collect()
    }
}

fn history_of(HistoryStart { term, history, start, prev_end }: HistoryStart) -> History {
    History { term, id: history, start, prev_end }
}
