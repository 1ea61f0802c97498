//! `ReplicaFault`: a replica that connects but makes no progress, for the operator; no I/O.
//!
//! # Invariants
//! - B1. Streams that end because of the data sent on them, [`FAULTS`] times in a row at one position, mark the
//!   slot and are reported once. A replica that gets further clears the mark.
//! - B2. A replica that reports that it has stopped is marked at once, until it is rebuilt or gets further.
//!
//! Checked by the tests here, by `stream_tests` and by `slots_tests`.

use collie_base::Lsn;

use super::SlotState;
use crate::{LinkError, packet::ErrorCode};

/// The number of faults at one position that are no coincidence.
const FAULTS: u32 = 3;

/// Faults of a slot's streams.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaFault {
    /// The position of the replica at the last fault.
    at: Lsn,
    /// The number of faults in a row.
    faults: u32,
    mark: Option<(SlotState, String)>,
}

impl ReplicaFault {
    /// Records that a stream ended with `error` when its replica had received the log up to `received`. Returns a
    /// line for the operator, once.
    pub(super) fn on_end(&mut self, slot: &str, received: Lsn, error: &LinkError) -> Option<String> {
        if let LinkError::Told { code: ErrorCode::StateDiffers | ErrorCode::Damaged, text, .. } = error {
            (self.at, self.mark) = (received, Some((SlotState::Stopped, text.clone())));
            return None; // the caller, which serves the connection, reports why it ended
        }
        if !is_fault(error) {
            return None;
        }
        self.faults = if received == self.at { self.faults.saturating_add(1) } else { 1 };
        self.at = received;
        if self.faults < FAULTS || self.mark.is_some() {
            return None;
        }
        let why = format!("streams end at {received}, {FAULTS} times in a row by now: {error}");
        let line = format!(
            "replication slot {slot} is failing: {why}. Look at the network between, and at the memory of both machines; a replica whose \
             directory is emptied is rebuilt"
        );
        self.mark = Some((SlotState::Failing, why));
        Some(line)
    }

    /// Records that the replica has received the log up to `received`.
    pub(super) fn on_received(&mut self, received: Lsn) {
        if received > self.at {
            *self = Self { at: received, ..Self::default() };
        }
    }

    /// Returns the state to display for the slot, and why, if it is marked.
    pub(super) fn mark(&self) -> Option<(SlotState, &str)> {
        self.mark.as_ref().map(|(state, why)| (*state, why.as_str()))
    }
}

/// Returns whether a stream ended because of the data sent on it.
fn is_fault(error: &LinkError) -> bool {
    let is_fault = |code: &ErrorCode| matches!(code, ErrorCode::Protocol | ErrorCode::Checksum | ErrorCode::Gap);
    match error {
        LinkError::Packet(_) | LinkError::Unexpected { .. } => true,
        LinkError::Told { code, .. } | LinkError::Refused { code, .. } => is_fault(code),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: ErrorCode) -> LinkError {
        LinkError::Told { code, fatal: false, text: "a reason".to_owned() }
    }

    /// Goal: B1. Method: faults at one position and at another, ends that are no faults, a replica that gets
    /// further.
    #[test]
    fn three_faults_at_one_position_mark_a_slot_once() {
        let mut trouble = ReplicaFault::default();
        let (here, there) = (Lsn::new(5000), Lsn::new(6000));
        let mut end = |at, error: &LinkError| trouble.on_end("north", at, error);
        for at in [here, there, here, there, here] {
            assert_eq!(end(at, &told(ErrorCode::Checksum)), None);
        }
        assert_eq!(end(here, &told(ErrorCode::Gap)), None, "two");
        for none in
            [LinkError::Closed, LinkError::Stopping, LinkError::Silent { after_ms: 1 }, told(ErrorCode::Storage)]
        {
            assert_eq!(end(here, &none), None, "{none}");
        }
        let line = end(here, &LinkError::Unexpected { what: "packet" }).unwrap();
        assert!(line.contains("slot north is failing") && line.contains("0/1388"), "{line}");
        assert_eq!(end(here, &told(ErrorCode::Checksum)), None, "told");
        assert!(matches!(trouble.mark(), Some((SlotState::Failing, _))));
        trouble.on_received(here);
        assert!(trouble.mark().is_some(), "it stands where it stood");
        trouble.on_received(there);
        assert_eq!(trouble.mark(), None);
    }

    /// Goal: B2. Method: both reasons to stop.
    #[test]
    fn a_replica_that_stopped_is_marked_at_once() {
        for code in [ErrorCode::StateDiffers, ErrorCode::Damaged] {
            let mut trouble = ReplicaFault::default();
            assert_eq!(trouble.on_end("north", Lsn::new(5000), &told(code)), None);
            assert_eq!(trouble.mark(), Some((SlotState::Stopped, "a reason")));
        }
    }
}
