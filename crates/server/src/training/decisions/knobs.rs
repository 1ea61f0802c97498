//! [`Knobs`]: the settings of a node that can change while it runs.

use std::fmt::Debug;

use collie_train::decision::Setting;

/// A node's settings. Times are in us, sizes in bytes.
pub(crate) trait Knobs: Send + Sync + Debug {
    /// Returns the current value; `None` for a setting that this node does not have in its present role.
    fn value(&self, setting: Setting) -> Option<f64>;

    /// Puts a value, in memory only.
    ///
    /// # Errors
    /// The problem with it, in words; then nothing has changed.
    fn put(&self, setting: Setting, value: f64) -> Result<(), String>;

    /// Returns the lowest and the highest value that a decision may choose, both of which can be put.
    fn range(&self, setting: Setting) -> (f64, f64);

    /// Returns whether the database still exists.
    fn is_open(&self) -> bool;
}
