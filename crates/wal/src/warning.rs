//! `Warnings`: where the log says what an operator should read while it runs: spares run out, a device stalls, a file
//! failed.
//!
//! One line per event, without a time stamp and without a line end. Never on the path of a commit that goes well.
//!
//! # Invariants
//! - A1. A line is noted where something is noticed, perhaps in the midst of a flush or under a lock, and told later, by a
//!   thread that holds nothing of the log: after its flush has landed, on a look for stalls, or between two rounds of a
//!   thread of the log.
//! - A2. Lines are told one at a time, in the order in which they were noted.
//! - A3. No more than [`NOTED_MAX`] lines wait; what comes beyond is left out.
//!
//! Checked by `warning_tests`.

use std::{collections::VecDeque, fmt, sync::Arc};

use parking_lot::Mutex;

/// Lines that may wait to be told.
const NOTED_MAX: usize = 1_000;

/// Takes the warnings of a log. By default they go nowhere; [`Stat`](crate::Stat) shows what is wrong now.
///
/// The function is called by whichever thread comes by, one that commits among them, after it has let go of everything: it
/// may call the log, also to wait for something durable. It should return soon, and must not close the log nor drop its
/// last handle. A log without threads tells what it has to say after a flush and on [`Log::tick`](crate::Log::tick).
#[derive(Clone, Default)]
pub struct Warnings(Option<Arc<Said>>);

struct Said {
    take: Box<dyn Fn(&str) + Send + Sync>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    lines: VecDeque<String>,
    /// Whether a thread is telling: it tells what is noted meanwhile too (A2).
    telling: bool,
}

/// Lets the next one tell, also after a panic in the function.
struct Telling<'a>(&'a Mutex<Noted>);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.lock().telling = false;
    }
}

impl Warnings {
    /// Sends each line to `take`.
    pub fn to(take: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Said { take: Box::new(take), noted: Mutex::default() })))
    }

    /// Tells a line that is not the log's own. Call it with nothing held.
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

    /// Tells a line, of whoever uses the log. Call it with nothing held.
    pub fn say(&self, line: impl Into<String>) {
        self.note(line);
        self.tell();
    }

    /// Tells what was noted. Call it with nothing held.
    pub(crate) fn tell(&self) {
        let Some(said) = &self.0 else { return };
        // Also a call of `take` may come here.
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
                // Under the lock, so that who notes one now tells it.
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
