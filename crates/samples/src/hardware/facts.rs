//! `Facts`: what a machine says of itself.

use std::{fmt, path::Path};

use collie_base::checksum::crc32c;
use collie_env::{Access, Files};

/// More than any of the kernel's files that are read has.
const FILE_BYTES_MAX: usize = 256 << 10;

/// Names and sizes; empty or 0 where they are not told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The processor's name.
    pub cpu: String,
    /// Physical cores.
    pub cores: u32,
    /// What runs at one time: cores, or twice as many.
    pub threads: u32,
    /// Sizes of the first processor's caches, such as `32K 512K 16384K`.
    pub caches: String,
    /// Memory in GiB, rounded.
    pub memory_gib: u32,
    /// Nodes of memory.
    pub numa_nodes: u32,
    /// `rotating` or `solid`, of the disk that holds the data.
    pub disk: String,
    /// The kernel's release.
    pub kernel: String,
    /// Whether a hypervisor runs it.
    pub is_virtual: bool,
}

fn read(files: &dyn Files, path: impl AsRef<Path>) -> String {
    let mut bytes = vec![0; FILE_BYTES_MAX];
    let count = files.open(path.as_ref(), Access::Read).and_then(|file| file.read_at(0, &mut bytes)).unwrap_or(0);
    bytes.truncate(count);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Returns what follows `key :` in each line that begins with it.
fn values<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| Some(line.strip_prefix(key)?.trim_start().strip_prefix(':')?.trim()))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns whether the disk behind `data` rotates, as the kernel says of it or of the disk that it is a part of.
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
    /// Reads `/proc` and `/sys`; nothing on a simulated disk.
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

    /// Returns a hash of what is said; 0 where nothing is.
    pub(super) fn tag(&self) -> u64 {
        if *self == Self::default() {
            return 0;
        }
        let text = self.to_string();
        // Two checksums over texts that differ at their ends: 64 bits that every version of the program computes alike.
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

    /// Goal: the machine is recognised, and another is not taken for it. Method: read twice; one fact changed; a simulated disk.
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
