//! Failovers of a real pair while its settings change, with the calls that an operator uses and to the values between
//! which a decision chooses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::replication::PairSettings;
use crate::replication::failover::{WRITERS, cycle_of};
use crate::replication::pair::{Waiting, collie};
use crate::replication::small::prepare;
use crate::report::{Figure, Row, Section};

/// The time between two changes; a trial makes one each second.
const EVERY: Duration = Duration::from_millis(20);
/// The settings and both ends of the range of decisions; a node refuses settings that it does not have in its role.
const ENDS: [(&str, [&str; 2]); 6] = [
    ("wal.flush_delay", ["1ms", "40ms"]),
    ("wal.flush_bytes", ["64KiB", "8MiB"]),
    ("replication.flush_delay", ["100us", "10ms"]),
    ("store.write_buffer_size", ["16MiB", "256MiB"]),
    ("store.gc_interval", ["1ms", "256ms"]),
    ("replication.apply_workers", ["1", "0"]),
];

/// Adds the row.
///
/// # Errors
/// The pair does not start; the errors of the driver.
pub(super) fn rows(settings: &PairSettings, section: &mut Section) -> anyhow::Result<()> {
    let mut pair = collie(settings, Waiting::Yes)?;
    prepare(&pair, WRITERS + 1)?;
    pair.until_even(settings)?;
    let (mut acknowledged, mut lost, mut divergent) = (0, 0, 0);
    let changes = AtomicU64::new(0);
    for run in 0..settings.runs {
        settings.plan.say(&format!("safety: failover {} of {}", run + 1, settings.runs));
        let stop = AtomicBool::new(false);
        let nodes = [pair.primary_config(), pair.replica_config()?];
        let done = std::thread::scope(|scope| {
            for config in &nodes {
                let (stop, changes) = (&stop, &changes);
                // Ends when its server does.
                scope.spawn(move || change_until(config, stop, changes));
            }
            let done = cycle_of(&mut pair, settings);
            stop.store(true, Relaxed);
            done
        })?;
        acknowledged += done.acknowledged;
        lost += done.lost;
        let of = |mut session: Client| -> anyhow::Result<Vec<(i32, i64)>> {
            let rows = session.query("SELECT id, n FROM small ORDER BY id", &[])?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        };
        divergent += u64::from(of(pair.connect()?)? != of(pair.connect_replica()?)?);
    }
    let changes = changes.into_inner();
    let row =
        Row::new(pair.name(), format!("{} primaries killed while settings change", settings.runs), "on", pair.ring());
    section.rows.push(
        row.figure("cases", Figure::Count(settings.runs.into()))
            .figure("settings_changed", Figure::Count(changes))
            .figure("acknowledged_commits", Figure::Count(acknowledged.unsigned_abs()))
            .figure("lost_commits", Figure::Count(lost.unsigned_abs()))
            .figure("divergent_replicas", Figure::Count(divergent))
            .target("settings were changed", changes > 0)
            .target("no acknowledged commit lost", lost == 0)
            .target("no replica diverges", divergent == 0),
    );
    Ok(())
}

/// Changes the settings of a node in turn, to one end and to the other, until the node is gone or `stop` is set;
/// counts the accepted changes.
fn change_until(config: &Config, stop: &AtomicBool, changes: &AtomicU64) {
    let Ok(mut session) = config.connect(NoTls) else { return };
    for (name, value) in (0..2).cycle().flat_map(|end| ENDS.map(|(name, ends)| (name, ends[end]))) {
        if stop.load(Relaxed) || session.is_closed() {
            return;
        }
        if session.batch_execute(&format!("CALL collie_set_option('{name}', '{value}')")).is_ok() {
            changes.fetch_add(1, Relaxed);
        }
        std::thread::sleep(EVERY);
    }
}
