//! The functions of advisory locks, by their source (`pg_proc.prosrc`).
//!
//! The source names everything: `pg_[try_]advisory_[xact_]lock[_shared]_int8|_int4`, and
//! `pg_advisory_unlock[_shared]_int8|_int4`. A wait for a lock blocks the thread that evaluates the call, as `pg_sleep`
//! does; `lock_timeout`, a cancel and the deadlock detector end it like any other wait.
//!
//! Checked by `system_tests`, and by the clients' tests of advisory locks (`tests/clients/tests/advisory_locks.rs`).

use collie_engine::{AdvisoryScope, LockTarget, TableLockMode};

use super::SessionFacts;
use crate::{
    error::{Result, SqlError, SqlState},
    types::Value,
};

/// The operation that a source names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Lock { tries: bool, scope: AdvisoryScope },
    Unlock,
}

/// Computes the function with this source, if it is an advisory lock function.
///
/// # Errors
/// 40P01, 55P03, 57014 if the wait ends without the lock; 53200 if the session holds as many locks as it may.
pub(super) fn call(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Option<Value>> {
    if source == "pg_advisory_unlock_all" {
        facts.give_all_advisory_back();
        return Ok(Some(Value::text("")));
    }
    let Some((asked, mode)) = parse(source) else { return Ok(None) };
    let Some(target) = target(args) else { return Ok(Some(Value::Null)) };
    Ok(Some(match asked {
        Asked::Lock { tries: true, scope } => Value::Bool(facts.try_advisory(target, mode, scope)?),
        Asked::Lock { tries: false, scope } => {
            facts.lock_advisory(target, mode, scope)?;
            Value::text("")
        }
        Asked::Unlock => {
            let held = facts.give_advisory_back(target, mode);
            if !held {
                let mode = if mode == TableLockMode::Share { "ShareLock" } else { "ExclusiveLock" };
                facts.warn(SqlError::new(SqlState::WARNING, format!("you don't own a lock of type {mode}")));
            }
            Value::Bool(held)
        }
    }))
}

fn parse(source: &str) -> Option<(Asked, TableLockMode)> {
    let name = source.strip_suffix("_int8").or_else(|| source.strip_suffix("_int4"))?;
    let (name, mode) = match name.strip_suffix("_shared") {
        Some(name) => (name, TableLockMode::Share),
        None => (name, TableLockMode::Exclusive),
    };
    let asked = match name {
        "pg_advisory_lock" => Asked::Lock { tries: false, scope: AdvisoryScope::Session },
        "pg_advisory_xact_lock" => Asked::Lock { tries: false, scope: AdvisoryScope::Transaction },
        "pg_try_advisory_lock" => Asked::Lock { tries: true, scope: AdvisoryScope::Session },
        "pg_try_advisory_xact_lock" => Asked::Lock { tries: true, scope: AdvisoryScope::Transaction },
        "pg_advisory_unlock" => Asked::Unlock,
        _ => return None,
    };
    Some((asked, mode))
}

/// Returns the lock that the arguments name: one `bigint`, or two `integer`s, which are a separate key space.
fn target(args: &[Value]) -> Option<LockTarget> {
    let half = |value: &Value| value.as_i32().map(i32::cast_unsigned);
    match args {
        [number] => number.as_i64().map(|number| LockTarget::Advisory(number.cast_unsigned())),
        [high, low] => Some(LockTarget::AdvisoryPair(half(high)?, half(low)?)),
        _ => None,
    }
}
