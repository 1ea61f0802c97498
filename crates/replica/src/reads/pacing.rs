//! [`Pacing`]: when a read that came on the primary at one time is due here, so that reads are as far apart as they were there: an open
//! loop, whatever becomes of those before. A state machine without a clock.
//!
//! What lies between both clocks is not known, and need not be: the shortest way of the last seconds is taken for the way of all, and
//! everything is due [`DELAY_US`] after it would have come so. Clocks that drift apart move the shortest way, and with it what is due, by
//! at most [`SLEW_US`] for each packet, so that spacing stays.

/// How long reads are held, so that those that were longer on their way are due in their turn.
const DELAY_US: u64 = 300_000;

/// For how long the shortest way is remembered, once or twice.
const WINDOW_US: u64 = 10_000_000;

/// Most that a packet moves what is due.
const SLEW_US: i64 = 1000;

/// A way that is so much shorter, or longer, is another one: what was known of it is forgotten.
const JUMP_US: i64 = 2_000_000;

/// The shortest way, by both clocks, and what is due by it.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Of this window and of the one before.
    shortest_us: [i64; 2],
    window_from_us: u64,
    /// What is added to an arrival.
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
    /// A packet came at `now_us`, in which the newest read had ended at `newest_us` on the primary's clock. Call it before [`Pacing::due_us`].
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

    /// Returns when a read is due here that came at `arrival_us` there.
    pub fn due_us(&self, arrival_us: u64) -> u64 {
        let shift_us = self.way.map_or(0, |way| way.shift_us);
        arrival_us.saturating_add_signed(shift_us).saturating_add(DELAY_US)
    }
}
