//! `Facts`: the facts that a machine's kernel reports.

use std::{fmt, path::Path};

use collie_base::checksum::crc32c;
use collie_env::{Access, Files};

/// More than the length of any of the kernel's files that are read here.
const FILE_BYTES_MAX: usize = 256 << 10;

/// Names and sizes; empty or 0 if the kernel does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The name of the processor.
    pub cpu: String,
    /// The number of physical cores.
    pub cores: u32,
    /// The number of hardware threads: cores, or twice as many.
    pub threads: u32,
    /// The cache sizes of the first processor, such as `32K 512K 16384K`.
    pub caches: String,
    /// The memory in GiB, rounded.
    pub memory_gib: u32,
    /// The number of NUMA nodes.
    pub numa_nodes: u32,
    /// The kind of the disk that holds the data: `rotating` or `solid`.
    pub disk: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether the machine runs under a hypervisor.
    pub is_virtual: bool,
}

fn read(files: &dyn Files, path: impl AsRef<Path>) -> String {
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let count = files.open(path.as_ref(), Access::Read).and_then(|file| file.read_at(0, &mut bytes)).unwrap_or(0);
    bytes.truncate(count);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Returns the text behind `key :` in each line that begins with it.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| Some(line.strip_prefix(key)?.trim_start().strip_prefix(':')?.trim()))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns whether the disk of `data` rotates, as the kernel reports for the device or for the disk of which it is a
/// part.
fn rotates(files: &dyn Files, data: &Path) -> Option<bool> {
    let device = rustix::fs::stat(data).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let dir = format!("/sys/dev/block/{major}:{minor}");
    let said = ["queue/rotational", "../queue/rotational"].map(|name| read(files, format!("{dir}/{name}")));
    said.iter().find_map(|text| match text.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    })
}

impl Facts {
    /// Reads `/proc` and `/sys`; on a simulated disk it reads nothing.
    pub(super) fn of_machine(files: &dyn Files, data: &Path) -> Self {
        if !files.is_real() {
            return Self::default();
        }
        let cpus = read(files, "/proc/cpuinfo");
        let first = |key| values(&cpus, key).next().unwrap_or_default();
        let threads = values(&cpus, "processor").count();
        let caches = (0..8).map(|index| read(files, format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")));
        let memory_kib = read(files, "/proc/meminfo")
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let nodes = files.list("/sys/devices/system/node".as_ref()).unwrap_or_default();
        let is_node = |name: &&String| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
        let disk = match rotates(files, data) {
            Some(true) => "rotating",
            Some(false) => "solid",
            None => "",
        };
        Self {
            cpu: first("model name").to_owned(),
            cores: first("cpu cores").parse().unwrap_or(0),
            threads: count(threads),
            caches: caches.filter(|size| !size.is_empty()).collect::<Vec<_>>().join(" "),
            memory_gib: u32::try_from((memory_kib.unwrap_or(0) + (1 << 19)) >> 20).unwrap_or(u32::MAX),
            numa_nodes: count(nodes.iter().filter(is_node).count()),
            disk: disk.to_owned(),
            kernel: read(files, "/proc/sys/kernel/osrelease"),
            is_virtual: first("flags").split(' ').any(|flag| flag == "hypervisor"),
        }
    }

    /// Returns a hash of the facts; 0 if there are none.
    pub(super) fn tag(&self) -> u64 {
        if *self == Self::default() {
            return 0;
        }
        let text = self.to_string();
        // Two checksums over texts that differ at their ends give 64 bits that every version of the program computes
        // alike.
        let high = crc32c(format!("1 {text}").as_bytes());
        let low = crc32c(format!("2 {text} {}", text.len()).as_bytes());
        u64::from(high) << 32 | u64::from(low)
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, threads, caches, memory_gib, numa_nodes, disk, kernel, is_virtual } = self;
        write!(f, "cpu={cpu}; cores={cores}; threads={threads}; caches={caches}; memory_gib={memory_gib}; ")?;
        write!(f, "numa_nodes={numa_nodes}; disk={disk}; kernel={kernel}; virtual={is_virtual}")
    }
}

#[cfg(test)]
mod tests {
    use collie_env::{RealFiles, SimFiles};

    use super::*;

    /// Goal: a machine is recognised, and another one is not mistaken for it. Method: the facts are read twice, one of
    /// them is changed, and a simulated disk is read.
    #[test]
    fn tags_tell_machines_apart() {
        let here = Facts::of_machine(&RealFiles, "/tmp".as_ref());
        assert_eq!(here, Facts::of_machine(&RealFiles, "/tmp".as_ref()));
        assert!(here.threads > 0 && here.memory_gib > 0 && !here.kernel.is_empty(), "{here}");
        assert_ne!(here.tag(), 0);
        assert_ne!(here.tag(), Facts { cores: here.cores + 1, ..here.clone() }.tag());
        assert_eq!(Facts::of_machine(&SimFiles::new(), "/tmp".as_ref()).tag(), 0);
    }
}
