//! The data of views about training, and the changes by `CALL collie_set_option`.

use std::sync::Arc;

use collie_sql::catalog::system::{
    self, CandidateRow, DecisionRow, HardwareRow, ModelRow, PolicyChange, PolicyRow, PredictionRow, SampleFileRow,
    SwitchRow, UnitRow,
};
use tokio::task::block_in_place;

use super::state::Training;

/// [`Training`] for sessions.
struct Shown(Arc<Training>);

impl system::Training for Shown {
    fn policy(&self) -> PolicyRow {
        self.0.policy()
    }

    fn changes(&self) -> Vec<PolicyChange> {
        self.0.changes()
    }

    fn switches(&self) -> Vec<SwitchRow> {
        self.0.switches()
    }

    fn models(&self) -> Vec<ModelRow> {
        block_in_place(|| self.0.collection().model_rows())
    }

    fn units(&self) -> Vec<UnitRow> {
        self.0.collection().units()
    }

    fn sample_files(&self) -> Vec<SampleFileRow> {
        block_in_place(|| self.0.collection().files())
    }

    fn predictions(&self) -> Vec<PredictionRow> {
        self.0.collection().judge.newest()
    }

    fn hardware(&self) -> Option<HardwareRow> {
        self.0.collection().hardware()
    }

    fn decisions(&self) -> Vec<DecisionRow> {
        self.0.deciding().rows()
    }

    fn candidates(&self) -> Vec<CandidateRow> {
        self.0.deciding().candidates()
    }

    fn decided_settings(&self) -> Vec<(&'static str, u64)> {
        self.0.deciding().values()
    }

    fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        block_in_place(|| self.0.set_option(name, value))
    }

    fn set_by_hand(&self, name: &str, set: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        self.0.deciding().set_by_hand(name, set)
    }
}

/// Returns `training` for the sessions of a database.
pub(crate) fn shown(training: Arc<Training>) -> Box<dyn system::Training> {
    Box::new(Shown(training))
}
