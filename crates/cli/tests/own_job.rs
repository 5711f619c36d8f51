//! A job of one's own: files that the user keeps beside it stay as they are, and what trains in one process also runs on nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{CANOE, Folder, failed, said, succeeded};

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

#[test]
fn a_continued_run_keeps_what_its_report_says_of_earlier_passes() {
    let folder = new_job();
    let report = |passes: u32| {
        succeeded(&folder.canoe(&["report", "job"]));
        let html = fs::read_to_string(folder.path("job/output/report.html")).unwrap();
        let samples = format!("<td>{},000</td>", 2 * passes);
        let all = html.contains(&format!(
            "<th scope=\"row\">samples of all trainers</th>{samples}"
        ));
        assert!(all, "{passes}: {}", html.split("<h2>").next().unwrap());
        assert!(html.contains("The job is finished"), "{html}");
    };
    succeeded(&folder.canoe(&["run", "job", "--nodes=2", "--passes=2", "--watch=off"]));
    report(2);
    succeeded(&folder.canoe(&["run", "job", "--nodes=2", "--passes=3", "--watch=off"]));
    report(3);
    let more = [
        "run",
        "job",
        "--nodes=2",
        "--start-pass=3",
        "--passes=2",
        "--watch=off",
    ];
    succeeded(&folder.canoe(&more));
    report(5);
    succeeded(&folder.canoe(&[
        "run",
        "job",
        "--nodes=2",
        "--passes=1",
        "--watch=off",
        "--fresh",
    ]));
    report(1);
}

#[test]
fn a_killed_job_is_not_running() {
    let folder = new_job();
    let mut child = Command::new(CANOE)
        .args([
            "run",
            "job",
            "--passes=100000",
            "--keep=last:1",
            "--watch=off",
        ])
        .current_dir(folder.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while !folder.path("job/output/pass-00000/done").exists() && begun.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeded(&folder.canoe(&["report", "job"]));
    let html = fs::read_to_string(folder.path("job/output/report.html")).unwrap();
    assert!(!html.contains("The job is running"), "{html}");
    assert!(
        html.contains("ended without a record of its end, so it was killed"),
        "{html}"
    );
}

#[test]
fn a_report_that_cannot_be_written_leaves_nothing_behind() {
    let folder = new_job();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    let report = ["report", "job", "--to", "report.html"];
    succeeded(&folder.canoe(&report));
    fs::remove_file(folder.path("report.html")).unwrap();
    // A disk on which nothing can be written.
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 1; trap '' XFSZ; exec \"$@\"", "sh", CANOE])
        .args(report)
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let text = failed(&limited);
    assert!(text.contains("write report.html"), "{text}");
    let names: Vec<_> = fs::read_dir(folder.path("."))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["job"]);
}
