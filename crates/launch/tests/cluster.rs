//! The live side with a stand-in for kubectl (`fake/kubectl.sh`): what is asked, and what comes of the answers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::k8s::cluster::arguments::{Mode, Scope};
use launch::k8s::cluster::{Again, ClusterError, Kubectl, Submitted, Target, submit};
use launch::k8s::explain::{self, State};
use serde_json::{Value, json};

struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/kubectl.sh");
        // Copied by a program of its own: a file that this process has open for writing cannot be run.
        let status = std::process::Command::new("cp")
            .arg("-p")
            .arg(script)
            .arg(folder.path().join("kubectl"))
            .status();
        assert!(status.unwrap().success());
        Self { folder }
    }

    fn kubectl(&self) -> Kubectl {
        let config = PathBuf::from("/etc/my-config");
        Kubectl {
            program: self.folder.path().join("kubectl"),
            kubeconfig: Some(config),
            context: Some("lab".into()),
            request_timeout: Duration::from_secs(30),
        }
    }

    fn answers(&self, file: &str, text: &str) -> &Self {
        fs::write(self.folder.path().join(file), text).unwrap();
        self
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.folder.path().join("kubectl.log")).unwrap_or_default()
    }
}

fn target() -> Target {
    Target {
        namespace: "default".into(),
        job: "ctr".into(),
    }
}

fn objects() -> Vec<Value> {
    vec![
        json!({"kind": "Secret", "data": {"token": "c2VjcmV0"}}),
        json!({"kind": "Job", "metadata": {"name": "ctr"}, "spec": {"completions": 3}}),
    ]
}

#[test]
fn a_first_submit_applies_everything_and_passes_warnings_on() {
    let fake = Fake::new();
    fake.answers("apply.out", "job.batch/ctr serverside-applied\n")
        .answers(
            "apply.err",
            "Warning: would violate PodSecurity \"restricted:latest\"\nsomething else\n",
        );
    let submitted = submit(
        &fake.kubectl(),
        &target(),
        &objects(),
        Mode::DryRun,
        Again::Compare,
    )
    .unwrap();
    let Submitted::New { lines, warnings } = submitted else {
        panic!("{submitted:?}")
    };
    assert_eq!(lines, ["job.batch/ctr serverside-applied"]);
    assert_eq!(
        warnings,
        ["Warning: would violate PodSecurity \"restricted:latest\""]
    );
    assert!(
        fs::read_to_string(fake.folder.path().join("applied"))
            .unwrap()
            .contains("kind: Job")
    );
    let asked = fake.asked();
    let apply = asked.lines().nth(1).unwrap();
    assert_eq!(
        apply,
        "--kubeconfig /etc/my-config --context lab apply --server-side -f - --field-manager=canoe --dry-run=server --request-timeout=30s"
    );
}

#[test]
fn a_second_submit_says_what_differs_and_what_can_be_done() {
    let fake = Fake::new();
    let there = |nodes: u32| json!({"kind": "Job", "metadata": {"name": "ctr"}, "spec": {"completions": nodes}});
    fake.answers("get-job.out", &there(3).to_string())
        .answers("get--f.out", &there(3).to_string());
    assert_eq!(
        submit(
            &fake.kubectl(),
            &target(),
            &objects(),
            Mode::Real,
            Again::Compare
        )
        .unwrap(),
        Submitted::Unchanged
    );
    fake.answers("get--f.out", &json!({"items": [there(5)]}).to_string());
    let error = submit(
        &fake.kubectl(),
        &target(),
        &objects(),
        Mode::Real,
        Again::Compare,
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("completions: 5 is there, 3 is wanted") && error.contains("--replace"),
        "{error}"
    );
    assert!(!fake.asked().contains("apply"));
    let replaced = submit(
        &fake.kubectl(),
        &target(),
        &objects(),
        Mode::Real,
        Again::Replace,
    );
    assert!(matches!(replaced, Ok(Submitted::New { .. })));
    let asked = fake.asked();
    let (delete, apply) = (asked.find("delete jobs"), asked.find("apply"));
    assert!(delete.is_some() && delete < apply, "{asked}");
}

#[test]
fn refusals_are_passed_on_in_the_words_of_the_cluster() {
    let fake = Fake::new();
    fake.answers(
        "apply.err",
        "error: You must be logged in to the server (Unauthorized)\n",
    )
    .answers("apply.code", "1");
    let error = submit(
        &fake.kubectl(),
        &target(),
        &objects(),
        Mode::Real,
        Again::Compare,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "kubectl apply --server-side: error: You must be logged in to the server (Unauthorized)"
    );
    let missing = Kubectl {
        program: "/no/kubectl".into(),
        kubeconfig: None,
        context: None,
        request_timeout: Duration::from_secs(30),
    };
    let error = missing.job(&target()).unwrap_err();
    assert!(
        matches!(error, ClusterError::Start { .. })
            && error.to_string().contains("canoe job render"),
        "{error}"
    );
    fake.answers("get-job.out", "{");
    assert!(matches!(
        fake.kubectl().job(&target()),
        Err(ClusterError::Answer { .. })
    ));
}

#[test]
fn status_joins_job_pods_events_and_claims() {
    let fake = Fake::new();
    let event = |name: &str| json!({"reason": "FailedCreate", "message": "exceeded quota: team", "involvedObject": {"kind": "Job", "name": name}});
    fake.answers(
        "get-job.out",
        &json!({"metadata": {"name": "ctr"}, "spec": {"completions": 3}, "status": {}}).to_string(),
    )
    .answers("get-pods.out", "{\"items\": []}")
    .answers(
        "get-events.out",
        &json!({"items": [event("ctr"), event("ctr2"), event("other")]}).to_string(),
    );
    let observed = fake.kubectl().observe(&target()).unwrap();
    assert_eq!(observed.events.len(), 1);
    let report = explain::report(&observed);
    assert_eq!(report.state, State::Starting);
    assert!(
        report.findings[0].text.contains("quota is used up"),
        "{report:?}"
    );
    let absent = Fake::new();
    assert_eq!(
        explain::report(&absent.kubectl().observe(&target()).unwrap()).state,
        State::Absent
    );
}

#[test]
fn delete_keeps_the_volume_unless_told() {
    let fake = Fake::new();
    fake.answers("delete.out", "job.batch \"ctr\" deleted\n");
    assert_eq!(
        fake.kubectl().delete(&target(), Scope::KeepVolume).unwrap(),
        ["job.batch \"ctr\" deleted"; 2],
        "one call for the job, one for a forgotten upload"
    );
    assert!(!fake.asked().contains("persistentvolume"));
    fake.kubectl().delete(&target(), Scope::WithVolume).unwrap();
    assert!(fake.asked().contains("delete persistentvolumes -l "));
}
