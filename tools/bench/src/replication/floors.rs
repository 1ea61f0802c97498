//! `Floors`: lower bounds for every replication, measured in the same run: a flush of the disk, and a round trip over
//! the loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Context;

use crate::report::{Row, Section};
use crate::{DiskFloor, FloorSlice, Latencies, Plan, Scratch, measures::micros};

/// Bytes of a message in both directions: about an acknowledgement.
const MESSAGE: usize = 64;

/// Both floors, measured in slices between the runs.
pub(crate) struct Floors {
    disk: DiskFloor,
    flushes: FloorSlice,
    near: TcpStream,
    trips: Latencies,
    /// Dropped after the file in it.
    _scratch: Scratch,
}

impl Floors {
    /// Creates the file, and the connection to an echo in this process.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn new(plan: &Plan) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let disk = DiskFloor::create(&plan.env, scratch.path())?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (mut far, _address) = listener.accept()?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        // Ends when the near end is closed.
        let _echo = std::thread::spawn(move || {
            let mut message = [0; MESSAGE];
            while far.read_exact(&mut message).and_then(|()| far.write_all(&message)).is_ok() {}
        });
        Ok(Self { disk, flushes: FloorSlice::default(), near, trips: Latencies::default(), _scratch: scratch })
    }

    /// Measures both, each for half of `time`.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(crate) fn slice(&mut self, plan: &Plan, time: Duration) -> anyhow::Result<()> {
        plan.say("floors");
        let flushes = self.disk.slice(time / 2).context("the disk's floor")?;
        self.flushes = std::mem::take(&mut self.flushes).and(&flushes);
        let begun = plan.now_ns();
        let mut message = [7; MESSAGE];
        while u128::from(plan.now_ns() - begun) < (time / 2).as_nanos() {
            let sent = plan.now_ns();
            self.near.write_all(&message)?;
            self.near.read_exact(&mut message)?;
            self.trips.record(plan.now_ns() - sent);
        }
        Ok(())
    }

    /// Returns the least time of a commit that waits for a flush on this node and, if `far`, for another flush and a
    /// round trip to it: from medians, in microseconds.
    pub(crate) fn commit_us(&self, far: bool) -> f64 {
        let flush = micros(self.flushes.latencies.at_per_mille(500));
        if far { 2.0 * flush + micros(self.trips.at_per_mille(500)) } else { flush }
    }

    /// Adds a row for each floor.
    pub(crate) fn rows(&self, section: &mut Section) {
        for (what, of) in
            [("4 KiB written and synced", &self.flushes.latencies), ("64 B over the loopback and back", &self.trips)]
        {
            section.rows.push(
                Row::new("floor", what, "-", "-")
                    .runs("p50_us", &[micros(of.at_per_mille(500))])
                    .runs("p99_us", &[micros(of.at_per_mille(990))]),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pace;

    /// Goal: both floors are measured and reported, and the file is removed. Method: one slice.
    #[test]
    fn floors_are_measured() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan::new(dir.path(), Pace::Touch);
        let mut floors = Floors::new(&plan).unwrap();
        // On a busy machine a slice may have no time for one of them.
        while floors.trips.count() == 0 || floors.flushes.latencies.count() == 0 {
            floors.slice(&plan, Duration::from_millis(20)).unwrap();
        }
        let mut section = Section::new("rate", "?");
        floors.rows(&mut section);
        assert!(section.rows.len() == 2 && section.rows.iter().all(|row| row.median("p50_us").unwrap() > 0.0));
        assert!(floors.commit_us(true) > 2.0 * floors.commit_us(false) && floors.commit_us(false) > 0.0);
        drop(floors);
        assert_eq!(plan.env.files.list(dir.path()).unwrap(), Vec::<String>::new());
    }
}
