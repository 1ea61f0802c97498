//! `ClockOffset`: the offset of a replica's clock from this node's clock, as far as round trips show it.
//!
//! An ack carries the time on the replica's clock at which it was sent. On this node's clock it was sent after the
//! packet that it echoes had left here and had been held by the replica, and before the ack arrived here. Every
//! round trip gives such bounds, and together they are tighter than each alone: a round trip that was delayed in
//! the network does not loosen the others.
//!
//! # Invariants
//! - O1. The result for the time of an ack is within the bounds of that ack itself: its error is less than its own
//!   round trip, whatever the clocks do.
//! - O2. The error is at most [`ClockOffset::uncertainty_ns`]: half of the shortest recent round trip, as long as
//!   the clocks drift apart by no more than [`APART_PPM`]. How a round trip divides into its two directions cannot
//!   be known more precisely.
//! - O3. Bounds that exclude each other mean that a clock did not run evenly: only the newest bounds are used from
//!   then on.
//!
//! Checked by the tests here.

/// How much two clocks drift apart at most, in millionths: the drift of quartz oscillators and of their
/// correction.
const APART_PPM: i128 = 200;

/// Bounds of the amount that must be added to a replica's clock to get this node's time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    least: i128,
    most: i128,
    /// The bounds were valid at some time of this node at or after this one.
    as_of_ns: u64,
}

/// Returns how far two clocks drift apart in `ns` at most, rounded up.
fn apart(ns: i128) -> i128 {
    ns.max(0) * APART_PPM / 1_000_000 + 1
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset(Option<Bounds>);

impl ClockOffset {
    /// Records a round trip: a packet that left at `echo_ns` on this node's clock was held for `hold_ns` by the
    /// replica, and the ack, which left at `replica_ns` on the replica's clock, arrived at `now_ns`.
    pub fn on_round(&mut self, echo_ns: u64, hold_ns: u64, replica_ns: u64, now_ns: u64) {
        let [echo, hold, replica, now] = [echo_ns, hold_ns, replica_ns, now_ns].map(i128::from);
        let most = now - replica;
        // The replica measured `hold_ns` with a clock that may run faster.
        let least = (echo + hold - apart(hold) - replica).min(most);
        let own = Bounds { least, most, as_of_ns: echo_ns };
        self.0 = Some(self.0.map_or(own, |known| {
            let widened = apart(now - i128::from(known.as_of_ns));
            let (least, most) = ((known.least - widened).max(least), (known.most + widened).min(most));
            if least <= most { Bounds { least, most, ..own } } else { own } // O3
        }));
    }

    /// Returns the time on this node's clock at which the replica's clock showed `replica_ns`; `None` before the
    /// first round trip.
    pub fn here_ns(&self, replica_ns: u64) -> Option<u64> {
        let Bounds { least, most, .. } = self.0?;
        let here = i128::from(replica_ns) + i128::midpoint(least, most);
        Some(u64::try_from(here.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the largest possible error of that time, in nanoseconds (O2); `u64::MAX` before the first round
    /// trip.
    pub fn uncertainty_ns(&self) -> u64 {
        self.0.map_or(u64::MAX, |Bounds { least, most, .. }| u64::try_from((most - least + 1) / 2).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// Goal: O3, and a wrong echo. Method: a replica whose clock jumps; one that claims to have held a packet for
    /// longer than the whole round trip.
    #[test]
    fn a_clock_that_jumps_is_found_again() {
        let mut offset = ClockOffset::default();
        assert_eq!((offset.here_ns(5), offset.uncertainty_ns()), (None, u64::MAX));
        offset.on_round(1_000, 101, 50_000, 1_300);
        assert_eq!((offset.here_ns(50_000), offset.uncertainty_ns()), (Some(1_200), 100));
        offset.on_round(2_000, 101, 90_000, 2_300);
        assert_eq!(offset.here_ns(90_000), Some(2_200), "the newest alone counts");
        offset.on_round(3_000, 5_000, 91_000, 3_300);
        assert_eq!(offset.here_ns(91_000), Some(3_300));
        offset.on_round(0, u64::MAX, u64::MAX, 4_000);
        assert_eq!(offset.here_ns(u64::MAX), Some(4_000));
    }

    proptest! {
        /// Goal: O1 and O2: the error is no larger than reported, and not much larger than half of the shortest
        /// round trip. Method: paths of random lengths, uneven in both directions, between clocks that drift
        /// apart.
        #[test]
        fn it_is_off_by_no_more_than_it_says(
            rounds in vec((10_000..100_000_000_u64, 1_000..2_000_000_u64, 1_000..2_000_000_u64, 0..50_000_000_u64), 1..60),
            stands in 0..1_000_000_000_000_u64, ppm in -190..190_i64,
        ) {
            let (mut offset, mut now) = (ClockOffset::default(), 5_000_000_000_u64);
            // Returns the time on the replica's clock at a time of this node's.
            let theirs = |here: u64| {
                let ran = i128::from(here) + i128::from(here) * i128::from(ppm) / 1_000_000;
                u64::try_from(ran).unwrap() + stands
            };
            let (mut half_ns, mut known_as_of) = (u64::MAX, now);
            for (idle, there, back, hold) in rounds {
                let left = now + idle;
                let (came, sent) = (left + there, left + there + hold);
                now = sent + back;
                offset.on_round(left, theirs(sent) - theirs(came), theirs(sent), now);
                let found = offset.here_ns(theirs(sent)).unwrap();
                let off = found.abs_diff(sent);
                prop_assert!(off <= offset.uncertainty_ns(), "{off} of {}", offset.uncertainty_ns());
                prop_assert!(off <= there + back + hold / 2_000 + 2, "{off}: within its own round trip");
                // Half of the shortest round trip, and the possible drift of the clocks since the last one began.
                let since = (now - known_as_of) / 1_000 + 2;
                known_as_of = left;
                half_ns = half_ns.saturating_add(since).min((there + back + hold / 2_000) / 2 + 2);
                prop_assert!(offset.uncertainty_ns() <= half_ns, "{} of {half_ns}", offset.uncertainty_ns());
            }
        }
    }
}
