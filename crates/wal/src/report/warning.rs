//! `Warnings`: the lines for an operator while the log runs: spares run out, a device stalls, a file failed.
//!
//! One line per event, without a time stamp and without a line end. They are never on the path of a commit that goes
//! well.
//!
//! # Invariants
//! - A1. A line is noted where the event is noticed, perhaps in the middle of a flush or under a lock, and delivered
//!   later, by a thread that holds nothing of the log: after its flush has ended, on a check for stalls, or between two
//!   rounds of a thread of the log.
//! - A2. Lines are delivered one at a time, in the order in which they were noted.
//! - A3. No more than [`NOTED_MAX`] lines wait; further ones are dropped.
//!
//! Checked by `tests/warning.rs`.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;

/// Lines that may wait for delivery.
const NOTED_MAX: usize = 1_000;

/// The receiver of a log's warnings. By default they are dropped; [`Stat`](crate::Stat) shows what is wrong now.
///
/// Any thread that uses the log, even one that commits, may call the function, after it has released everything: the
/// function may call the log, also to wait until a record is durable. It should return soon, and must not close the log
/// or drop its last handle. A log without threads delivers its lines after a flush and on
/// [`Log::tick`](crate::Log::tick).
#[derive(Clone, Default)]
pub struct Warnings(Option<Arc<Said>>);

struct Said {
    take: Box<dyn Fn(&str) + Send + Sync>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    lines: VecDeque<String>,
    /// Whether a thread delivers lines: it also delivers those that are noted in the meantime (A2).
    telling: bool,
}

/// Lets the next thread deliver, also after a panic in the function.
struct Telling<'a>(&'a Mutex<Noted>);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.lock().telling = false;
    }
}

impl Warnings {
    /// Passes each line to `take`.
    pub fn to(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Said { take: Box::new(take), noted: Mutex::default() })))
    }

    /// Delivers a line that is not the log's own. The caller must hold nothing of the log.
    pub fn warn(&self, line: impl Into<String>) {
        self.note(line);
        self.tell();
    }

    /// Notes a line (A1).
    pub(crate) fn note(&self, line: impl Into<String>) {
        if let Some(said) = &self.0 {
            let mut noted = said.noted.lock();
            if noted.lines.len() < NOTED_MAX {
                noted.lines.push_back(line.into());
            }
        }
    }

    /// Delivers a line of a user of the log. The caller must hold nothing of the log.
    pub fn say(&self, line: impl Into<String>) {
        self.note(line);
        self.tell();
    }

    /// Delivers the noted lines. The caller must hold nothing of the log.
    pub(crate) fn tell(&self) {
        let Some(said) = &self.0 else { return };
        // A call of `take` may come here too.
        let telling = {
            let mut noted = said.noted.lock();
            if noted.telling || noted.lines.is_empty() {
                return;
            }
            noted.telling = true;
            Telling(&said.noted)
        };
        loop {
            let mut noted = said.noted.lock();
            let Some(line) = noted.lines.pop_front() else {
                // Under the lock, so that a thread that notes a line from now on delivers it.
                noted.telling = false;
                drop(noted);
                std::mem::forget(telling);
                return;
            };
            drop(noted);
            (said.take)(&line);
        }
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Warnings(taken)" } else { "Warnings(none)" })
    }
}
