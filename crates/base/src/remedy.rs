//! `Remedy`: what the caller of a failed operation can do about it.

/// What helps against an error. Every error type of Collie answers `remedy()`; programs match on this, not on text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Run the same operation (or transaction) again.
    Retry,
    /// Change the call, the statement or the setting: the same input fails again.
    FixCall,
    /// Free disk, memory or connections, then run it again.
    FreeResources,
    /// Restore data from a copy, a replica or a backup, or accept the named loss.
    RestoreData,
    /// Close and open again; what was acknowledged is kept.
    Reopen,
}
