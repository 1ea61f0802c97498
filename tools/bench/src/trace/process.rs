//! The child's side: requests on standard input, answers on standard output, one line each.
//!
//! | request                       | answers                                                                       |
//! |-------------------------------|-------------------------------------------------------------------------------|
//! | none, at the start            | `ready`                                                                       |
//! | `count THREAD WINDOWS`        | `attached`; `counted I,A,X,O,S,M ...`, one group per window                   |
//! | `learn THREAD`                | `attached`; `learned COUNT`: allocator addresses, run in the first window only |
//! | `has PLACE`                   | `yes` or `no`                                                                 |
//! | `hold THREAD PLACE MILLIS`    | `attached`; `held`; then `told` (after `go`) or `expired`; or `missed`        |
//! | `hold ... step`               | as above, but single-stepping, with no further answer                         |
//!
//! Any of these may be `refused WHY` instead; then the thread continues. Places refer to the last counted window.

use std::{collections::BTreeSet, fs::File, io, os::fd::AsFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{
    instruction::Kind,
    tracee::Tracee,
    tracer::{read_line, write_line},
    window::{Counts, Place, Window},
};

/// Steps after which a thread that has not reached its mark is released: far beyond any append.
const STEPS_MAX: usize = 4_000_000;

/// The two ends of the connection.
struct Talk {
    from: File,
    to: File,
}

impl Talk {
    fn open() -> io::Result<Self> {
        let of = |end: io::Result<std::os::fd::OwnedFd>| end.map(File::from);
        Ok(Self {
            from: of(io::stdin().as_fd().try_clone_to_owned())?,
            to: of(io::stdout().as_fd().try_clone_to_owned())?,
        })
    }

    fn say(&self, line: &str) -> io::Result<()> {
        write_line(&self.to, line)
    }

    /// Waits at most `millis` for a line; returns whether there is one, or the end of the input.
    fn is_told_within(&self, millis: u32) -> io::Result<bool> {
        let mut ends = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        Ok(poll(&mut ends, limit)? > 0)
    }
}

/// Answers until the input ends.
pub(super) fn serve() -> anyhow::Result<()> {
    let (talk, mut window, mut allocator) = (Talk::open()?, Window::default(), BTreeSet::new());
    // On its own line, regardless of what a test runner has printed.
    talk.say("\nready")?;
    while let Some(line) = read_line(&talk.from)? {
        let words: Vec<&str> = line.split(' ').collect();
        let done = match words[..] {
            ["go"] => Ok(()),
            ["count", thread, windows] => count(&talk, (&mut window, &allocator), thread.parse()?, windows.parse()?),
            ["learn", thread] => learn(&talk, &mut allocator, thread.parse()?),
            ["has", place] => {
                let has = window.stop(place_of(place)?).is_some();
                talk.say(if has { "yes" } else { "no" })
            }
            ["hold", thread, place, millis, ref rest @ ..] => {
                let place = place_of(place)?;
                hold(&talk, &window, thread.parse()?, place, millis.parse()?, rest == ["step"])
            }
            _ => anyhow::bail!("not a request: {line}"),
        };
        if let Err(error) = done {
            talk.say(&format!("refused {error}"))?;
        }
    }
    Ok(())
}

fn place_of(name: &str) -> anyhow::Result<Place> {
    let place = Place::ALL.into_iter().find(|known| known.name() == name);
    place.ok_or_else(|| anyhow::anyhow!("no such place: {name}"))
}

/// Steps to the next mark and over it; returns its address.
fn to_mark(tracee: &mut Tracee, mut on_step: impl FnMut(&mut Tracee, u64) -> io::Result<()>) -> io::Result<u64> {
    for _ in 0..STEPS_MAX {
        let at = tracee.at()?;
        if tracee.instruction(at)?.kind == Kind::Mark {
            tracee.step()?;
            return Ok(at);
        }
        on_step(tracee, at)?;
    }
    Err(io::Error::other("the thread came to no mark"))
}

fn step_over(tracee: &mut Tracee, _at: u64) -> io::Result<()> {
    tracee.step()
}

/// Steps from the mark just passed to the next one.
fn watch(tracee: &mut Tracee, begin: u64) -> io::Result<Window> {
    let mut window = Window::begin(begin);
    // The address of the word that was exchanged last, and its value after the exchange.
    let mut exchanged = None;
    window.end = to_mark(tracee, |tracee, at| {
        let instruction = tracee.instruction(at)?;
        let target = instruction.operand.map(|operand| tracee.operand(at, operand)).transpose()?;
        window.push(at, instruction.kind, instruction.repeats);
        tracee.step()?;
        if let Some(target) = target {
            exchanged = Some((target, tracee.word(target)?));
        } else if let Some((target, value)) = exchanged
            && tracee.word(target)? != value
        {
            window.whitened();
            exchanged = None;
        }
        Ok(())
    })?;
    Ok(window)
}

/// Watches one window with an allocation and the same one without it.
fn learn(talk: &Talk, allocator: &mut BTreeSet<u64>, thread: i32) -> io::Result<()> {
    let mut tracee = Tracee::attach(thread)?;
    talk.say("attached")?;
    let mut next = || -> io::Result<BTreeSet<u64>> {
        let begin = to_mark(&mut tracee, step_over)?;
        Ok(watch(&mut tracee, begin)?.addresses())
    };
    let (with, without) = (next()?, next()?);
    *allocator = &with - &without;
    drop(tracee);
    talk.say(&format!("learned {}", allocator.len()))
}

fn count(talk: &Talk, (last, allocator): (&mut Window, &BTreeSet<u64>), thread: i32, windows: usize) -> io::Result<()> {
    let mut tracee = Tracee::attach(thread)?;
    talk.say("attached")?;
    let mut line = "counted".to_owned();
    for _ in 0..windows {
        let begin = to_mark(&mut tracee, step_over)?;
        *last = watch(&mut tracee, begin)?;
        let Counts { instructions, adds, exchanges, others, system_calls, allocator } = last.counts(allocator);
        line.push_str(&format!(" {instructions},{adds},{exchanges},{others},{system_calls},{allocator}"));
    }
    // Detach before the answer: its reader may check whether the thread is traced.
    drop(tracee);
    talk.say(&line)
}

/// Brings the thread to the place; returns `false` if it reached the end without passing it.
fn bring(tracee: &mut Tracee, window: &Window, place: Place) -> io::Result<bool> {
    let stop = window.stop(place).ok_or_else(|| io::Error::other(format!("no place {} in it", place.name())))?;
    tracee.break_at(&[window.begin])?;
    tracee.run()?;
    for pass in 0..=stop.passes {
        if pass > 0 {
            tracee.break_at(&[])?;
            tracee.step()?;
        }
        tracee.break_at(&[stop.address, window.end])?;
        tracee.run()?;
        if tracee.at()? == window.end {
            return Ok(false);
        }
    }
    tracee.break_at(&[])?;
    for _ in 0..stop.steps {
        if tracee.at()? == window.end {
            return Ok(false);
        }
        tracee.step()?;
    }
    Ok(true)
}

fn hold(talk: &Talk, window: &Window, thread: i32, place: Place, millis: u32, steps: bool) -> io::Result<()> {
    let mut tracee = Tracee::attach(thread)?;
    talk.say("attached")?;
    if steps {
        // For the test that kills this process between two steps.
        to_mark(&mut tracee, step_over)?;
        loop {
            tracee.step()?;
        }
    }
    if !bring(&mut tracee, window, place)? {
        drop(tracee);
        return talk.say("missed");
    }
    talk.say("held")?;
    let told = talk.is_told_within(millis)?;
    drop(tracee);
    if told {
        read_line(&talk.from)?;
    }
    talk.say(if told { "told" } else { "expired" })
}
