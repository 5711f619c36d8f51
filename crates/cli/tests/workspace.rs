//! Guards the shape of the workspace: who may use whom, and that every source file says what it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The internal crates that each crate may use, as ARCHITECTURE.md draws them.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("config", &[]),
    ("optim", &[]),
    ("wire", &[]),
    ("provision", &[]),
    ("watch", &[]),
    ("nn", &["config"]),
    ("pserver", &["wire", "optim"]),
    ("launch", &["wire"]),
    ("trainer", &["config", "nn", "optim", "wire"]),
    (
        "cli",
        &[
            "config",
            "launch",
            "nn",
            "optim",
            "provision",
            "pserver",
            "trainer",
            "watch",
            "wire",
        ],
    ),
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("crates/ is above this crate")
        .to_owned()
}

/// Internal crates that a manifest names among its normal dependencies.
fn used(manifest: &str) -> Vec<String> {
    let normal = manifest
        .split("\n[")
        .filter(|section| section.starts_with("dependencies]"));
    normal
        .flat_map(str::lines)
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| ALLOWED.iter().any(|(krate, _)| krate == name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_use_only_what_lies_below_them() {
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let mut seen = 0;
    for entry in fs::read_dir(crates()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap();
        let may = allowed[name.as_str()];
        for used in used(&manifest) {
            assert!(
                may.contains(&used.as_str()),
                "{name} must not use {used}; see ARCHITECTURE.md"
            );
        }
        seen += 1;
    }
    assert_eq!(seen, ALLOWED.len());
}

#[test]
fn every_source_file_opens_with_a_head() {
    let mut without = Vec::new();
    visit(&crates(), &mut |path| {
        let text = fs::read_to_string(path).unwrap();
        if !text.starts_with("//!") {
            without.push(path.to_owned());
        }
    });
    assert!(without.is_empty(), "no head: {without:?}");
}

fn visit(directory: &Path, look: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
            visit(&path, look);
        } else if path.extension().is_some_and(|e| e == "rs") {
            look(&path);
        }
    }
}
