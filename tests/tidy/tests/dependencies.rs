//! The rules for dependencies: licences allowed by deny.toml, from the registry, none from git.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::{collections::BTreeSet, process::Command};

use collie_tidy::root;
use serde_json::Value;

fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo).args(["metadata", "--format-version", "1"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Returns the licences that deny.toml allows.
fn allowed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with("allow = [")).unwrap();
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns whether some choice that the expression offers needs allowed licences only.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let known = |name: &str| allowed.iter().any(|licence| licence == name.trim().trim_matches(['(', ')']));
    let expression = expression.replace('/', " OR ");
    // AND binds tighter than OR; for an OR in brackets inside an AND, one of its parts must be allowed.
    expression.replace(['(', ')'], "").split(" AND ").all(|part| part.split(" OR ").any(known))
        || expression.split(" OR ").any(|part| part.split(" AND ").all(known))
}

/// Goal: no package with an unapproved licence is linked. Method: every package of the lock file is checked against
/// deny.toml.
#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed();
    let mut refused = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        if !is_allowed(licence, &allowed) {
            refused.push(format!("{name}: {licence}"));
        }
    }
    assert!(refused.is_empty(), "not in deny.toml:\n{}", refused.join("\n"));
    assert!(!is_allowed("GPL-3.0-only", &allowed), "the check lets anything pass");
}

/// Goal: builds can be repeated from the registry alone. Method: no package has another source.
#[test]
fn no_dependency_comes_from_git() {
    for package in packages() {
        let source = package["source"].as_str().unwrap_or("path");
        assert!(source == "path" || source.starts_with("registry+"), "{}: {source}", package["name"]);
    }
}

/// Goal: known vulnerabilities of linked packages are checked, and none is ignored without a reason. Method: the
/// configuration that `make deny` uses.
#[test]
fn advisories_are_looked_at() {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let section = text.split_once("[advisories]").unwrap().1;
    let section = section.split("\n[").next().unwrap();
    assert!(section.contains("yanked = \"deny\"") && section.contains("ignore = ["), "{section}");
    let ignored = section.lines().filter(|line| line.contains("RUSTSEC-"));
    assert_eq!(ignored.filter(|line| !line.contains("reason")).count(), 0, "an advisory is ignored without a reason");
    let make = std::fs::read_to_string(root().join("Makefile")).unwrap();
    assert!(make.contains("check --disable-fetch advisories"));
}

/// Returns the names in the first column of a table, several of them separated by commas.
fn rows(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    rows.flat_map(|(names, _)| names.split(", ")).map(str::to_owned).collect()
}

/// Returns the dependencies of a workspace's manifest that come from the registry.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split_once("[workspace.dependencies]\n").unwrap().1.split("\n[").next().unwrap();
    let lines = section.lines().filter_map(|line| line.split_once(" = "));
    lines.filter(|(_, value)| !value.contains("path = ")).map(|(name, _)| name.to_owned()).collect()
}

/// Goal: each dependency has a reason, a licence and a way out. Method: the record on dependencies has a line for each
/// in the root manifest, and for no other.
#[test]
fn every_dependency_has_a_line_in_the_record() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let mut recorded = rows(&read("docs/decisions/0002-dependencies.md"));
    assert!(recorded.remove("crate"), "the record has no table");
    let used = dependencies(&read("Cargo.toml"));
    assert!(used.len() > 30, "only {} dependencies were found", used.len());
    assert_eq!(recorded, used, "docs/decisions/0002-dependencies.md differs from Cargo.toml");
}

/// Goal: the check above can fail. Method: a manifest and a table that differ.
#[test]
fn a_dependency_without_a_line_is_noticed() {
    let manifest =
        "[x]\n[workspace.dependencies]\na-b = { path = \"a\" }\nc = \"1\"\nd = { version = \"2\" }\n\n[y]\ne = \"1\"";
    let used = dependencies(manifest);
    assert_eq!(used, BTreeSet::from(["c".to_owned(), "d".to_owned()]));
    assert_eq!(rows("Text\n| c, d | why |\n"), used);
    assert_ne!(rows("| c | why |\n"), used);
}
