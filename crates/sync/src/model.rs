//! Runs a model with one site weakened (or none) and counts its executions. Exists only under `--cfg loom` and `--cfg
//! shuttle`.
//!
//! A passing model alone proves nothing: assert a minimum for the count, and that each mutant is caught.
//!
//! | | `explore` (loom) | `sample` (shuttle) |
//! |---|---|---|
//! | executions | every one up to a number of preemptions | a given number, drawn by a scheduler from a seed |
//! | memory | weak orderings and fences | sequentially consistent |
//! | size | three threads, a few steps each | what the product does in one run |

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The result of a model run.
#[derive(Debug, PartialEq, Eq)]
pub enum Explored {
    /// Every execution passed; the field is their number.
    Passed(u64),
    /// An execution failed with this message.
    Failed(String),
}

fn text_of(panic: Box<dyn Any + Send>) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "panic without a message".to_owned())
}

/// Counts the executions of `run`, which calls its argument once in each, with the mistake `mutant`.
fn watch(
    mutant: Option<&'static str>,
    model: impl Fn() + Send + Sync + 'static,
    run: impl FnOnce(Box<dyn Fn() + Send + Sync>),
) -> (u64, Result<(), String>) {
    let executions = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&executions);
    super::weaken::set(mutant);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run(Box::new(move || {
            counted.fetch_add(1, Relaxed);
            model();
        }));
    }));
    super::weaken::set(None);
    (executions.load(Relaxed), outcome.map_err(text_of))
}

/// Runs `model` with the mistake `mutant` in every interleaving with at most `preemptions` forced switches.
#[cfg(loom)]
pub fn explore(mutant: Option<&'static str>, preemptions: usize, model: impl Fn() + Send + Sync + 'static) -> Explored {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 200_000;
    builder.preemption_bound = Some(preemptions);
    match watch(mutant, model, |counted| builder.check(counted)) {
        (executions, Ok(())) => Explored::Passed(executions),
        (_, Err(message)) => Explored::Failed(message),
    }
}

#[cfg(loom)]
pub use bounded::{Mistake, bounds, check, check_variant, is_long};

#[cfg(loom)]
mod bounded {
    use super::{Explored, explore};

    /// A mistake, the preemption bound at which it shows, and a part of the expected message.
    pub type Mistake = (&'static str, usize, &'static str);

    /// Returns whether the long form of the models is requested (`LOOM_LONG`).
    #[must_use]
    pub fn is_long() -> bool {
        std::env::var_os("LOOM_LONG").is_some()
    }

    /// Returns the preemptions and the minimum of executions of the requested form, short or long.
    #[must_use]
    pub fn bounds(short: (usize, u64), long: (usize, u64)) -> (usize, u64) {
        if is_long() { long } else { short }
    }

    /// Runs `model` without a mistake, which must pass in `floor` executions or more, and with each of `mistakes`,
    /// which must fail with the expected message.
    ///
    /// # Panics
    /// If one of these does not hold; the message says which.
    pub fn check(
        name: &str,
        model: impl Fn() + Copy + Send + Sync + 'static,
        preemptions: usize,
        floor: u64,
        mistakes: &[Mistake],
    ) {
        expect_pass(name, None, model, preemptions, floor);
        for (mistake, preemptions, meant) in mistakes {
            match explore(Some(mistake), *preemptions, model) {
                Explored::Passed(executions) => panic!("{name}: {mistake} goes unnoticed in {executions} executions"),
                Explored::Failed(message) => {
                    assert!(message.contains(meant), "{name}: {mistake} is caught, but not by {meant:?}: {message}");
                    eprintln!("{name}: {mistake}: caught");
                }
            }
        }
    }

    /// Runs a variant of a model that must pass as well.
    ///
    /// # Panics
    /// If it fails, or takes fewer executions than `floor`.
    pub fn check_variant(
        name: &str,
        variant: &'static str,
        model: impl Fn() + Send + Sync + 'static,
        preemptions: usize,
        floor: u64,
    ) {
        expect_pass(&format!("{name}, {variant}"), Some(variant), model, preemptions, floor);
    }

    fn expect_pass(
        name: &str,
        variant: Option<&'static str>,
        model: impl Fn() + Send + Sync + 'static,
        preemptions: usize,
        floor: u64,
    ) {
        match explore(variant, preemptions, model) {
            Explored::Passed(executions) => {
                eprintln!("{name}: {executions} executions with at most {preemptions} preemptions");
                assert!(
                    executions >= floor,
                    "{name}: only {executions} executions: the model hides an access from loom"
                );
            }
            Explored::Failed(message) => panic!("{name}: the correct model fails: {message}"),
        }
    }
}

#[cfg(all(shuttle, not(loom)))]
pub use sampling::{Draw, below, sample};

#[cfg(all(shuttle, not(loom)))]
mod sampling {
    use super::{Explored, watch};
    use shuttle::{
        Config, FailurePersistence, MaxSteps, Runner,
        rand::{Rng, thread_rng},
        scheduler::{PctScheduler, RandomScheduler},
    };
    use std::{cell::RefCell, panic, sync::Once};

    std::thread_local! {
        /// The message of the first panic since the last run began. A panic next to a lock ends in a panic of the
        /// checker.
        static FIRST: RefCell<Option<String>> = const { RefCell::new(None) };
    }

    /// Installs a hook that stores the message of the first panic in `FIRST`.
    fn listen() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let next = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                FIRST.with_borrow_mut(|first| {
                    first.get_or_insert_with(|| info.payload_as_str().unwrap_or("no message").to_owned());
                });
                next(info);
            }));
        });
        FIRST.set(None);
    }

    /// Stack of a model's thread, in bytes: a failing assertion formats its message there.
    const STACK_BYTES: usize = 256 << 10;
    /// Number of switches after which an execution counts as one that never ends.
    const STEPS_MAX: usize = 500_000;

    /// The schedules to draw: their kind, number and seed. The same draw gives the same executions.
    #[derive(Clone, Copy, Debug)]
    pub struct Draw {
        /// The seed; the environment's `SHUTTLE_RANDOM_SEED` overrides it.
        pub seed: u64,
        /// `None`: any runnable thread is next. `Some(depth)`: by priorities that change `depth - 1` times (PCT).
        pub depth: Option<usize>,
        /// The number of executions.
        pub executions: usize,
    }

    /// Runs `model` under `draw` with the mistake `mutant`. The message of a failure names the execution.
    pub fn sample(mutant: Option<&'static str>, draw: Draw, model: impl Fn() + Send + Sync + 'static) -> Explored {
        let mut config = Config::new();
        config.stack_size = STACK_BYTES;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        config.ungraceful_shutdown_config.immediately_return_on_panic = true;
        // A mistake fails on purpose: its schedule is of no use.
        config.failure_persistence =
            if mutant.is_some() { FailurePersistence::None } else { FailurePersistence::Print };
        listen();
        let (executions, outcome) = watch(mutant, model, |counted| {
            let _ = match draw.depth {
                None => Runner::new(RandomScheduler::new_from_seed(draw.seed, draw.executions), config).run(counted),
                Some(depth) => {
                    Runner::new(PctScheduler::new_from_seed(draw.seed, depth, draw.executions), config).run(counted)
                }
            };
        });
        match outcome {
            Ok(()) => Explored::Passed(executions),
            Err(last) => {
                let message = FIRST.take().unwrap_or(last);
                Explored::Failed(format!("{message} [execution {executions} of {draw:?}]"))
            }
        }
    }

    /// Returns a number below `end` that the running execution's seed decides.
    ///
    /// # Panics
    /// If `end` is 0, and outside a model.
    pub fn below(end: usize) -> usize {
        thread_rng().gen_range(0..end)
    }
}
