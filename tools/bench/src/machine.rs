//! `Machine`: where figures were taken, so that they are not compared across machines by accident.

use std::path::Path;

/// The description of the machine that a benchmark ran on.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Machine {
    /// Processors that the process may use.
    pub cores: usize,
    /// Model name of the processor.
    pub processor: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Type of the file system that holds the files.
    pub file_system: String,
    /// Whether the program was built with optimization.
    pub optimized: bool,
}

fn read(path: &str) -> String {
    // Absent outside Linux; then the name is `unknown`.
    std::fs::read_to_string(path).unwrap_or_default()
}

fn or_unknown(text: Option<&str>) -> String {
    text.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("unknown").to_owned()
}

/// Returns the type of the file system of the longest mount point above `dir`, from the text of `mountinfo`.
fn file_system(mountinfo: &str, dir: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, rest) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        dir.starts_with(point).then(|| (point.as_os_str().len(), rest.split(' ').next().unwrap_or("")))
    });
    // Of two mounts at one point, the later covers the earlier (`max_by_key` returns the last maximum).
    let (_, name) = mounts.max_by_key(|(len, _)| *len)?;
    Some(name.to_owned())
}

impl Machine {
    /// Describes this machine and the file system of `dir`.
    pub fn of(dir: &Path) -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(':').nth(1));
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: or_unknown(model),
            kernel: or_unknown(Some(&read("/proc/sys/kernel/osrelease"))),
            file_system: or_unknown(file_system(&read("/proc/self/mountinfo"), &dir).as_deref()),
            optimized: !cfg!(debug_assertions),
        }
    }
}

#[cfg(test)]
impl Machine {
    /// Returns a machine that does not exist.
    pub(crate) fn of_tests() -> Self {
        let (processor, kernel, file_system) = ("p".to_owned(), "k".to_owned(), "f".to_owned());
        Self { cores: 2, processor, kernel, file_system, optimized: true }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cores, processor, kernel, file_system, optimized } = self;
        let build = if *optimized { "" } else { "; DEBUG BUILD, figures mean nothing" };
        write!(f, "{cores} cores, {processor}; kernel {kernel}; {file_system}{build}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the file system is that of the innermost mount. Method: a table with nested and unrelated mounts.
    #[test]
    fn file_system_is_that_of_the_longest_mount_point() {
        let table = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /data rw shared:1 - xfs /dev/b rw\n\
                     3 1 0:6 / /database rw - btrfs /dev/c rw\n";
        assert_eq!(file_system(table, Path::new("/data/log")).unwrap(), "xfs");
        assert_eq!(file_system(table, Path::new("/home")).unwrap(), "ext4");
        assert_eq!(file_system("", Path::new("/")), None);
    }
}
