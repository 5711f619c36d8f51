//! Runs the Python package's own tests against the package as it is written to disk.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::path::Path;
use std::process::Command;

#[test]
fn the_python_tests_pass() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let output = Command::new("python3")
        .args(["-m", "unittest", "discover", "--start-directory"])
        .arg(&tests)
        .env("PYTHONPATH", config::python::package_dir().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("Ran 0 tests"), "{text}");
}
