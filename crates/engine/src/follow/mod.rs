//! Following a log: the state of a database that applies the records of another one.
//!
//! | file | noun |
//! |---|---|
//! | `followed.rs` | [`Followed`](followed::Followed): the log that is followed, and the read horizon |
//! | `record.rs` | [`RecordAt`](record::RecordAt): the place of a record |
//! | `lanes.rs` | [`Lanes`](lanes::Lanes): queues and workers |
//! | `watermark.rs` | [`Watermark`](watermark::Watermark): the position below which everything is applied |
//! | `measured_commits.rs` | [`MeasuredCommits`](measured_commits::MeasuredCommits): before the watermark |
//! | `apply_stat.rs` | [`ApplyStat`]: work and cost of applying |
//! | `shown.rs` | [`Shown`](shown::Shown): the read horizon |
//! | `shown_times.rs` | [`ShownTimes`](shown_times::ShownTimes): the times at which positions became visible |
//! | `replay_time.rs` | [`ReplayTime`](replay_time::ReplayTime): the age of the visible state, by the primary's clock |
//! | `holes.rs` | [`Holes`](holes::Holes): families that lack rows here |

pub(crate) mod apply_stat;
pub(crate) mod followed;
pub(crate) mod holes;
pub(crate) mod lanes;
pub(crate) mod measured_commits;
pub(crate) mod record;
pub(crate) mod replay_time;
pub(crate) mod shown;
pub(crate) mod shown_times;
pub(crate) mod watermark;

pub use apply_stat::ApplyStat;
pub use followed::{CatalogChange, CatalogHook, CatalogRows};
