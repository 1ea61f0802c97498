//! `Hardware`: the machine on which samples were taken.

mod constants;
mod facts;

use std::path::Path;

use collie_env::Env;

pub use constants::Constants;
pub use facts::Facts;

/// The facts of a machine and the speed of its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hardware {
    /// The facts that the kernel reports.
    pub facts: Facts,
    /// The measured constants.
    pub constants: Constants,
}

impl Hardware {
    /// Reads the machine's facts and measures its constants for at most about 200 ms. A file in `data` is written,
    /// synced and removed. A server calls this when it starts and once a day.
    pub fn measure(env: &Env, data: &Path) -> Self {
        Self { facts: Facts::of_machine(&*env.files, data), constants: Constants::measure(env, data) }
    }

    /// Returns the tag that packages and files carry: the same for machines with the same facts, whatever was measured;
    /// 0 if nothing is known.
    pub fn tag(&self) -> u64 {
        self.facts.tag()
    }
}
