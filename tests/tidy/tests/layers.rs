//! The layers of ARCHITECTURE.md: a crate depends only on crates of a strictly lower layer.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::{collections::BTreeMap, path::Path, process::Command};

use collie_tidy::root;
use serde_json::Value;

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the layer of each crate of the workspace, by name.
fn layers(metadata: &Value) -> BTreeMap<String, u64> {
    let packages = metadata["packages"].as_array().unwrap();
    let layer = |package: &Value| {
        let name = package["name"].as_str().unwrap().to_owned();
        let layer = package["metadata"]["collie"]["layer"].as_u64();
        (name.clone(), layer.unwrap_or_else(|| panic!("{name} has no package.metadata.collie.layer")))
    };
    packages.iter().map(layer).collect()
}

/// Returns the dependencies that do not go down, as "a (layer) -> b (layer)".
fn upward(metadata: &Value) -> Vec<String> {
    let layers = layers(metadata);
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let Some(below) = layers.get(other) else { continue };
            if *below >= layers[name] {
                found.push(format!("{name} ({}) -> {other} ({below})", layers[name]));
            }
        }
    }
    found
}

/// Goal: no crate depends on a crate of its own layer or of a higher one. Method: every dependency in `cargo metadata`,
/// including those of tests.
#[test]
fn every_dependency_goes_strictly_down() {
    let found = upward(&metadata());
    assert!(found.is_empty(), "dependencies that are not strictly downward:\n{}", found.join("\n"));
}

/// Goal: the check above can fail. Method: the same metadata, with one crate's layer lowered to that of a crate that it
/// needs.
#[test]
fn a_crate_moved_down_is_noticed() {
    let mut metadata = metadata();
    for package in metadata["packages"].as_array_mut().unwrap() {
        if package["name"] == "collie-engine" {
            package["metadata"]["collie"]["layer"] = Value::from(2);
        }
    }
    assert!(upward(&metadata).iter().any(|edge| edge.starts_with("collie-engine (2) -> ")));
}

/// Goal: the map is complete. Method: ARCHITECTURE.md names the folder of every crate of the workspace.
#[test]
fn every_crate_is_on_the_map() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for package in metadata()["packages"].as_array().unwrap() {
        let folder = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        let folder = folder.strip_prefix(root().canonicalize().unwrap()).unwrap_or(folder);
        let name = format!("`{}`", folder.display());
        assert!(map.contains(&name), "ARCHITECTURE.md does not name {name}");
    }
}
