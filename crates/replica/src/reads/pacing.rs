//! [`Pacing`]: when a read that arrived on the primary at one time is due here, so that reads are as far apart as
//! they were there: an open loop, whatever happens to earlier reads. A state machine without a clock.
//!
//! The difference between the two clocks is not known, and is not needed: the shortest transit time of the last
//! seconds is used for all reads, and every read is due [`DELAY_US`] after it would have arrived with that time.
//! Clocks that drift apart move the shortest transit time, and with it the due times, by at most [`SLEW_US`] for
//! each packet, so that the spacing stays.

/// How long reads are delayed, so that those with a longer transit time are due in their order.
const DELAY_US: u64 = 300_000;

/// The shortest transit time is remembered for one to two of these.
const WINDOW_US: u64 = 10_000_000;

/// The most that a packet moves the due times.
const SLEW_US: i64 = 1000;

/// A transit time that differs by this much means another clock or path: the earlier ones are forgotten.
const JUMP_US: i64 = 2_000_000;

/// The shortest transit time, by both clocks, and the resulting shift.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Those of this window and of the one before.
    shortest_us: [i64; 2],
    window_from_us: u64,
    /// The time added to an arrival.
    shift_us: i64,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacing {
    way: Option<Way>,
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

impl Pacing {
    /// Records that a packet arrived at `now_us`, in which the newest read had ended at `newest_us` on the
    /// primary's clock. Must be called before [`Pacing::due_us`].
    pub fn came(&mut self, newest_us: u64, now_us: u64) {
        let way_us = signed(now_us).saturating_sub(signed(newest_us));
        let way = self.way.filter(|way| way.shift_us.saturating_sub(way_us).saturating_abs() < JUMP_US);
        let Some(mut way) = way else {
            self.way = Some(Way { shortest_us: [way_us; 2], window_from_us: now_us, shift_us: way_us });
            return;
        };
        if now_us.saturating_sub(way.window_from_us) >= WINDOW_US {
            (way.shortest_us, way.window_from_us) = ([i64::MAX, way.shortest_us[0]], now_us);
        }
        way.shortest_us[0] = way.shortest_us[0].min(way_us);
        let wanted_us = way.shortest_us[0].min(way.shortest_us[1]);
        way.shift_us = way.shift_us.saturating_add(wanted_us.saturating_sub(way.shift_us).clamp(-SLEW_US, SLEW_US));
        self.way = Some(way);
    }

    /// Returns when a read is due here that arrived on the primary at `arrival_us`.
    pub fn due_us(&self, arrival_us: u64) -> u64 {
        let shift_us = self.way.map_or(0, |way| way.shift_us);
        arrival_us.saturating_add_signed(shift_us).saturating_add(DELAY_US)
    }
}
