//! [`feed`]: a primary's sessions take reads while a replica wants them.

use std::sync::Arc;

use collie_replica::reads::{Read, ReadFeed};
use collie_sql::session::{Database, TakenRead};

/// Makes the sessions of `database` take reads with probability `share` while a follower wants them; returns the feed
/// of these reads.
#[expect(clippy::cast_possible_truncation, reason = "sessions keep as much of it as they need")]
pub(crate) fn feed(database: &Arc<Database>, share: f64) -> Arc<ReadFeed> {
    // The database owns the feed; a strong reference back would be a cycle.
    let sessions = Arc::downgrade(database);
    let feed = ReadFeed::new(move |is_wanted| {
        let share = if is_wanted { share as f32 } else { 0.0 };
        sessions.upgrade().iter().for_each(|database| database.read_share().set(share));
    });
    let publish = feed.clone();
    database.ship_reads(Box::new(move |taken| {
        let TakenRead { hash, text, parameters, snapshot, arrival_us, latency_ns, rows } = taken;
        let now_us = arrival_us.saturating_add(u64::from(latency_ns) / 1000);
        let parameters = parameters.into();
        publish.publish(&Read { hash, text, parameters, snapshot, arrival_us, latency_ns, rows }, now_us);
    }));
    feed
}
