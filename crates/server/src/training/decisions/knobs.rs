//! [`Knobs`]: the settings of a node that change while it runs.

use std::fmt::Debug;

use collie_train::decision::Setting;

/// A node's settings. Times are in us, sizes in bytes.
pub(crate) trait Knobs: Send + Sync + Debug {
    /// Returns the value in force; `None` of a setting that this node has not, in the role in which it is.
    fn value(&self, setting: Setting) -> Option<f64>;

    /// Puts a value, in memory only.
    ///
    /// # Errors
    /// What is wrong with it, in words; nothing has changed then.
    fn put(&self, setting: Setting, value: f64) -> Result<(), String>;

    /// Returns the lowest and the highest value that a decision may choose, both of which can be put.
    fn range(&self, setting: Setting) -> (f64, f64);

    /// Returns whether the database is still there.
    fn is_open(&self) -> bool;
}
