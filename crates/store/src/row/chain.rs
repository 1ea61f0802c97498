//! Walking a row's chain, what a writer finds at its top, and retiring what was taken out of it.

use std::ptr::{self, NonNull};

use collie_base::Xid;

use super::version::{Content, PRUNE_DEPTH_MIN, Version};
use crate::calls::LockStrength;
use crate::epoch::Pin;
use crate::stamp::atomic::Ordering::Acquire;
use crate::stamp::{Fate, Resolve};

/// The head of a row that left the index (R5).
pub(super) const DEAD: *mut Version = ptr::without_provenance_mut(1);

/// A chain from `at` down, as the holder of a pin may walk it.
pub(super) struct Walk<'g> {
    at: *mut Version,
    _pin: &'g Pin,
}

impl<'g> Iterator for Walk<'g> {
    type Item = (NonNull<Version>, &'g Version);

    fn next(&mut self) -> Option<Self::Item> {
        let version = NonNull::new(self.at).filter(|v| v.as_ptr() != DEAD)?;
        // SAFETY: `at` was read from a head or a linked `next` after the pin was taken, and versions are freed only
        // through the collector (R2), so it outlives the pin.
        let shared: &'g Version = unsafe { version.as_ref() };
        #[cfg(loom)]
        shared.published.with(|_| ());
        self.at = shared.next.load(Acquire);
        Some((version, shared))
    }
}

/// Starts at `at`, which was read from a head or a link under `pin`.
pub(super) const fn walk(at: *mut Version, pin: &Pin) -> Walk<'_> {
    Walk { at, _pin: pin }
}

/// What a writer finds at the top of a chain.
pub(super) struct Top<'g> {
    /// First version that is no debris: a new version links to it.
    pub(super) link: *mut Version,
    pub(super) depth: u32,
    pub(super) prune_at: u32,
    /// The strongest lock the writer itself holds above `base`.
    pub(super) held: Option<LockStrength>,
    /// The version that says what the row is, and its fate.
    pub(super) base: Option<(&'g Version, Fate)>,
}

impl<'g> Top<'g> {
    /// Looks from `head` down to the first version that decides, for the writer `xid`.
    pub(super) fn of(head: *mut Version, xid: Xid, fates: &impl Resolve, pin: &'g Pin) -> Self {
        let mut top = Self { link: ptr::null_mut(), depth: 0, prune_at: PRUNE_DEPTH_MIN, held: None, base: None };
        for (pointer, version) in walk(head, pin) {
            if top.link.is_null() {
                if version.is_debris() {
                    continue;
                }
                (top.link, top.depth, top.prune_at) = (pointer.as_ptr(), version.depth, version.prune_at);
            }
            let fate = version.fate(fates);
            match (&version.content, fate) {
                (_, Fate::Aborted) | (Content::Lock(_), Fate::Committed(_)) => {}
                (Content::Lock(strength), Fate::InProgress(holder)) if holder == xid => {
                    top.held = top.held.max(Some(*strength));
                }
                _ => {
                    top.base = Some((version, fate));
                    break;
                }
            }
        }
        top
    }
}

/// Returns the newest version that says what the row is, with its fate.
pub(super) fn first_content<'g>(head: *mut Version, fates: &impl Resolve, pin: &'g Pin) -> Option<(&'g Version, Fate)> {
    walk(head, pin)
        .filter(|(_, version)| !version.is_lock())
        .map(|(_, version)| (version, version.fate(fates)))
        .find(|(_, fate)| *fate != Fate::Aborted)
}

/// Retires the versions from `first` down to, not including, `end`: just taken out by the caller.
pub(super) fn retire(first: *mut Version, end: *mut Version, pin: &Pin) {
    let mut at = first;
    while !at.is_null() && at != end && at != DEAD {
        // SAFETY: R2: the caller took `at` out of the chain, so it is not freed before we retire it below.
        let next = unsafe { (*at).next.load(Acquire) };
        debug_assert!(
            // SAFETY: as above.
            Fate::of_final(unsafe { &(*at).stamp }).is_ok(),
            "R2: only final versions leave a chain"
        );
        // SAFETY: R2: taken out by the caller, by one exchange or while pruning, so by nobody else; boxed in `new`.
        unsafe { pin.retire(at) };
        at = next;
    }
}
