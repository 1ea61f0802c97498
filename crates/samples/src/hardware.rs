//! `Hardware`: on what machine samples were taken.

mod constants;
mod facts;

use std::path::Path;

use collie_env::Env;

pub use constants::Constants;
pub use facts::Facts;

/// What a machine is and how fast its parts are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hardware {
    /// What it says of itself.
    pub facts: Facts,
    /// What was measured.
    pub constants: Constants,
}

impl Hardware {
    /// Looks at the machine, and measures it for at most about 200 ms: files are written and synced in `data`, and removed.
    /// At start and once a day.
    pub fn measure(env: &Env, data: &Path) -> Self {
        Self { facts: Facts::of_machine(&*env.files, data), constants: Constants::measure(env, data) }
    }

    /// Returns the tag that packages and files name: the same for machines that say the same of themselves, whatever was measured;
    /// 0 where nothing is known.
    pub fn tag(&self) -> u64 {
        self.facts.tag()
    }
}
