//! Returns unused memory to the operating system while the process is near the memory that it can have.
//!
//! jemalloc keeps freed pages for ten seconds, separately for each of its arenas: a thread does not reuse the pages
//! that a thread of another arena has freed. Where a control group limits the process, a statement that fills memory
//! just after another one has freed as much can therefore end the process. So a thread watches the resident memory, and
//! makes every arena return its unused pages whenever that has grown and more than half of the possible memory is in
//! use. Pages that are needed again cost page faults after that, which is why jemalloc keeps them while memory is
//! plentiful.
#![expect(unsafe_code, reason = "one call into jemalloc")]

use std::ffi::CString;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use collie_env::{Access, Env, File, machine_memory_bytes};

/// Time between two looks: while at least a quarter of the memory is in use, and while less is.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];

/// The growth, as a fraction of the possible memory, after which unused pages are returned again.
const STEP_SHARE: u64 = 32;

/// Decides when unused pages are returned.
#[derive(Debug)]
struct Watch {
    limit_bytes: u64,
    /// The lowest resident memory since pages were last returned.
    least_bytes: u64,
}

impl Watch {
    /// Takes the resident memory; returns whether unused pages are to be returned now. If so, the caller then calls
    /// [`Watch::returned`].
    fn look(&mut self, resident_bytes: u64) -> bool {
        self.least_bytes = self.least_bytes.min(resident_bytes);
        let has_grown = resident_bytes > self.least_bytes + self.limit_bytes / STEP_SHARE;
        has_grown && resident_bytes > self.limit_bytes / 2
    }

    /// Takes the resident memory after pages were returned.
    fn returned(&mut self, resident_bytes: u64) {
        self.least_bytes = resident_bytes;
    }
}

/// Makes every arena return its unused pages.
fn return_unused() {
    // All arenas: jemalloc's MALLCTL_ARENAS_ALL.
    let name = CString::new("arena.4096.purge").expect("no NUL in it");
    // SAFETY: the name ends with a NUL; nothing is read from or written to this process's memory by this call.
    let _best_effort =
        unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), 0) };
}

/// Returns the resident memory of the process, as the kernel counts it.
fn resident_bytes(statm: &dyn File) -> Option<u64> {
    let mut text = [0; 128];
    let length = statm.read_at(0, &mut text).ok()?;
    let pages: u64 = std::str::from_utf8(&text[..length]).ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Starts the watching thread, if the system reports the memory that the process can have and has.
pub(crate) fn start(env: &Env) {
    let Some(limit_bytes) = machine_memory_bytes(&*env.files) else { return };
    let Ok(statm) = env.files.open(Path::new("/proc/self/statm"), Access::Read) else { return };
    let run = move || {
        let mut watch = Watch { limit_bytes, least_bytes: u64::MAX };
        while let Some(resident) = resident_bytes(&*statm) {
            if watch.look(resident) {
                return_unused();
                watch.returned(resident_bytes(&*statm).unwrap_or(resident));
            }
            std::thread::sleep(LOOK_EVERY[usize::from(resident < limit_bytes / 4)]);
        }
    };
    // Without this thread the process merely needs more memory.
    let _best_effort = std::thread::Builder::new().name("collie-memory".to_owned()).spawn(run);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: unused pages are returned when memory has grown and is above half of the possible, and not again before it
    /// grows again. Method: the decisions over a series of sizes.
    #[test]
    fn pages_are_returned_at_growth_above_half() {
        let mut watch = Watch { limit_bytes: 3_200, least_bytes: u64::MAX };
        assert!(![1_000, 1_500, 1_600].into_iter().any(|bytes| watch.look(bytes)), "at most half");
        assert!(watch.look(1_601));
        watch.returned(1_601);
        assert!(!watch.look(1_701), "all of it is in use, and it has hardly grown");
        assert!(watch.look(1_702));
        watch.returned(900);
        assert!(!watch.look(1_600) && watch.look(1_650));
    }

    /// Goal: freed memory leaves the process at once when it is returned. Method: 64 MiB in small blocks, allocated and
    /// freed on a thread; resident memory before and after.
    #[test]
    fn freed_memory_leaves_the_process_when_it_is_returned() {
        const BYTES: u64 = 64 << 20;
        let statm = Env::real().files.open(Path::new("/proc/self/statm"), Access::Read).expect("Linux has it");
        let filled = std::thread::spawn(move || {
            let blocks: Vec<Vec<u8>> = (0..BYTES / 512).map(|_| vec![1; 512]).collect();
            let resident = resident_bytes(&*statm).expect("the kernel counts");
            drop(blocks);
            return_unused();
            (resident, resident_bytes(&*statm).expect("the kernel counts"))
        });
        let (before, after) = filled.join().expect("it ends");
        assert!(after + BYTES / 2 < before, "{after} bytes after {before}");
    }
}
