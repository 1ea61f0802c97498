//! `machine_memory_bytes`, `open_files_max`: the memory and the number of open files that the operating system
//! grants this process; `give_way`: lowers the priority of a thread.
//!
//! | file | content |
//! |---|---|
//! | `/proc/meminfo` | the machine's memory, as `MemTotal: N kB` |
//! | `/proc/self/cgroup` | the groups of the process: `0::PATH` (version 2) or `N:..,memory,..:PATH` (version 1) |
//! | `/sys/fs/cgroup/PATH/memory.max` | the limit of a group of version 2, or `max`; each group above it has one too |
//! | `/sys/fs/cgroup/memory/PATH/memory.limit_in_bytes` | the same in version 1 |

use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, getpriority_process, getrlimit, setpriority_process, setrlimit};

use crate::{Access, Files};

/// More than the size of any of these files.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Returns the bytes of memory that the process can have: the machine's, or less where a control group limits it.
/// Returns `None` where the operating system does not say, and on a simulated disk.
///
/// Cost: opens a few files of the kernel.
pub fn machine_memory_bytes(files: &dyn Files) -> Option<u64> {
    let machine = total_bytes(&read(files, Path::new("/proc/meminfo"))?)?;
    let groups = read(files, Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(limit_files).filter_map(|path| read(files, &path)?.trim().parse().ok());
    Some(limits.fold(machine, u64::min))
}

/// Returns how many files the process may have open at one time, after raising the soft limit to the hard one if it
/// may. Returns `None` where the operating system sets no limit, and on a simulated disk.
///
/// Cost: two system calls.
pub fn open_files_max(files: &dyn Files) -> Option<u64> {
    if !files.is_real() {
        return None;
    }
    let limit = getrlimit(Resource::Nofile);
    // The soft limit stays where the kernel refuses the hard one, for instance because there is none and the kernel
    // has its own.
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        Ok(()) => limit.maximum,
        Err(_refused) => limit.current,
    }
}

/// Nice value of a thread that gives way: it gets about a tenth of the time of another thread that wants the same
/// core. With a smaller share, threads that wait for a lock of this thread would wait longer.
const NICE: i32 = 10;

/// Makes the calling thread give way to others from now on, where the operating system can do that. The change
/// cannot be undone.
///
/// Cost: two system calls.
pub fn give_way() {
    // On Linux `None` means the calling thread. If the call is refused, the thread keeps its priority.
    if getpriority_process(None).is_ok_and(|now| now < NICE) {
        let _best_effort = setpriority_process(None, NICE);
    }
}

/// Reads a file of the kernel, which reports no length.
fn read(files: &dyn Files, path: &Path) -> Option<String> {
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let count = files.open(path, Access::Read).ok()?.read_at(0, &mut bytes).ok()?;
    bytes.truncate(count);
    String::from_utf8(bytes).ok()
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the paths of the limits of a group in `/proc/self/cgroup` and of its ancestors.
fn limit_files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':');
    let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let (root, name) = match (number, controllers) {
        ("0", "") => ("/sys/fs/cgroup", "memory.max"),
        (_, some) if some.split(',').any(|one| one == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let group = Path::new(path.trim_start_matches('/'));
    group.ancestors().map(|group| Path::new(root).join(group).join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimFiles;

    fn memory(entries: &[(&str, &str)]) -> Option<u64> {
        let disk = SimFiles::new();
        for (path, text) in entries {
            let path = Path::new(path);
            disk.create_dir_all(path.parent().unwrap()).unwrap();
            disk.create(path).unwrap().write_at(0, text.as_bytes()).unwrap();
        }
        machine_memory_bytes(&disk)
    }

    /// Goal: the lowest of the machine's memory and the limits of the group and its ancestors applies, in both
    /// versions, and missing files give no value. Method: kernels of a few lines.
    #[test]
    fn memory_is_the_lowest_of_the_machine_and_the_groups() {
        assert_eq!(memory(&[]), None);
        let machine = ("/proc/meminfo", "MemTotal:       1000 kB\nMemFree:  1 kB\n");
        assert_eq!(memory(&[machine]), Some(1_024_000));
        let own = ("/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
        let limit = |path, bytes| (path, bytes);
        assert_eq!(memory(&[machine, own]), Some(1_024_000));
        assert_eq!(memory(&[machine, own, limit("/sys/fs/cgroup/a/b/memory.max", "max\n")]), Some(1_024_000));
        assert_eq!(memory(&[machine, own, limit("/sys/fs/cgroup/a/b/memory.max", "7000\n")]), Some(7000));
        assert_eq!(memory(&[machine, own, limit("/sys/fs/cgroup/a/memory.max", "8000\n")]), Some(8000));
        assert_eq!(memory(&[machine, own, limit("/sys/fs/cgroup/memory.max", "9000\n")]), Some(9000));
        let first = ("/proc/self/cgroup", "5:cpu,memory:/job\n");
        let limit = limit("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "6000\n");
        assert_eq!(memory(&[machine, first, limit]), Some(6000));
    }

    /// Goal: the limit of open files is that of the process and stays once raised; a simulated disk has none.
    /// Method: ask twice.
    #[cfg(target_os = "linux")]
    #[test]
    fn limit_of_open_files_is_raised_once() {
        assert_eq!(open_files_max(&SimFiles::new()), None);
        let raised = open_files_max(&crate::RealFiles);
        assert_eq!(open_files_max(&crate::RealFiles), raised);
        let now = getrlimit(Resource::Nofile);
        assert!(raised.is_none_or(|raised| raised > 8 && now.current == Some(raised)), "{raised:?}, {now:?}");
    }

    /// Goal: giving way changes the calling thread and no other. Method: call it on one thread and read the
    /// priority of both.
    #[cfg(target_os = "linux")]
    #[test]
    fn giving_way_is_a_thread_of_its_own() {
        let before = getpriority_process(None).unwrap();
        let there = std::thread::spawn(|| {
            give_way();
            getpriority_process(None).unwrap()
        });
        assert_eq!(there.join().unwrap(), NICE.max(before));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }

    /// Goal: the files of the real kernel can be parsed. Method: ask; a machine that runs this has more than a
    /// megabyte.
    #[cfg(target_os = "linux")]
    #[test]
    fn memory_of_this_machine_is_known() {
        assert!(machine_memory_bytes(&crate::RealFiles).is_some_and(|bytes| bytes > 1 << 20));
    }
}
