//! The contract stays free of the world: no proxy-wasm, clock, randomness, input or output, in
//! this crate or in any that it depends on.

use std::path::Path;
use std::process::Command;

/// Every crate that may stand in the dependency tree. Before adding one, see that it is as pure.
const ALLOWED: [&str; 9] =
    ["filter-api", "itoa", "memchr", "regex-lite", "serde", "serde_core", "serde_json", "smallvec", "zmij"];

#[test]
fn the_dependency_tree_holds_only_known_pure_crates() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "filter-api", "--edges", "normal", "--prefix", "none"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"filter-api") && names.contains(&"serde_json"), "{listed}");
    let strangers: Vec<&&str> = names.iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert!(strangers.is_empty(), "not known to be pure: {strangers:?}");
}

#[test]
fn the_source_names_no_clock_no_randomness_and_no_input_or_output() {
    let banned =
        ["std::time", "std::fs", "std::net", "std::io", "std::env", "std::process", "RandomState", "HashMap"];
    let mut files = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for word in banned {
                assert!(!text.contains(word), "{} names {word}", path.display());
            }
        }
    }
    assert!(files > 10, "only {files} files found");
}
