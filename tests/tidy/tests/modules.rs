//! The modules of a crate depend on each other in one direction: what is read first never needs what comes later.
//!
//! A module is a file or a folder next to `lib.rs`. It depends on another one if its code, without tests, names
//! `crate::other`, or an item that `lib.rs` exports from there.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::collections::{BTreeMap, BTreeSet};

use collie_tidy::{root, tracked};

/// The modules that each module of a crate depends on.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns whether a file of a crate's `src` holds code that is no test, model or laboratory.
fn is_product(path: &str) -> bool {
    let is_test = |part: &str| {
        let part = part.trim_end_matches(".rs");
        part.contains("test") || part.contains("loom") || ["lab", "mistakes", "fixture"].contains(&part)
    };
    path.ends_with(".rs") && !["lib.rs", "main.rs"].contains(&path) && !path.split('/').any(is_test)
}

/// Returns the code of a file without comments and without what follows the first module of tests.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    // Modules of tests stand last.
    let ends = ["#[cfg(test)]\nmod ", "#[cfg(test)]\n#[", "#[cfg(all(test"].iter().filter_map(|start| code.find(start));
    let end = ends.filter(|at| code[*at..].contains(" {")).min().unwrap_or(code.len());
    code[..end].to_owned()
}

/// Returns the first segments of the paths that begin with `crate::`, groups included.
fn roots(code: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    found.insert(word(group[start..at].trim_start()));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    found.insert(word(group[start..at].trim_start()));
                    start = at + 1;
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns the module of each item that `lib.rs` exports.
fn exports(lib: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in lib.split(';') {
        let Some((_, path)) = statement.rsplit_once("pub use ") else { continue };
        let module = path.split("::").next().unwrap_or_default().to_owned();
        let names = path.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
        names.for_each(|name| _ = found.entry(name.to_owned()).or_insert_with(|| module.clone()));
    }
    found
}

/// Returns the graph of the modules in `files`: paths below `src`, with their text.
fn graph(files: &[(String, String)]) -> Graph {
    let module = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<String> = files.iter().map(|(path, _)| module(path)).collect();
    let lib = files.iter().find(|(path, _)| path == "lib.rs").map_or("", |(_, text)| text);
    let exports = exports(lib);
    let mut graph = Graph::new();
    for (path, text) in files.iter().filter(|(path, _)| is_product(path)) {
        let from = module(path);
        let to = roots(&code(text)).into_iter().filter_map(|name| match modules.contains(&name) {
            true => Some(name),
            false => exports.get(&name).filter(|module| modules.contains(*module)).cloned(),
        });
        let to: Vec<String> = to.filter(|to| *to != from).collect();
        graph.entry(from).or_default().extend(to);
    }
    graph
}

/// Returns the modules that depend on themselves by way of others.
fn in_cycles(graph: &Graph) -> Vec<&str> {
    let reaches_itself = |module: &String| {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![module]);
        while let Some(next) = todo.pop() {
            for to in graph.get(next).into_iter().flatten() {
                if to == module {
                    return true;
                }
                if seen.insert(to) {
                    todo.push(to);
                }
            }
        }
        false
    };
    graph.keys().filter(|module| reaches_itself(module)).map(String::as_str).collect()
}

fn files_of(krate: &str) -> Vec<(String, String)> {
    let src = format!("crates/{krate}/src/");
    let inside = tracked().unwrap().into_iter().filter_map(|path| {
        let below = path.to_str().unwrap().strip_prefix(&src)?.to_owned();
        Some((below, std::fs::read_to_string(root().join(path)).ok()?))
    });
    inside.collect()
}

/// Goal: no module of a crate depends on itself by way of others. Method: the graph of each crate.
#[test]
fn modules_depend_in_one_direction() {
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let krate = entry.unwrap().file_name().into_string().unwrap();
        let graph = graph(&files_of(&krate));
        let found = in_cycles(&graph);
        if !found.is_empty() {
            wrong.push(format!("{krate}: modules in cycles: {}", found.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "cut the new arrow:\n{}", wrong.join("\n"));
}

/// Goal: the check above can fail. Method: three files, with and without an arrow back, which a group, a full path and
/// an exported item make; comments and tests do not count.
#[test]
fn an_arrow_back_is_noticed() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let below = "// crate::above\n#[cfg(test)]\nmod tests {\n    use crate::above::Top;\n}\n";
    let straight = [
        file("lib.rs", "pub use above::{Top, other::Side};\n"),
        file("below/mod.rs", below),
        file("above.rs", "use crate::{below::{A, B}, Top};\n"),
    ];
    assert_eq!(in_cycles(&graph(&straight)), [""; 0]);
    for back in ["use crate::above::Top;", "use crate::{below, above::Top};", "fn f() { crate::Side::new() }"] {
        let mut files = straight.to_vec();
        files.push(file("below/inner.rs", back));
        assert_eq!(in_cycles(&graph(&files)), ["above", "below"], "{back}");
    }
    assert!(files_of("wal").len() > 50, "the files of a crate are found");
}
