//! The crates that programs embed are packages: a fresh program that depends on nothing else builds with what is
//! packed, and runs. `make package` runs this, since it builds the crates once more.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use collie_tidy::root;

/// The packages: those that programs embed, and the ones below them.
const PACKED: [&str; 9] = [
    "collie-base",
    "collie-engine",
    "collie-env",
    "collie-kv",
    "collie-obs",
    "collie-store",
    "collie-sync",
    "collie-txn",
    "collie-wal",
];
const VERSION: &str = "0.1.0";

/// Returns the folder of the packages and of what is built from them, which stays for the next run.
fn target() -> PathBuf {
    let of_build = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(of_build).join("packages")
}

fn cargo(dir: &Path, arguments: &[&str]) -> Output {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo).args(arguments).current_dir(dir).env("CARGO_TARGET_DIR", target()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Packs the crates and unpacks them below `to`, where files that are as before keep their time, so that cargo builds
/// only what changed. (Every file in a package has the same time.)
fn pack(to: &Path) {
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--offline"];
    PACKED.iter().for_each(|name| arguments.extend(["-p", name]));
    cargo(root(), &arguments);
    let fresh = target().join("fresh");
    let _absent = fs::remove_dir_all(&fresh);
    fs::create_dir_all(&fresh).unwrap();
    for name in PACKED {
        let file = target().join(format!("package/{name}-{VERSION}.crate"));
        let unpacked = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&fresh).status().unwrap();
        assert!(unpacked.success(), "{} is no package", file.display());
    }
    mirror(&fresh, to);
}

/// Makes `to` a copy of the folder `from`.
fn mirror(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let names = |dir: &Path| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let wanted = names(from);
    for gone in names(to).iter().filter(|name| !wanted.contains(name)).map(|name| to.join(name)) {
        if gone.is_dir() { fs::remove_dir_all(gone) } else { fs::remove_file(gone) }.unwrap();
    }
    for name in wanted {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() { mirror(&from, &to) } else { write_if_changed(&to, &fs::read(&from).unwrap()) }
    }
}

/// Returns the first program in a text of a README.
fn first_program(readme: &str) -> String {
    let (_, rest) = readme.split_once("```rust").unwrap();
    let (_, code) = rest.split_once('\n').unwrap();
    let (code, _) = code.split_once("```").unwrap();
    assert!(code.contains("fn main()"), "the first example is a whole program: {code}");
    code.to_owned()
}

/// Builds the first program of a package's README as a program that depends on this package only, runs it in an empty
/// directory, and returns its output.
fn output_of_quickstart(unpacked: &Path, name: &str) -> String {
    let program = target().join("quickstart").join(name);
    fs::create_dir_all(program.join("src")).unwrap();
    let package = |name: &str| unpacked.join(format!("{name}-{VERSION}"));
    let mut manifest = format!(
        "[package]\nname = \"quickstart-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{name} = \"{VERSION}\"\n\n[profile.dev]\ndebug = 0\n\n[workspace]\n\n[patch.crates-io]\n"
    );
    for packed in PACKED {
        writeln!(manifest, "{packed} = {{ path = {:?} }}", package(packed)).unwrap();
    }
    write_if_changed(&program.join("Cargo.toml"), manifest.as_bytes());
    let readme = fs::read_to_string(package(name).join("README.md")).unwrap();
    write_if_changed(&program.join("src/main.rs"), first_program(&readme).as_bytes());
    // The same versions as here, so that nothing is fetched.
    fs::copy(root().join("Cargo.lock"), program.join("Cargo.lock")).unwrap();
    cargo(&program, &["build", "--offline", "--quiet"]);
    let dir = program.join("run");
    let _absent = fs::remove_dir_all(&dir);
    fs::create_dir(&dir).unwrap();
    let output = Command::new(target().join(format!("debug/quickstart-{name}"))).current_dir(&dir).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Leaves an equal file as it is, so that nothing is built again for it.
fn write_if_changed(path: &Path, bytes: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return;
    }
    fs::write(path, bytes).unwrap();
}

/// Goal: a program that embeds the log or the key-value engine needs one package, whose first example works. Method:
/// pack the crates, build the first program of each README against the packages, and run it.
#[test]
#[ignore = "builds the packed crates: make package"]
fn packed_crates_build_and_run_their_first_program() {
    let unpacked = target().join("unpacked");
    pack(&unpacked);
    for name in ["collie-kv", "collie-wal"] {
        for file in ["LICENSE", "README.md", "Cargo.toml"] {
            let path = unpacked.join(format!("{name}-{VERSION}")).join(file);
            assert!(path.is_file(), "{name} has no {file}");
        }
    }
    assert_eq!(output_of_quickstart(&unpacked, "collie-kv"), "alice = 1000\nbob = 50\n");
    assert_eq!(output_of_quickstart(&unpacked, "collie-wal"), "tag 1: hello world\ntag 2: both in one call\n");
}
