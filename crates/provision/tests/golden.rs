//! Renders as they were when a person last looked at them.
//!
//! A difference is either a mistake or a change that users will see in their next change set; then
//! `cargo run -p canoe-provision --example render_matrix DIR` makes the new files to look at and to copy.

use std::fs;
use std::path::Path;

use provision::template::{Render, render};
use provision::{matrix, policy};

fn golden(case: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(case)
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn unchanged(case: &str, file: &str, found: &str) {
    let want = golden(case, file);
    let differs = || difference(&want, found);
    assert!(want == found, "{case}/{file} has changed at {}", differs());
}

/// The first line in which two texts differ, with its number.
fn difference(want: &str, found: &str) -> String {
    let (mut want, mut found) = (want.lines(), found.lines());
    for number in 1.. {
        match (want.next(), found.next()) {
            (None, None) => break,
            (old, new) if old == new => {}
            (old, new) => {
                let [old, new] = [old, new].map(|line| line.unwrap_or("(the end)"));
                return format!("line {number}\n  was: {old}\n  is:  {new}");
            }
        }
    }
    "the last line end".to_owned()
}

#[test]
fn templates_are_as_they_were() {
    for case in [
        "eks-on-demand-new-key-no-dns-2",
        "self-managed-spot-own-key-dns-3",
    ] {
        let (_, spec) = matrix::cases()
            .into_iter()
            .find(|(name, _)| name == case)
            .unwrap();
        for stack in render(&spec, &Render::default()) {
            let file = format!("{}.json", stack.layer.name());
            unchanged(case, &file, &stack.text());
        }
    }
}

#[test]
fn the_policy_is_as_it_was() {
    let case = "eks-on-demand-new-key-no-dns-2";
    let (_, spec) = matrix::cases()
        .into_iter()
        .find(|(name, _)| name == case)
        .unwrap();
    let text = serde_json::to_string_pretty(&policy::operator(&spec, "123456789012")).unwrap();
    unchanged(case, "policy.json", &text);
}
