//! Roles: the owner of everything, and the connected user if that is a different role.
//!
//! Roles are not catalog objects: users differ by name only, and each may do everything.
//!
//! Checked by `system_tests`.

use super::SessionFacts;
use crate::catalog::relation::Oid;

/// OID of the role that owns everything, PostgreSQL's bootstrap superuser.
pub(super) const OWNER: Oid = 10;
/// Its name.
pub(super) const OWNER_NAME: &str = "collie";
/// OID of the connected user if that is not the owner.
const CONNECTED: Oid = 16_383;

/// Returns the OID and the name of every role, by OID.
pub(super) fn all(facts: &dyn SessionFacts) -> Vec<(Oid, String)> {
    let mut roles = vec![(OWNER, OWNER_NAME.to_owned())];
    if facts.user() != OWNER_NAME {
        roles.push((CONNECTED, facts.user().to_owned()));
    }
    roles
}

/// Returns a role's name.
pub(super) fn name(facts: &dyn SessionFacts, oid: Oid) -> Option<String> {
    all(facts).into_iter().find(|(role, _)| *role == oid).map(|(_, name)| name)
}

/// Returns the OID of a role.
pub(super) fn named(facts: &dyn SessionFacts, name: &str) -> Option<Oid> {
    all(facts).into_iter().find(|(_, role)| role == name).map(|(oid, _)| oid)
}
