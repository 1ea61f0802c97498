//! `Remedy`: what the caller of a failed operation can do about it.

/// The action that helps against an error. Every error type of Collie has `remedy()`; programs match on this, not
/// on text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Run the same operation (or transaction) again.
    Retry,
    /// Change the call, the statement or the setting: the same input fails again.
    FixCall,
    /// Free disk space, memory or connections, then run the operation again.
    FreeResources,
    /// Restore data from a copy, a replica or a backup, or accept the loss that the error names.
    RestoreData,
    /// Close and open again; acknowledged commits are kept.
    Reopen,
}
