//! [`HalfOpen`]: connections that have not sent their start-up message yet. They are no sessions and take no session's
//! place.
//!
//! # Invariants
//! - HO1. There are at most [`HALF_OPEN_MAX`] at a time: a further one ends the oldest. So a flood of silent
//!   connections neither uses up descriptors nor keeps out a client that sends its start-up message.
//! - HO2. A connection leaves the list when its start-up ends, whatever the outcome.
//!
//! Checked by the test below and by `tests/clients/tests/protocol.rs`.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The maximum number of connections without a session. Each has a descriptor and, at most, the bytes of a start-up
/// message.
pub(crate) const HALF_OPEN_MAX: usize = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen(Mutex<VecDeque<Arc<Notify>>>);

/// The place of one connection in the list.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    list: &'a HalfOpen,
    ended: Arc<Notify>,
}

impl HalfOpen {
    /// Adds a connection; ends the oldest one if there are too many (HO1).
    pub(crate) fn enter(&self) -> Place<'_> {
        let ended = Arc::new(Notify::new());
        let mut list = self.0.lock();
        list.push_back(ended.clone());
        if list.len() > HALF_OPEN_MAX {
            // If the oldest does not wait yet, the permit is kept for it.
            list.pop_front().iter().for_each(|oldest| oldest.notify_one());
        }
        drop(list);
        Place { list: self, ended }
    }
}

impl Place<'_> {
    /// Waits until the connection must make room for others.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.list.0.lock().retain(|other| !Arc::ptr_eq(other, &self.ended)); // HO2
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Goal: HO1 and HO2. Method: the maximum number of connections, some of which leave; then more, which end the
    /// oldest and no other.
    #[tokio::test]
    async fn further_connection_ends_the_oldest() {
        let list = HalfOpen::default();
        let mut places: Vec<Place<'_>> = (0..HALF_OPEN_MAX).map(|_| list.enter()).collect();
        drop(places.remove(5));
        places.push(list.enter());
        let is_ended = async |place: &Place<'_>| timeout(Duration::from_millis(1), place.ended()).await.is_ok();
        assert!(!is_ended(&places[0]).await, "there was room");
        let _one_more = list.enter();
        assert!(is_ended(&places[0]).await && !is_ended(&places[1]).await);
        drop(places);
        assert_eq!(list.0.lock().len(), 1);
    }
}
