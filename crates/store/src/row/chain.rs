//! Walking a row's chain, its top as a writer finds it, and retiring versions that were taken out of it.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use collie_base::{CfId, LockStrength, Lsn};
use collie_sync::mutant;

use super::head::version_of;
use super::version::{Content, Version};
use crate::epoch::Pin;
use crate::stamp::atomic::Ordering::{Acquire, Relaxed};
use crate::stamp::{Resolve, TxnStatus};
use crate::{row::calls::Basis, row::calls::View, row::calls::WriteOutcome, row::calls::WriteRules};

/// A walk down a chain from `at`, under a pin.
pub(super) struct Walk<'g> {
    at: *mut Version,
    _pin: &'g Pin,
}

impl<'g> Iterator for Walk<'g> {
    type Item = (NonNull<Version>, &'g Version);

    fn next(&mut self) -> Option<Self::Item> {
        let version = NonNull::new(self.at)?;
        // SAFETY: `at` was read from a head or a linked `next` after the pin was taken, and versions are freed only
        // through the collector (R2), so it outlives the pin.
        let shared: &'g Version = unsafe { version.as_ref() };
        #[cfg(loom)]
        shared.published.with(|_| ());
        self.at = shared.next.load(Acquire);
        Some((version, shared))
    }
}

/// Returns a walk from `from`, a head or a link that was read under `pin`.
pub(super) fn walk(from: *mut Version, pin: &Pin) -> Walk<'_> {
    Walk { at: version_of(from), _pin: pin }
}

/// The parameters of a look at a row: the requester, its purpose, and its helpers.
pub(super) struct Look<'a, O> {
    pub(super) family: CfId,
    pub(super) strength: LockStrength,
    pub(super) basis: Basis,
    pub(super) view: &'a View,
    pub(super) rules: &'a WriteRules,
    pub(super) others: &'a O,
    pub(super) pin: &'a Pin,
}

impl<O> Look<'_, O> {
    /// Returns whether the version, with this status, neither blocks the requester nor determines the row's state for
    /// it. A holder of KEY SHARE and a writer that keeps the keys do not conflict: the requester uses the version
    /// below, which is in view.
    fn steps_over(&self, version: &Version, fate: TxnStatus) -> bool {
        match fate {
            TxnStatus::Aborted => true,
            TxnStatus::InProgress(xid) => xid != self.rules.xid && !version.strength.conflicts_with(self.strength),
            TxnStatus::Committed(_) if version.is_lock() => true,
            TxnStatus::Committed(csn) => {
                csn >= self.view.snapshot
                    && self.basis != Basis::After(csn)
                    && version.value().is_some()
                    && !version.strength.conflicts_with(self.strength)
                    // Loaded after the link below was followed (R4); set for UPDATE only, which conflicts with
                    // everything.
                    && !version.hides_key_change.load(Relaxed)
            }
        }
    }
}

/// Returns whether the commit at `csn` is not in view, so that a writer must learn of it before writing over it.
pub(super) fn is_changed(csn: Lsn, view: &View) -> bool {
    if mutant!("ROW_CONFLICT_IGNORED") {
        return false;
    }
    if mutant!("ROW_CONFLICT_ABOVE") { csn > view.snapshot } else { csn >= view.snapshot }
}

/// The top of a chain, as a writer or a locker finds it.
pub(super) struct Top<'g> {
    /// The first version that is not debris: a new version links to it.
    pub(super) link: *mut Version,
    /// How strongly the requester holds the row by its own versions.
    pub(super) held: Option<LockStrength>,
    /// The version that determines the row's state, and its status.
    pub(super) base: Option<(&'g Version, TxnStatus)>,
}

impl<'g> Top<'g> {
    /// Looks from `head` down to the first version that decides.
    pub(super) fn of(head: *mut Version, look: &Look<'g, impl Resolve>) -> Self {
        let mut top = Self { link: ptr::null_mut(), held: None, base: None };
        for (pointer, version) in walk(head, look.pin) {
            if top.link.is_null() {
                if version.is_debris() {
                    continue;
                }
                top.link = pointer.as_ptr();
            }
            let fate = version.fate(look.others);
            if look.steps_over(version, fate) {
                continue;
            }
            if fate == TxnStatus::InProgress(look.rules.xid) {
                // The newest own version's strength includes that of the others.
                top.held = top.held.or(Some(version.strength));
                if version.is_lock() {
                    continue;
                }
            }
            top.base = Some((version, fate));
            break;
        }
        top
    }

    /// Returns the outcome of a write or a lock that the deciding version refuses; `None` if it may proceed.
    pub(super) fn refusal<O>(&self, look: &Look<'_, O>) -> Option<WriteOutcome> {
        let Look { basis, view, rules, .. } = *look;
        let Some((base, fate)) = self.base else { return Some(WriteOutcome::Gone(None)) };
        match fate {
            TxnStatus::InProgress(xid) if xid != rules.xid && !mutant!("ROW_UNFINISHED_IGNORED") => {
                return Some(WriteOutcome::Wait(xid));
            }
            TxnStatus::InProgress(xid) if xid == rules.xid && base.command >= view.command => {
                return Some(WriteOutcome::SelfModified);
            }
            TxnStatus::Committed(csn) if is_changed(csn, view) && basis != Basis::After(csn) => {
                if rules.repeatable {
                    return Some(WriteOutcome::Conflict(csn));
                }
                return Some(match &base.content {
                    Content::Put(value) => WriteOutcome::Changed { csn, value: Arc::clone(value) },
                    Content::Moved(key) => WriteOutcome::Moved { csn, key: key.clone() },
                    Content::Tombstone | Content::Lock => WriteOutcome::Gone(Some(csn)),
                });
            }
            _ => {}
        }
        base.value().is_none().then_some(WriteOutcome::Gone(None))
    }
}

/// Returns the newest version that determines the row's state, with its status.
pub(super) fn first_content<'g>(
    head: *mut Version,
    fates: &impl Resolve,
    pin: &'g Pin,
) -> Option<(&'g Version, TxnStatus)> {
    walk(head, pin)
        .filter(|(_, version)| !version.is_lock())
        .map(|(_, version)| (version, version.fate(fates)))
        .find(|(_, fate)| *fate != TxnStatus::Aborted)
}

/// Retires the versions from `first`, a head or a link, down to but not including `end`, which the caller just took
/// out.
pub(super) fn retire(first: *mut Version, end: *mut Version, pin: &Pin) {
    let mut at = version_of(first);
    while !at.is_null() && at != end {
        // SAFETY: R2: the caller took `at` out of the chain, so it is not freed before we retire it below.
        let next = unsafe { (*at).next.load(Acquire) };
        debug_assert!(
            // SAFETY: as above.
            TxnStatus::of_final(unsafe { &(*at).stamp }).is_ok(),
            "R2: only final versions leave a chain"
        );
        // SAFETY: R2: only the caller took it out, by one exchange or while pruning; it was boxed in `new`.
        unsafe { pin.retire(at) };
        at = next;
    }
}
