//! [`HalfOpen`]: connections that have not said yet what they want. They are no sessions and take no place of one.
//!
//! # Invariants
//! - HO1. There are at most [`HALF_OPEN_MAX`] at a time: a further one ends the oldest. So a flood of connections that say nothing neither uses
//!   up descriptors nor keeps a client out that says what it wants.
//! - HO2. A connection leaves the list when its start-up ends, however it ends.
//!
//! Checked by the test below and by `tests/clients/tests/protocol.rs`.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Connections without a session at a time. Each has a descriptor and, at most, the bytes of a start-up message.
pub(crate) const HALF_OPEN_MAX: usize = 256;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct HalfOpen(Mutex<VecDeque<Arc<Notify>>>);

/// One connection's place in the list.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    list: &'a HalfOpen,
    ended: Arc<Notify>,
}

impl HalfOpen {
    /// Takes a connection in; ends the oldest one if there are too many (HO1).
    pub(crate) fn enter(&self) -> Place<'_> {
        let ended = Arc::new(Notify::new());
        let mut list = self.0.lock();
        list.push_back(ended.clone());
        if list.len() > HALF_OPEN_MAX {
            // A permit is kept if nothing waits for it yet.
            list.pop_front().iter().for_each(|oldest| oldest.notify_one());
        }
        drop(list);
        Place { list: self, ended }
    }
}

impl Place<'_> {
    /// Waits until the connection has to make room for others.
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

    /// Goal: HO1 and HO2. Method: as many connections as there may be, some of which go; then more, which end the oldest and no other.
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
