//! `Window`: the instructions that a thread executed between two marks, and the places where an append can be stopped.
//!
//! The places are found from the locked instructions alone. Positions are reserved by the `lock xadd`, or by the
//! exchange that takes the mutex. The last release is that of the flag, by an exchange, or of the mutex, by the last
//! locked instruction. If the exchanged word changes once more, by a plain store, the exchange set STAGED and the
//! store sets white.

/// The number of executed instructions of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// All of them.
    pub(crate) instructions: u64,
    /// `lock xadd`: reservations of positions, on a cache line that all appenders share.
    pub(crate) adds: u64,
    /// Exchanges with memory.
    pub(crate) exchanges: u64,
    /// Any other locked instructions.
    pub(crate) others: u64,
    /// System calls.
    pub(crate) system_calls: u64,
    /// Of all, those in the code that an allocation executed
    /// ([`Tracer::learn_allocator`](super::Tracer::learn_allocator)).
    pub(crate) allocator: u64,
}

impl Counts {
    /// Returns the number of locked instructions.
    pub(crate) fn locked(&self) -> u64 {
        self.adds + self.exchanges + self.others
    }
}

/// A place in an append where its thread can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Right after reserving positions (W2), or taking the mutex under which they are reserved.
    Taken,
    /// Right after the exchange that sets STAGED.
    Staged,
    /// Half-way through the steps that copy the record.
    MidCopy,
    /// Right before the store that sets white, or releases the mutex.
    BeforeWhite,
}

impl Place {
    /// All of them, in the order of an append with helping.
    pub(crate) const ALL: [Self; 4] = [Self::Taken, Self::Staged, Self::MidCopy, Self::BeforeWhite];

    /// Returns its name in rows and requests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Taken => "W2",
            Self::Staged => "STAGED",
            Self::MidCopy => "mid-copy",
            Self::BeforeWhite => "before-white",
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(super) use steps::Window;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod steps {
    use std::collections::BTreeSet;

    use super::{super::instruction::Kind, Counts, Place};

    /// One step of the thread: an instruction, or one iteration of a repeating one.
    #[derive(Clone, Copy, Debug)]
    struct Step {
        at: u64,
        kind: Kind,
        /// Whether it is another iteration of the instruction of the previous step.
        again: bool,
    }

    /// A stop: the thread has passed `address` `passes` times, is there again, and has executed `steps` more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) struct Stop {
        pub(in super::super) address: u64,
        pub(in super::super) passes: usize,
        pub(in super::super) steps: usize,
    }

    /// The steps between two marks.
    #[derive(Clone, Debug, Default)]
    pub(in super::super) struct Window {
        /// Addresses of the marks.
        pub(in super::super) begin: u64,
        pub(in super::super) end: u64,
        steps: Vec<Step>,
        /// The step whose plain store changed the word that the last exchange had changed.
        whitened: Option<usize>,
    }

    impl Window {
        pub(in super::super) fn begin(at: u64) -> Self {
            Self { begin: at, ..Self::default() }
        }

        /// Adds a step.
        pub(in super::super) fn push(&mut self, at: u64, kind: Kind, repeats: bool) {
            let again = repeats && self.steps.last().is_some_and(|last| last.at == at);
            self.steps.push(Step { at, kind, again });
            if kind == Kind::Exchange {
                self.whitened = None;
            }
        }

        /// Records that the last step changed the word that was exchanged before.
        pub(in super::super) fn whitened(&mut self) {
            self.whitened = self.whitened.or(self.steps.len().checked_sub(1));
        }

        /// Counts the steps, and those at addresses in `allocator`.
        pub(in super::super) fn counts(&self, allocator: &BTreeSet<u64>) -> Counts {
            let count = |wanted: &dyn Fn(&Step) -> bool| {
                self.steps.iter().filter(|step| !step.again).filter(|step| wanted(step)).count() as u64
            };
            Counts {
                instructions: count(&|_| true),
                adds: count(&|step| step.kind == Kind::Add),
                exchanges: count(&|step| step.kind == Kind::Exchange),
                others: count(&|step| step.kind == Kind::OtherLocked),
                system_calls: count(&|step| step.kind == Kind::SystemCall),
                allocator: count(&|step| allocator.contains(&step.at)),
            }
        }

        /// Returns the addresses that were executed.
        pub(in super::super) fn addresses(&self) -> BTreeSet<u64> {
            self.steps.iter().map(|step| step.at).collect()
        }

        /// Returns how to stop at `place`, if the append has one.
        pub(in super::super) fn stop(&self, place: Place) -> Option<Stop> {
            let is_locked = |step: &Step| matches!(step.kind, Kind::Add | Kind::Exchange | Kind::OtherLocked);
            let taken = match self.steps.iter().position(|step| step.kind == Kind::Add) {
                Some(add) => add + 1,
                // The exchange can fail, so this is after the jump that is taken then.
                None => {
                    let lock = self.steps.iter().position(is_locked)?;
                    lock + 2 + self.steps[lock + 1..].iter().position(|step| step.kind == Kind::Branch)?
                }
            };
            let staged = self.whitened.and_then(|_| {
                self.steps.iter().rposition(|step| step.kind == Kind::Exchange).map(|exchange| exchange + 1)
            });
            let white = self.whitened.or_else(|| self.steps.iter().rposition(is_locked))?;
            let copy = staged.unwrap_or(taken);
            if white <= copy + 1 {
                // The release is a store that is not recognized.
                return (place == Place::Taken).then(|| self.at(taken, 0)).flatten();
            }
            match place {
                Place::Taken => self.at(taken, 0),
                Place::Staged => self.at(staged?, 0),
                Place::MidCopy => self.at(copy, (white - copy) / 2),
                Place::BeforeWhite => self.at(white, 0),
            }
        }

        fn at(&self, step: usize, more: usize) -> Option<Stop> {
            let address = self.steps.get(step)?.at;
            let passes = self.steps[..step].iter().filter(|earlier| earlier.at == address).count();
            Some(Stop { address, passes, steps: more })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn window(steps: &[(u64, Kind)], whitened: Option<usize>) -> Window {
            let mut window = Window::begin(1);
            for (number, (at, kind)) in steps.iter().enumerate() {
                window.push(*at, *kind, *at == 77);
                if whitened == Some(number) {
                    window.whitened();
                }
            }
            window
        }

        fn stop(address: u64, passes: usize, steps: usize) -> Option<Stop> {
            Some(Stop { address, passes, steps })
        }

        /// Goal: each protocol is stopped at the named places. Method: appends of the three shapes, a dozen steps each.
        #[test]
        fn places_are_found_in_each_shape_of_append() {
            use Kind::{Add, Branch, Exchange, OtherLocked, Plain};
            let lock_free = [
                (10, Plain),
                (11, Add),
                (12, Plain),
                (13, Plain),
                (14, Plain),
                (12, Plain),
                (16, Exchange),
                (17, Plain),
            ];
            let base = window(&lock_free, None);
            let stops = |window: &Window| Place::ALL.map(|place| window.stop(place));
            assert_eq!(stops(&base), [stop(12, 0, 0), None, stop(12, 0, 2), stop(16, 0, 0)]);
            let expected = Counts { instructions: 8, adds: 1, exchanges: 1, ..Counts::default() };
            assert_eq!(base.counts(&BTreeSet::new()), expected);

            let staged = [
                (11, Add),
                (12, Plain),
                (13, Exchange),
                (12, Plain),
                (15, Plain),
                (16, Plain),
                (17, Plain),
                (18, Plain),
            ];
            let help = window(&staged, Some(6));
            assert_eq!(stops(&help), [stop(12, 0, 0), stop(12, 1, 0), stop(12, 1, 1), stop(17, 0, 0)]);

            let locked = [
                (10, OtherLocked),
                (11, Plain),
                (12, Branch),
                (13, Plain),
                (14, Plain),
                (15, Plain),
                (16, OtherLocked),
            ];
            let mutex = window(&locked, None);
            assert_eq!(stops(&mutex), [stop(13, 0, 0), None, stop(13, 0, 1), stop(16, 0, 0)]);
            assert_eq!(mutex.counts(&BTreeSet::new()).locked(), 2);

            // White is set by a store that no exchange announced: only the position is known.
            let linked = window(&[(10, Plain), (11, Add), (12, Plain), (13, Plain)], None);
            assert_eq!(stops(&linked), [stop(12, 0, 0), None, None, None]);
            assert_eq!(stops(&Window::default()), [None; 4]);
        }

        /// Goal: a repeating instruction counts once, a loop counts each time. Method: both.
        #[test]
        fn rounds_of_one_instruction_count_once() {
            use Kind::Plain;
            let steps = [(76, Plain), (77, Plain), (77, Plain), (77, Plain), (78, Plain), (76, Plain), (77, Plain)];
            let none = BTreeSet::new();
            assert_eq!(window(&steps, None).counts(&none).instructions, 5);
            assert_eq!(window(&[(5, Plain), (5, Plain)], None).counts(&none).instructions, 2);
        }

        /// Goal: system calls and steps of the allocator are counted among the others. Method: a window with both.
        #[test]
        fn system_calls_and_steps_of_the_allocator_are_counted() {
            let steps = [(1, Kind::Plain), (2, Kind::SystemCall), (8, Kind::Plain), (9, Kind::Plain)];
            let counts = window(&steps, None).counts(&BTreeSet::from([8, 9, 10]));
            let expected = Counts { instructions: 4, system_calls: 1, allocator: 2, ..Counts::default() };
            assert_eq!(counts, expected);
            assert_eq!(window(&steps, None).addresses(), BTreeSet::from([1, 2, 8, 9]));
        }
    }
}
