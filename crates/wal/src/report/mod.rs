//! What a log reports while it opens and runs, to a thread or an operator.
//!
//! | file | holds |
//! |---|---|
//! | `checked` | how far an opening has checked the files |
//! | `stall` | what holds up all commits |
//! | `warning` | lines for an operator |

pub(crate) mod checked;
pub(crate) mod stall;
pub(crate) mod warning;
