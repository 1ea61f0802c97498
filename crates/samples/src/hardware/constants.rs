//! `Constants`: the speed of a machine's parts, measured in about a tenth of a second.

use std::{
    fmt,
    hint::black_box,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use collie_env::{Clock, Env};

/// Entries of the table that is chased through and copied: 32 MiB, more than most caches.
const TABLE_ENTRIES: u32 = 1 << 23;
const CHASES: u32 = 50_000;
const OPERATIONS: u32 = 1_000_000;
const CONTENDED_ADDS: u32 = 100_000;
const CALLS: u32 = 10_000;
const ROUND_TRIPS: u32 = 200;
const SYNCS_MAX: usize = 64;
/// The limit of time, so that a slow disk is measured with fewer syncs.
const SYNCS_NS_MAX: u64 = 60_000_000;

/// Eight measured speeds; 0 for one that could not be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Constants {
    /// A dependent multiplication and addition, in ns.
    pub integer_ns: f64,
    /// A load from memory whose address depends on the load before it, in ns.
    pub memory_ns: f64,
    /// The rate of copying large blocks of memory, in GB/s.
    pub copy_gb_per_s: f64,
    /// An addition to a word to which two threads add, in ns.
    pub contended_ns: f64,
    /// A system call without work, in ns.
    pub call_ns: f64,
    /// A sync of 4 KiB to the disk of the data: the median, in us.
    pub sync_us_p50: f64,
    /// The same: the 99th percentile.
    pub sync_us_p99: f64,
    /// A round trip of one byte over the loopback device, in us.
    pub loopback_us: f64,
}

/// Returns the time of one of `count` repetitions of `work`, in ns.
fn each_ns(clock: &dyn Clock, count: u32, work: impl FnOnce()) -> f64 {
    let start = clock.now_ns();
    work();
    clock.now_ns().saturating_sub(start) as f64 / f64::from(count)
}

fn index(entry: u32) -> usize {
    usize::try_from(entry).expect("the table fits memory")
}

fn integers(clock: &dyn Clock) -> f64 {
    each_ns(clock, OPERATIONS, || {
        let mut x = black_box(1_u64);
        for _ in 0..OPERATIONS {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        black_box(x);
    })
}

/// Returns the time of one load of a pointer chase, in ns, and the copying rate, in GB/s, over one table.
fn memory(clock: &dyn Clock) -> (f64, f64) {
    // A generator of full period over 2^23 makes one cycle through all entries.
    let next = |at: u32| at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % TABLE_ENTRIES;
    let mut table: Vec<u32> = (0..TABLE_ENTRIES).map(next).collect();
    let chase_ns = each_ns(clock, CHASES, || {
        let mut at = black_box(0);
        for _ in 0..CHASES {
            at = table[index(at)];
        }
        black_box(at);
    });
    let (from, into) = table.split_at_mut(index(TABLE_ENTRIES / 2));
    let copy_ns = each_ns(clock, 4, || (0..4).for_each(|_| black_box(&mut *into).copy_from_slice(black_box(from))));
    (chase_ns, size_of_val(from) as f64 / copy_ns.max(1.0))
}

fn contended(clock: &dyn Clock) -> f64 {
    let word = AtomicU64::new(0);
    let add = || {
        for _ in 0..CONTENDED_ADDS {
            word.fetch_add(1, Ordering::Relaxed);
        }
    };
    each_ns(clock, 2 * CONTENDED_ADDS, || {
        thread::scope(|scope| {
            scope.spawn(add);
            add();
        });
    })
}

fn calls(clock: &dyn Clock) -> f64 {
    each_ns(clock, CALLS, || {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
    })
}

/// Returns the median and the 99th percentile of syncing a page, in us.
fn syncs(env: &Env, data: &Path) -> Option<(f64, f64)> {
    let path = data.join("samples-sync.tmp");
    // A process that died during its measurement may have left the file.
    let _ = env.files.remove(&path);
    let file = env.files.create(&path).ok()?;
    let page = [0x5A; 4096];
    let start = env.clock.now_ns();
    let mut took_us = Vec::new();
    while took_us.len() < SYNCS_MAX && env.clock.now_ns().saturating_sub(start) < SYNCS_NS_MAX {
        let at = u64::try_from(took_us.len()).expect("few") * 4096;
        let before = env.clock.now_ns();
        if file.write_at(at, &page).and_then(|()| file.sync_data()).is_err() {
            break;
        }
        took_us.push(env.clock.now_ns().saturating_sub(before) as f64 / 1e3);
    }
    drop(file);
    let _ = env.files.remove(&path);
    took_us.sort_by(f64::total_cmp);
    Some((*took_us.get(took_us.len() / 2)?, *took_us.get(took_us.len() * 99 / 100)?))
}

fn loopback(clock: &dyn Clock) -> std::io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while far.read_exact(&mut byte).and_then(|()| far.write_all(&byte)).is_ok() {}
    });
    let mut outcome = Ok(());
    let each = each_ns(clock, ROUND_TRIPS, || {
        let mut byte = [1];
        outcome = (0..ROUND_TRIPS).try_for_each(|_| {
            near.write_all(&byte)?;
            near.read_exact(&mut byte)
        });
    });
    drop(near);
    // The echo thread ends because its peer has closed the connection.
    let _ = echo.join();
    outcome.map(|()| each / 1e3)
}

impl Constants {
    pub(super) fn measure(env: &Env, data: &Path) -> Self {
        let clock = &*env.clock;
        let (memory_ns, copy_gb_per_s) = memory(clock);
        let (sync_us_p50, sync_us_p99) = syncs(env, data).unwrap_or_default();
        Self {
            integer_ns: integers(clock),
            memory_ns,
            copy_gb_per_s,
            contended_ns: contended(clock),
            call_ns: calls(clock),
            sync_us_p50,
            sync_us_p99,
            loopback_us: loopback(clock).unwrap_or(0.0),
        }
    }

    /// Reads the output of `Display`; 0 for a value that is missing or not a number.
    pub(crate) fn parse(text: &str) -> Self {
        let told = |name: &str| {
            let value = text.split(',').find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse().ok()).filter(|value: &f64| value.is_finite()).unwrap_or(0.0)
        };
        let [integer_ns, memory_ns, copy_gb_per_s, contended_ns, call_ns, sync_us_p50, sync_us_p99, loopback_us] =
            Self::default().named().map(|(name, _)| told(name));
        Self { integer_ns, memory_ns, copy_gb_per_s, contended_ns, call_ns, sync_us_p50, sync_us_p99, loopback_us }
    }

    /// Returns the numbers with their names, in the order of files.
    pub const fn named(&self) -> [(&'static str, f64); 8] {
        [
            ("integer_ns", self.integer_ns),
            ("memory_ns", self.memory_ns),
            ("copy_gb_per_s", self.copy_gb_per_s),
            ("contended_ns", self.contended_ns),
            ("call_ns", self.call_ns),
            ("sync_us_p50", self.sync_us_p50),
            ("sync_us_p99", self.sync_us_p99),
            ("loopback_us", self.loopback_us),
        ]
    }
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.named().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={value:.3}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each constant is measured in its unit, and no file is left. Method: measured on this machine, with bounds
    /// that hold for any.
    #[test]
    fn constants_are_those_of_a_machine() {
        let dir = tempfile::tempdir().unwrap();
        let constants = Constants::measure(&Env::real(), dir.path());
        for (name, value) in constants.named() {
            assert!(value > 0.0 && value.is_finite(), "{name} is {value}");
        }
        assert!(constants.integer_ns < constants.loopback_us * 1e3, "{constants}");
        assert!(constants.sync_us_p50 <= constants.sync_us_p99, "{constants}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(constants.to_string().starts_with("integer_ns="));
    }

    /// Goal: the values in a file are read, and missing ones are 0. Method: eight numbers are written and read; then a
    /// text that lacks some of them and has values that are not finite numbers.
    #[test]
    fn constants_read_back() {
        let constants = Constants {
            integer_ns: 1.5,
            memory_ns: 80.25,
            copy_gb_per_s: 9.0,
            contended_ns: 12.0,
            call_ns: 60.0,
            sync_us_p50: 700.0,
            sync_us_p99: 1900.125,
            loopback_us: 17.0,
        };
        assert_eq!(Constants::parse(&constants.to_string()), constants);
        let part = Constants::parse("call_ns=60.000,memory_ns=fast,sync_us_p50=inf,loopback_us=");
        assert_eq!(part, Constants { call_ns: 60.0, ..Constants::default() });
        assert_eq!(Constants::parse(""), Constants::default());
    }
}
