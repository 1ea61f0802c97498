//! [`Healing`]: whether a replica whose copy is damaged rebuilds its directory by itself.
//!
//! # Invariants
//! - D1. Nothing is skipped: a replica that cannot apply a record applies nothing after it. It is rebuilt, or it stays
//!   in that state.
//! - D2. Damage that recurs soon has a cause that a rebuild does not repair: then an operator has to investigate.

use std::{path::Path, time::Duration};

use collie_engine::{DirectoryIdentity, ErrorKind};
use collie_env::Env;
use collie_sql::session::OpenError;

use crate::{ServeError, config::Config, log_lines};

/// A second damage within this time is not healed (D2).
const AGAIN_WITHIN: Duration = Duration::from_secs(600);

/// The time of the last rebuild.
#[derive(Debug, Default)]
pub(crate) struct Healing {
    last_ns: Option<u64>,
}

impl Healing {
    /// Begins to heal; the caller then rebuilds the directory.
    ///
    /// # Errors
    /// Healing is not permitted: the reason, and what an operator can do.
    pub(crate) fn begin(&mut self, config: &Config, env: &Env) -> Result<(), String> {
        if !config.replication.auto_rebuild {
            return Err(
                "replication.auto_rebuild is off: set the directory aside and start with an empty one, or start with \
                        replication.auto_rebuild=true"
                    .to_owned(),
            );
        }
        let now_ns = env.clock.now_ns();
        let since = self.last_ns.map(|last_ns| Duration::from_nanos(now_ns.saturating_sub(last_ns)));
        if let Some(since) = since.filter(|since| *since < AGAIN_WITHIN) {
            return Err(format!(
                "it was rebuilt {} s ago, and another rebuild would not remove the cause of the damage: look at the memory and the disks of \
                 this machine and of its primary's, and start it again",
                since.as_secs()
            ));
        }
        self.last_ns = Some(now_ns);
        Ok(())
    }

    /// Begins to heal the directory `data`, whose open failed with `error`; returns the id of its node.
    ///
    /// # Errors
    /// `error`, if it is no damage, or if the directory does not follow: no other node has the log of a former primary.
    /// The reason why it is not healed.
    pub(crate) fn begin_at_open(
        &mut self,
        error: ServeError,
        data: &Path,
        config: &Config,
        env: &Env,
    ) -> Result<u64, ServeError> {
        let is_damage = |error: &ServeError| match error {
            ServeError::Open(OpenError::Engine(error)) => error.kind() == ErrorKind::Corruption,
            _ => false,
        };
        let Ok(Some(who)) = DirectoryIdentity::read(data, env) else { return Err(error) };
        if !is_damage(&error) || !who.follows {
            return Err(error);
        }
        match self.begin(config, env) {
            Ok(()) => {
                log_lines::warn(&format_args!("this directory does not open, and is rebuilt: {error}"));
                Ok(who.node_id)
            }
            Err(remedy) => Err(ServeError::Replication { message: format!("{error}: {remedy}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: D2, and nothing without permission. Method: a first and a second time, and one without permission.
    #[test]
    fn damage_is_healed_once() {
        let (env, _disk) = Env::simulated(1);
        let mut config = Config::default();
        let mut healing = Healing::default();
        assert_eq!(healing.begin(&config, &env), Ok(()));
        let refused = healing.begin(&config, &env).unwrap_err();
        assert!(refused.contains("look at the memory and the disks"), "{refused}");
        config.replication.auto_rebuild = false;
        let refused = Healing::default().begin(&config, &env).unwrap_err();
        assert!(refused.contains("replication.auto_rebuild=true"), "{refused}");
    }
}
