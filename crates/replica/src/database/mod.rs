//! Databases of the engine behind the traits of `primary` and `standby`.

mod source;
mod target;

use collie_engine::HistoryStart;

pub use self::{
    source::{CONSUMER_PREFIX, EngineShipper, EngineSource, SlotOptions},
    target::{EngineTarget, plant},
};
use crate::packet::History;

fn history_of(HistoryStart { term, history, start, prev_end }: HistoryStart) -> History {
    History { term, id: history, start, prev_end }
}
