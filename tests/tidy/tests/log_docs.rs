//! The documentation of the log's public functions: how they may fail, what survives a crash, and what they wait for.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The types through which callers use a running log: each of their functions documents what it waits for.
const HANDLES: [&str; 8] = ["Log", "LogPin", "Writer", "Tail", "Shipper", "Follower", "Records", "Lead"];

/// The words with which `# Progress` may begin. The crate's README explains each.
const CLASSES: [&str; 4] = ["Wait-free", "Lock-free", "Short mutexes", "Blocks on"];

/// Functions that change a closed log: they document what survives a crash, like those of the handles.
const CHANGING: [&str; 6] = ["truncate_at", "back_up", "back_up_to", "cut", "repair_copies", "give_new_id"];

/// A public function as it stands in the source.
#[derive(Debug, Default)]
struct Function {
    /// The type of its `impl` block; empty for a free function.
    owner: String,
    name: String,
    fails: bool,
    doc: Vec<String>,
}

impl Function {
    /// Returns the first line under a heading, if the heading is there.
    fn section(&self, heading: &str) -> Option<&str> {
        let at = self.doc.iter().position(|line| line.strip_prefix("# ") == Some(heading))?;
        self.doc.get(at + 1).map(String::as_str)
    }

    /// Returns the sections that its documentation lacks.
    fn lacks(&self) -> Vec<&'static str> {
        let is_handle = HANDLES.contains(&self.owner.as_str());
        let durability = (is_handle && self.fails) || CHANGING.contains(&self.name.as_str());
        let classed = |text: &str| CLASSES.iter().any(|class| text.starts_with(class));
        let mut lacks = Vec::new();
        if self.fails && self.section("Errors").is_none() {
            lacks.push("# Errors");
        }
        if durability && self.section("Durability").is_none() {
            lacks.push("# Durability");
        }
        if (is_handle || self.fails) && !self.section("Progress").is_some_and(classed) {
            lacks.push("# Progress with a class");
        }
        lacks
    }
}

/// Returns the type of an `impl` line.
fn owner_of(line: &str) -> String {
    let head = line.trim_start_matches("impl").split(" {").next().unwrap_or_default();
    let name = head.rsplit(" for ").next().unwrap_or_default().trim();
    name.split(['<', ' ']).next().unwrap_or_default().to_owned()
}

/// Finds the functions that are `pub` without restriction, up to the tests at the end of the file.
fn functions(source: &str) -> Vec<Function> {
    let (mut found, mut owner, mut doc) = (Vec::new(), String::new(), Vec::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        if line == "mod tests {" {
            break;
        } else if line.starts_with("impl") {
            owner = owner_of(line);
        } else if line == "}" {
            owner.clear();
        } else if let Some(text) = text.strip_prefix("///") {
            doc.push(text.trim().to_owned());
            continue;
        } else if text.starts_with("#[") {
            continue;
        } else if let Some(rest) = text.strip_prefix("pub fn ").or_else(|| text.strip_prefix("pub async fn ")) {
            let name = rest.split(['(', '<']).next().unwrap_or_default().to_owned();
            let mut signature = rest.to_owned();
            while !signature.contains('{') {
                signature.push_str(lines.next().expect("a function has a body"));
            }
            let fails = signature.rsplit("->").next().is_some_and(|returned| returned.contains("Result<"));
            found.push(Function { owner: owner.clone(), name, fails, doc: std::mem::take(&mut doc) });
        }
        doc.clear();
    }
    found
}

/// Collects the sources of the log, except for its tests and the crash lab.
fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "lab" {
            sources(&path, into);
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
            into.push(path);
        }
    }
}

/// Goal: the documentation of every function of the log states how it may fail, what survives a crash, and what it
/// waits for. Method: every `pub fn` of the crate has `# Errors` and `# Progress` if it returns a `Result`, `#
/// Progress` if it belongs to a handle, and `# Durability` if it belongs to a handle and may fail or if it changes a
/// closed log. `# Progress` begins with a class that the README explains.
#[test]
fn functions_of_the_log_say_errors_durability_and_progress() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/wal"));
    let (mut files, mut seen, mut bad) = (Vec::new(), BTreeSet::new(), Vec::new());
    sources(&root.join("src"), &mut files);
    for path in files {
        for function in functions(&fs::read_to_string(&path).unwrap()) {
            let lacks = function.lacks();
            let full_name = format!("{}::{}", function.owner, function.name);
            if !lacks.is_empty() {
                bad.push(format!("{}: {full_name} lacks {}", path.display(), lacks.join(", ")));
            }
            seen.insert(full_name);
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    for handle in HANDLES {
        assert!(seen.iter().any(|name| name.starts_with(&format!("{handle}::"))), "no function of {handle} was found");
    }
    for name in CHANGING {
        assert!(seen.iter().any(|seen| seen.ends_with(&format!("::{name}"))), "{name} was not found");
    }
    assert!(seen.len() > 60, "only {} functions were found", seen.len());
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    for class in CLASSES {
        assert!(readme.contains(&format!("| {class}")), "the README does not say what {class} means");
    }
}

/// Goal: the check above can fail. Method: sources that lack one section each, and one that lacks none.
#[test]
fn missing_sections_are_noticed() {
    let whole = "impl Log {\n    /// Waits.\n    ///\n    /// # Errors\n    /// `Closed`.\n    ///\n    /// # Durability\n    \
                 /// None.\n    ///\n    /// # Progress\n    /// Blocks on a flush.\n    #[inline]\n    pub fn wait(\n        \
                 &self,\n    ) -> Result<(), WalError> {\n    }\n}\n";
    let lacks = |source: &str| functions(source).iter().flat_map(Function::lacks).collect::<Vec<_>>();
    assert_eq!(functions(whole).len(), 1);
    assert!(lacks(whole).is_empty(), "{:?}", lacks(whole));
    assert_eq!(lacks(&whole.replace("# Errors", "Errors")), ["# Errors"]);
    assert_eq!(lacks(&whole.replace("# Durability", "Durability")), ["# Durability"]);
    assert_eq!(lacks(&whole.replace("Blocks on", "Waits for")), ["# Progress with a class"]);
    assert!(lacks(&whole.replace("pub fn", "pub(crate) fn").replace("# Errors", "")).is_empty());
    let free = whole.replace("impl Log {\n", "").replace("# Durability", "Durability");
    assert!(lacks(&free).is_empty(), "what no handle does need not speak of durability: {:?}", lacks(&free));
    assert_eq!(lacks(&free.replace("wait", "truncate_at")), ["# Durability"]);
}
