//! Tokens that nobody here made, from `../shared/vectors` beside the repository, where it is present.

#![allow(clippy::unwrap_used, reason = "all of this file is a test, its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

use filter_api::Moment;
use foregate_cli::jwt::vectors;
use jwt_simple::prelude::Clock;

#[test]
fn outside_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: no outside vectors at ../shared/vectors");
        return;
    };
    let wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("jwt_") && name.ends_with(".json")
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(wanted).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no jwt_*.json", folder.display());
    let clock = Clock::now_since_epoch().as_secs();
    let mut differing = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let summary = vectors::run(&vectors::parse(&text).unwrap(), Moment::at(clock));
        println!("{}: {} of {} as expected", file.display(), summary.as_expected, summary.total);
        differing.extend(summary.differences);
    }
    assert!(differing.is_empty(), "{differing:#?}");
}
