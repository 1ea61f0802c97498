//! Comparison of a replica with its primary: both sum up their rows at one position, or the bytes of their logs
//! between two positions, and the replica checks whether the sums are equal.
//!
//! *Rows.* The primary keeps a snapshot of its rows at a position, sends the log exactly up to that position, and
//! asks (`V` with `from` 0). The replica, which has nothing above that position yet, keeps a snapshot of its rows
//! too. Then both read their rows, while commits and the stream continue. The primary sends its sums, one packet
//! for each family (`from` = `to`, `cf` the family's id plus one), and then a packet with `cf` 0 that states the
//! number of sums. The replica compares, and if all sums are equal it confirms this with the same last packet.
//!
//! *Log.* The primary sums up a stretch of its log that the replica has on its disk, and sends the sum (`V` of
//! kind 0, with `result` its CRC-32C). The replica sums up its own bytes, and sends the packet back if the sums
//! are equal. Frames and files are not compared: equal positions of one history must have equal bytes
//! (REPL-2).
//!
//! # Invariants
//! - C1. Only sums that were taken at the same position are compared. A replica that cannot take a snapshot there
//!   does not answer.
//! - C2. Families that one side does not have, or does not count (it has holes, or was dropped and is kept for old
//!   snapshots), are left out.
//! - C3. A stretch of log of which one side has freed any part is not compared.
//!
//! Checked by the tests here and by `stream_tests`.

use std::{collections::BTreeMap, fmt};

use collie_base::{Lsn, Term};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::{
    LinkError,
    packet::{Packet, Verify, VerifyKind},
};

/// A snapshot of the rows of a database at one position.
pub trait Held: fmt::Debug + Send {
    /// Returns the position.
    fn at(&self) -> Lsn;

    /// Returns a sum for the rows of each family that has any, by the family's id. Takes as long as reading the
    /// rows.
    fn sums(&self) -> Vec<(u32, u64)>;
}

/// A difference between a replica and its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The position at which both were compared; for logs, the end of the stretch.
    pub at: Lsn,
    /// The term of the primary.
    pub term: Term,
    /// The differing data.
    pub what: Differing,
}

/// The differing data, with the sums of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Differing {
    /// Rows.
    Rows {
        /// The lowest family whose rows differ.
        family: u32,
        /// The replica's state hash.
        own: u64,
        /// The primary's state hash.
        primary: u64,
    },
    /// Bytes of the log.
    Log {
        /// Where the stretch begins.
        from: Lsn,
        /// The replica's CRC-32C.
        own: u32,
        /// The primary's CRC-32C.
        primary: u32,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, term, what } = self;
        match what {
            Differing::Rows { family, own, primary } => write!(
                f,
                "rows of family {family} differ from the primary's at {at} in term {term}: state hash {own:016x} here, {primary:016x} there"
            ),
            Differing::Log { from, own, primary } => write!(
                f,
                "the log from {from} to {at} differs from the primary's in term {term}: CRC-32C {own:08x} here, {primary:08x} there"
            ),
        }
    }
}

/// A stretch of log with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) from: Lsn,
    pub(crate) to: Lsn,
    pub(crate) crc: u32,
}

impl Stretch {
    /// Takes the stretch from a packet about the log.
    ///
    /// # Errors
    /// The packet does not describe a stretch of log.
    pub(crate) fn of(verify: &Verify) -> Result<Self, LinkError> {
        let Verify { from, to, cf, result, .. } = *verify;
        match u32::try_from(result) {
            Ok(crc) if from < to && cf == 0 => Ok(Self { from, to, crc }),
            _ => Err(LinkError::Unexpected { what: "stretch of log" }),
        }
    }

    pub(crate) fn packet(self) -> Packet<'static> {
        let Self { from, to, crc } = self;
        Packet::Verify(Verify { kind: VerifyKind::LogCrc, from, to, cf: 0, result: u64::from(crc) })
    }
}

/// Returns the packet that asks for a comparison of rows at `at`.
pub(crate) fn question(at: Lsn) -> Packet<'static> {
    Packet::Verify(Verify { kind: VerifyKind::StateHash, from: Lsn::ZERO, to: at, cf: 0, result: 0 })
}

/// Returns the packets that report the sums at `at`.
pub(crate) fn answers(at: Lsn, sums: &[(u32, u64)]) -> impl Iterator<Item = Packet<'static>> {
    let last = (0, u64::try_from(sums.len()).unwrap_or(u64::MAX));
    let packet =
        move |(cf, result)| Packet::Verify(Verify { kind: VerifyKind::StateHash, from: at, to: at, cf, result });
    let of = |(family, sum): &(u32, u64)| (family.wrapping_add(1), *sum);
    sums.iter().map(of).collect::<Vec<_>>().into_iter().chain([last]).map(packet)
}

/// Sums that are being computed on a separate thread.
#[derive(Debug)]
pub(crate) struct Summing {
    pub(crate) at: Lsn,
    sums: JoinHandle<Vec<(u32, u64)>>,
}

impl Summing {
    pub(crate) fn of(held: Box<dyn Held>) -> Self {
        Self { at: held.at(), sums: spawn_blocking(move || held.sums()) }
    }
}

/// The result of summing up a stretch of log: `None` when the log does not have all of it (C3), or why it cannot
/// be read.
pub(crate) type StretchRead = Result<Option<Stretch>, String>;

/// A stretch of log that is being summed up on a separate thread.
#[derive(Debug)]
pub(crate) struct Reading(JoinHandle<StretchRead>);

impl Reading {
    /// Starts summing up the log from `from` to `to`; `crc` computes the checksum.
    pub(crate) fn of<E: fmt::Display>(
        (from, to): (Lsn, Lsn),
        crc: impl FnOnce() -> Result<Option<u32>, E> + Send + 'static,
    ) -> Self {
        let read = move || match crc() {
            Ok(crc) => Ok(crc.map(|crc| Stretch { from, to, crc })),
            Err(error) => Err(error.to_string()),
        };
        Self(spawn_blocking(read))
    }
}

/// Waits for the result of `reading`; forever while none is in progress.
///
/// # Cancel safety
/// Dropping the future loses nothing.
pub(crate) async fn read(reading: &mut Option<Reading>) -> StretchRead {
    let Some(one) = reading else { return std::future::pending().await };
    let found = (&mut one.0).await;
    *reading = None;
    found.unwrap_or(Ok(None))
}

/// Waits for the result of `summing`; forever while none is in progress. Returns `None` if the sums could not be
/// computed: then there is nothing to compare.
///
/// # Cancel safety
/// Dropping the future loses nothing.
pub(crate) async fn summed(summing: &mut Option<Summing>) -> Option<(Lsn, Vec<(u32, u64)>)> {
    let Some(one) = summing else { return std::future::pending().await };
    let (at, sums) = (one.at, (&mut one.sums).await);
    *summing = None;
    sums.ok().map(|sums| (at, sums))
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// The position of the comparison.
    pub(crate) at: Lsn,
    /// The lowest family that differs, with the replica's sum and the primary's.
    pub(crate) differs: Option<(u32, u64, u64)>,
}

/// The replica's side of a comparison: its own sums, and the primary's as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Comparing {
    own: Option<(Lsn, Vec<(u32, u64)>)>,
    primary: BTreeMap<u32, u64>,
    /// The position of the primary's sums, once all of them have arrived.
    complete: Option<Lsn>,
}

impl Comparing {
    /// Records the replica's own sums.
    pub(crate) fn on_own(&mut self, own: Option<(Lsn, Vec<(u32, u64)>)>) {
        self.own = own;
    }

    /// Records one of the primary's sums.
    ///
    /// # Errors
    /// The packet is not a valid sum.
    pub(crate) fn on_primary(&mut self, verify: &Verify) -> Result<(), LinkError> {
        if verify.from != verify.to {
            return Err(LinkError::Unexpected { what: "position of a sum" });
        }
        if let Some(family) = verify.cf.checked_sub(1) {
            self.primary.insert(family, verify.result);
            return Ok(());
        }
        if u64::try_from(self.primary.len()).ok() != Some(verify.result) {
            return Err(LinkError::Unexpected { what: "number of sums" });
        }
        self.complete = Some(verify.to);
        Ok(())
    }

    /// Discards the previous comparison, because a new question has arrived.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the result of the comparison once the sums of both sides are present (C1, C2).
    pub(crate) fn verdict(&mut self) -> Option<Compared> {
        let at = self.complete.filter(|at| self.own.as_ref().is_some_and(|(own, _)| own == at))?;
        let (_, own) = self.own.take()?;
        let primary = std::mem::take(&mut self.primary);
        self.complete = None;
        let mut differing: Vec<(u32, u64, u64)> = own
            .into_iter()
            .filter_map(|(cf, own)| {
                primary.get(&cf).filter(|primary| **primary != own).map(|primary| (cf, own, *primary))
            })
            .collect();
        differing.sort_unstable();
        Some(Compared { at, differs: differing.first().copied() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(at: u64, sums: &[(u32, u64)]) -> Vec<Verify> {
        let verify = |packet| match packet {
            Packet::Verify(verify) => verify,
            other => panic!("{other:?}"),
        };
        answers(Lsn::new(at), sums).map(verify).collect()
    }

    /// Goal: C1 and C2. Method: equal sums, families of one side only, a sum that differs, another position; the
    /// replica's own sums first and last.
    #[test]
    fn sums_of_both_sides_at_one_position_are_compared() {
        let at = Lsn::new(5000);
        let compare = |own: &[(u32, u64)], primary: &[(u32, u64)], own_at: u64| {
            let mut verdicts = [None, None];
            for (own_first, verdict) in [true, false].into_iter().zip(&mut verdicts) {
                let mut comparing = Comparing::default();
                let own = Some((Lsn::new(own_at), own.to_vec()));
                if own_first {
                    comparing.on_own(own.clone());
                }
                for verify in told(5000, primary) {
                    assert_eq!(comparing.verdict(), None, "the last has not come");
                    comparing.on_primary(&verify).unwrap();
                }
                if !own_first {
                    assert_eq!(comparing.verdict(), None, "the replica is not ready");
                    comparing.on_own(own);
                }
                *verdict = comparing.verdict();
            }
            assert_eq!(verdicts[0], verdicts[1]);
            verdicts[0]
        };
        assert_eq!(compare(&[(0, 7), (2, 8)], &[(0, 7), (2, 8)], 5000), Some(Compared { at, differs: None }));
        assert_eq!(compare(&[(1, 7), (3, 9)], &[(1, 7), (2, 8)], 5000), Some(Compared { at, differs: None }));
        assert_eq!(
            compare(&[(2, 5), (1, 6)], &[(1, 7), (2, 8)], 5000),
            Some(Compared { at, differs: Some((1, 6, 7)) })
        );
        assert_eq!(compare(&[(1, 6)], &[(1, 7)], 4999), None);
    }

    /// Goal: impossible sums are refused. Method: a wrong number of sums, and two different positions in one
    /// packet.
    #[test]
    fn sums_that_cannot_be_are_refused() {
        let mut comparing = Comparing::default();
        let mut all = told(5000, &[(1, 7), (2, 8)]);
        let last = all.pop().unwrap();
        assert!(comparing.on_primary(&last).is_err());
        assert!(comparing.on_primary(&Verify { from: Lsn::new(1), ..all[0] }).is_err());
    }

    /// Goal: a stretch of log is sent as it was summed up, and an impossible one is refused. Method: a round trip;
    /// an empty stretch, one that ends before it begins, one with a family, and a sum that is not a CRC-32C.
    #[test]
    fn stretches_of_log_that_cannot_be_are_refused() {
        let stretch = Stretch { from: Lsn::new(4096), to: Lsn::new(5000), crc: u32::MAX };
        let Packet::Verify(verify) = stretch.packet() else { panic!("{stretch:?}") };
        assert_eq!(Stretch::of(&verify).unwrap(), stretch);
        for wrong in [
            Verify { to: verify.from, ..verify },
            Verify { to: Lsn::new(1), ..verify },
            Verify { cf: 1, ..verify },
            Verify { result: 1 << 32, ..verify },
        ] {
            assert!(Stretch::of(&wrong).is_err(), "{wrong:?}");
        }
    }
}
