//! `Target`: a database that the transactions run on; `Session`: a terminal's connection to it.

use thiserror::Error;

use crate::population::Population;
use crate::request::Request;

/// The result that the terminal would display for a transaction that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was rolled back because of the user's mistake.
    pub rolled_back: bool,
    /// The sum of an order or the balance of a customer, in cents.
    pub amount: i64,
    /// Branded items of an order, lines of a displayed order, delivered orders, or items that run short.
    pub count: u32,
}

/// The reason why a transaction failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// A conflict with another transaction (SQLSTATE 40001): the transaction is repeated.
    #[error("refused with 40001")]
    Conflict,
    /// A deadlock (SQLSTATE 40P01): the transaction is repeated.
    #[error("refused with 40P01")]
    Deadlock,
    /// Anything else.
    #[error("{0:#}")]
    Other(anyhow::Error),
}

/// A connection that runs one transaction at a time.
pub trait Session: Send {
    /// Runs a transaction to its end and waits until it is as durable as the target promises. A failed transaction
    /// leaves no effect, and the session accepts the next one.
    ///
    /// # Errors
    /// Why the transaction failed.
    fn run(&mut self, request: &Request) -> Result<Answer, Failure>;
}

/// A database.
pub trait Target: Sync {
    /// The name in tables.
    fn name(&self) -> &str;
    /// Returns how far a commit waits, as named in tables.
    fn level(&self) -> &'static str;
    /// Returns the place of its log in memory.
    fn ring(&self) -> &'static str;
    /// Creates the tables, replacing any with the same names, and loads them with several threads.
    ///
    /// # Errors
    /// Those of the database.
    fn load(&self, population: &Population, threads: usize, say: &(dyn Fn(&str) + Sync)) -> anyhow::Result<()>;
    /// Opens a session.
    ///
    /// # Errors
    /// Those of the database.
    fn connect(&self) -> anyhow::Result<Box<dyn Session>>;
    /// Returns the position of the end of the log, in bytes.
    ///
    /// # Errors
    /// Those of the database.
    fn log_position(&self) -> anyhow::Result<u64>;
}

/// Returns the total that a customer pays for an order, in cents; rates are in ten-thousandths.
pub fn total(sum: i64, discount: i64, warehouse_tax: i64, district_tax: i64) -> i64 {
    sum * (10_000 - discount) / 10_000 * (10_000 + warehouse_tax + district_tax) / 10_000
}

/// Returns the index of the customer that a name selects: the middle, rounded up.
pub const fn middle(count: usize) -> usize {
    count.div_ceil(2) - 1
}

/// Distributes the numbers from 0 to `jobs` over `threads` threads, each number once.
///
/// # Errors
/// The first of a job; the other threads stop at their next one.
pub fn share_out(jobs: u32, threads: usize, work: impl Fn(u32) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    let next = AtomicU32::new(0);
    let run = || loop {
        let job = next.fetch_add(1, Relaxed);
        if job >= jobs {
            return Ok(());
        }
        work(job).inspect_err(|_| next.store(jobs, Relaxed))?;
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("a loading thread panicked"))?)
    })
}
