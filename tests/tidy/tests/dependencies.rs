//! The rules for dependencies: licences allowed by deny.toml, from the registry, none from git.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::process::Command;

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
