//! The documents name files that exist, and the words of nothing but the product.

#![allow(clippy::unwrap_used, reason = "all of this file is a test, its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

use xtask::workspace_root;

/// Every document, by its path from the root.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![workspace_root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["target", "dist", ".git"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    assert!(found.len() >= 4, "{found:?}");
    found
}

/// Where the links of a document lead, those to other sites left out.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.starts_with("http"))
}

#[test]
fn every_link_leads_somewhere() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link} leads nowhere", document.display());
            if !anchor.is_empty() {
                let headings = fs::read_to_string(&target).unwrap();
                let found = headings.lines().any(|line| line.starts_with('#') && anchor_of(line) == anchor);
                assert!(found, "{}: no heading for {link}", document.display());
            }
        }
    }
}

/// The anchor that a heading gets.
fn anchor_of(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_')
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_path_that_the_architecture_names_exists() {
    let text = fs::read_to_string(workspace_root().join("ARCHITECTURE.md")).unwrap();
    let quoted = text.split('`').skip(1).step_by(2).map(str::to_owned);
    let map = text.split("```").nth(1).unwrap();
    let mapped = map.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    let is_path = |word: &String| {
        word.contains('/')
            && !word.starts_with("../")
            && !word.contains([' ', '<', '{', '*'])
            && !word.starts_with('/')
    };
    let paths: Vec<String> = quoted.chain(mapped).filter(is_path).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(Path::new(workspace_root()).join(&path).exists(), "ARCHITECTURE.md names {path:?}");
    }
}
