//! A job of one's own: files that the user keeps beside it stay as they are, and what trains in one process also runs on nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::process::Command;

use common::{CANOE, Folder, said, succeeded};

fn new_job() -> Folder {
    let folder = Folder::empty();
    succeeded(&folder.canoe(&["new", "job"]));
    folder
}

#[test]
fn the_test_of_a_new_job_is_found_by_unittest() {
    let folder = new_job();
    let test = Command::new("python3")
        .args(["-m", "unittest"])
        .env("CANOE", CANOE)
        .current_dir(folder.path("job"))
        .output()
        .unwrap();
    succeeded(&test);
    assert!(said(&test).contains("Ran 2 tests"), "{}", said(&test));
}
