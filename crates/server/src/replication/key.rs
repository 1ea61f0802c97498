//! The replication key of this node: its place, and which node creates it.
//!
//! | the node | has a key | has none |
//! |---|---|---|
//! | serves no replicas and has no peers or primary | it is not read | nothing |
//! | leads | it is used | it is made: this is the first node of its database |
//! | follows, or is to be filled | it is used | refused, with instructions what to copy |
//!
//! # Invariants
//! - Y1. A node that follows never makes a key: it would differ from its primary's.
//! - Y2. A key that cannot be used (other users can read it, or it is malformed) is never treated as missing.

use std::path::Path;

use collie_env::Env;
use collie_replica::key::{KEY_FILE, KeyError, KeyFile};

use crate::{ServeError, config::Config, log_lines};

/// Returns the key file of the node in the directory `data`.
pub(crate) fn key_of(config: &Config, data: &Path, env: &Env) -> KeyFile {
    let path = config.replication.key_file.clone().unwrap_or_else(|| data.join(KEY_FILE));
    KeyFile::new(env, path)
}

fn refused(error: &KeyError) -> ServeError {
    ServeError::Replication { message: error.to_string() }
}

/// Returns whether a node communicates with others.
fn is_needed(config: &Config) -> bool {
    let replication = &config.replication;
    replication.listen.is_some() || replication.primary.is_some() || !replication.voters().0.is_empty()
}

/// Checks, before any node is contacted, that an existing key can be used (Y2).
///
/// # Errors
/// It cannot be used.
pub(super) fn check(key: &KeyFile, config: &Config) -> Result<(), ServeError> {
    match key.read() {
        Err(error) if is_needed(config) && !matches!(error, KeyError::Missing { .. }) => Err(refused(&error)),
        _ => Ok(()),
    }
}

/// Checks that a node which follows has a key (Y1).
///
/// # Errors
/// It has none, or one that cannot be used; the message gives the file to copy.
pub(crate) fn demand(key: &KeyFile) -> Result<(), ServeError> {
    key.read().map(drop).map_err(|error| refused(&error))
}

/// Makes the key of a node that leads, if it needs one and has none; logs that.
///
/// # Durability
/// The key is on disk on return.
///
/// # Errors
/// Those of the disk; there is a key that cannot be used.
pub(crate) fn make(key: &KeyFile, config: &Config) -> Result<(), ServeError> {
    if !is_needed(config) || config.engine.read_only {
        return Ok(());
    }
    let (_keys, is_new) = key.read_or_make().map_err(|error| refused(&error))?;
    if is_new {
        log_lines::note(&format_args!(
            "made a replication key in {0}: copy it to each node that is to follow, with mode 0600",
            key.path().display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use collie_env::Access;

    use super::*;

    /// Goal: the table above. Method: each row, on a simulated disk.
    #[test]
    fn a_key_is_made_by_who_leads_alone() {
        let (env, _disk) = Env::simulated(1);
        let data = Path::new("/data");
        env.files.create_dir_all(data).unwrap();
        let mut config = Config::default();
        let key = key_of(&config, data, &env);
        make(&key, &config).unwrap();
        assert!(key.read().is_err(), "nobody needs it");
        config.replication.primary = Some("127.0.0.1:1".to_owned());
        check(&key, &config).unwrap();
        let refused = demand(&key).unwrap_err().to_string();
        assert!(refused.contains("copy the file replication.key of the primary's data directory there"), "{refused}");
        config.replication.listen = "127.0.0.1:0".parse().ok();
        make(&key, &config).unwrap();
        demand(&key).unwrap();
        let file = env.files.open(key.path(), Access::ReadWrite).unwrap();
        file.write_at(0, b"not a key").unwrap();
        for bad in [check(&key, &config), demand(&key), make(&key, &config)] {
            assert!(bad.unwrap_err().to_string().contains("holds no replication key"));
        }
        config.set("replication.key_file", "/elsewhere/key").unwrap();
        assert_eq!(key_of(&config, data, &env).path(), Path::new("/elsewhere/key"));
    }
}
