//! Every common stop, with the sentence that a user reads.

use serde_json::json;

use super::*;

fn job(status: Value) -> Value {
    json!({"metadata": {"name": "ctr"}, "spec": {"completions": 3, "backoffLimit": 6}, "status": status})
}

fn starting() -> Observed {
    Observed {
        job: Some(job(json!({"active": 3}))),
        ..Observed::default()
    }
}

fn with_pod(status: Value) -> Observed {
    Observed {
        pods: vec![json!({"metadata": {"name": "ctr-1-x7k2p"}, "status": status})],
        ..starting()
    }
}

fn with_event(kind: &str, reason: &str, message: &str) -> Observed {
    let event = json!({"reason": reason, "message": message, "involvedObject": {"kind": kind, "name": "ctr"}});
    Observed {
        events: vec![event],
        ..starting()
    }
}

fn waiting(reason: &str, message: &str) -> Observed {
    with_pod(
        json!({"containerStatuses": [{"image": "canoe:9", "state": {"waiting": {"reason": reason, "message": message}}}]}),
    )
}

fn terminated(state: Value) -> Observed {
    with_pod(json!({"containerStatuses": [{"state": {"terminated": state}}]}))
}

fn unschedulable(message: &str) -> Observed {
    with_pod(
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}),
    )
}

fn claim(name: &str, class: &str, volume: &str, message: &str) -> Observed {
    let claim = json!({
        "metadata": {"name": name},
        "spec": {"storageClassName": class, "volumeName": volume},
        "status": {"phase": "Pending"},
    });
    let event = json!({"reason": "ProvisioningFailed", "message": message, "involvedObject": {"kind": "PersistentVolumeClaim", "name": name}});
    Observed {
        claims: vec![claim],
        events: vec![event],
        ..starting()
    }
}

/// What is observed, and a part of the sentence with the way out.
fn cases() -> Vec<(Observed, &'static str)> {
    vec![
        (
            waiting("ImagePullBackOff", "manifest unknown: not found"),
            "image canoe:9 cannot be pulled: the name has no registry, so Docker Hub was asked",
        ),
        (
            with_pod(
                json!({"containerStatuses": [{"image": "reg.example/canoe:9", "state": {"waiting": {
                "reason": "ErrImagePull", "message": "manifest unknown: not found"}}}]}),
            ),
            "image reg.example/canoe:9 cannot be pulled: the registry does not have it",
        ),
        (
            claim(
                "ctr-volume",
                "standard",
                "",
                "failed to provision volume with StorageClass \"standard\": NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes",
            ),
            "storage class \"standard\" makes volumes for one machine only",
        ),
        (
            Observed {
                pods: vec![
                    json!({"metadata": {"name": "ctr-1-x7k2p"}, "spec": {"nodeName": "worker-2"}, "status": {"phase": "Running", "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}}),
                ],
                ..starting()
            },
            "is on machine worker-2, which does not answer",
        ),
        (
            with_pod(
                json!({"phase": "Failed", "reason": "Evicted", "message": "Usage of EmptyDir volume \"work\" exceeds the limit \"4Gi\"."}),
            ),
            "raise `resources.disk`",
        ),
        (
            with_event(
                "Pod",
                "FailedAttachVolume",
                "Multi-Attach error for volume \"pvc-1\"",
            ),
            "take one with ReadWriteMany",
        ),
        (
            with_event(
                "Pod",
                "FailedMount",
                "mount: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.",
            ),
            "install nfs-common",
        ),
        (
            with_event(
                "Job",
                "FailedCreate",
                "Error creating: pods \"x\" is forbidden: failed quota: q: must specify limits.cpu for: node",
            ),
            "quota wants limits",
        ),
        (
            waiting("ErrImagePull", "401 Unauthorized"),
            "imagePullSecrets",
        ),
        (
            waiting("ErrImagePull", "dial tcp: lookup reg.example: no such host"),
            "the registry cannot be reached",
        ),
        (waiting("InvalidImageName", ""), "is not a valid name"),
        (
            waiting("CreateContainerConfigError", "secret \"ctr\" not found"),
            "secret \"ctr\" not found; submit the job again",
        ),
        (
            unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
            "lower `resources.cpu`, or add machines",
        ),
        (
            unschedulable(
                "0/3 nodes are available: 1 Insufficient memory, 2 node(s) had untolerated taint {spot: true}.",
            ),
            "`resources.memory`, or add machines; machines are tainted",
        ),
        (
            unschedulable(
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            ),
            "the labels of `nodeSelector`",
        ),
        (
            unschedulable(
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            ),
            "its volume is not bound",
        ),
        (
            unschedulable("persistentvolumeclaim \"efsvol\" not found"),
            "its claim does not exist: check `volume`",
        ),
        (
            unschedulable("something new"),
            "cannot be placed: something new",
        ),
        (
            claim(
                "ctr-volume",
                "gp9",
                "",
                "storageclass.storage.k8s.io \"gp9\" not found",
            ),
            "there is no storage class \"gp9\"",
        ),
        (
            claim("ctr-volume", "", "default-ctr", ""),
            "volume default-ctr is missing or kept for another claim",
        ),
        (
            claim(
                "ctr-volume",
                "",
                "",
                "no persistent volumes available for this claim and no storage class is set",
            ),
            "no volume fits it",
        ),
        (
            terminated(json!({"reason": "OOMKilled", "exitCode": 137})),
            "raise it and submit again",
        ),
        (
            terminated(json!({"exitCode": 64, "message": "a\nJOB_NAME is not set\n"})),
            "ended with code 64: wrong flags or variables; it said: JOB_NAME is not set",
        ),
        (terminated(json!({"exitCode": 78})), "a wrong configuration"),
        (
            with_pod(
                json!({"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}),
            ),
            "was evicted: The node was low",
        ),
        (
            with_event(
                "Job",
                "FailedCreate",
                "Error creating: pods \"ctr-0-abc\" is forbidden: exceeded quota: team, requested: cpu=2, used: cpu=7, limited: cpu=8",
            ),
            "quota is used up (team, requested: cpu=2",
        ),
        (
            with_event(
                "Job",
                "FailedCreate",
                "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true",
            ),
            "pod security refuses it (\"restricted:latest\": runAsNonRoot != true)",
        ),
        (
            with_event(
                "Job",
                "FailedCreate",
                "error looking up service account default/ctr: serviceaccount \"ctr\" not found",
            ),
            "service account is missing",
        ),
        (
            with_event("Pod", "FailedMount", "mount.nfs4: Connection timed out"),
            "port 2049",
        ),
        (
            with_event("Pod", "FailedMount", "mount.nfs: access denied by server"),
            "check its export",
        ),
        (
            with_event(
                "Pod",
                "FailedMount",
                "driver name efs.csi.aws.com not found in the list of registered CSI drivers",
            ),
            "install the CSI driver",
        ),
    ]
}

#[test]
fn every_common_stop_has_its_sentence() {
    for (observed, want) in cases() {
        let report = report(&observed);
        assert_eq!(report.state, State::Starting);
        let texts: Vec<String> = report
            .findings
            .iter()
            .map(|finding| format!("{} {}", finding.subject, finding.text))
            .collect();
        assert!(
            texts.iter().any(|text| text.contains(want)),
            "{want:?} is not in {texts:#?}"
        );
    }
}

#[test]
fn the_reason_of_a_failed_job_comes_first() {
    let conditions = |reason: &str, message: &str| json!([{"type": "Failed", "status": "True", "reason": reason, "message": message}]);
    let ended = json!({"metadata": {"name": "ctr-0-a"}, "status": {"containerStatuses": [
        {"state": {"terminated": {"exitCode": 1, "message": "pserver 2 is silent", "finishedAt": "2026-11-15T10:00:00Z"}}}]}});
    let failed = |reason: &str, message: &str| Observed {
        job: Some(job(
            json!({"failed": 7, "conditions": conditions(reason, message)}),
        )),
        pods: vec![ended.clone()],
        ..Observed::default()
    };
    let report_of = |reason: &str, message: &str| report(&failed(reason, message));
    let report = report_of(
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    );
    assert_eq!(report.state, State::Failed);
    assert_eq!(
        report.summary,
        "3 nodes: 0 ready, 0 starting, 0 finished; 7 pods have failed of at most 6"
    );
    assert!(
        report.findings[0]
            .text
            .contains("more than 6 times; it said: pserver 2 is silent; `canoe job logs ctr`"),
        "{report:?}"
    );
    let report = report_of(
        "PodFailurePolicy",
        "Container node for pod default/ctr-0-a failed with exit code 64",
    );
    assert!(
        report.findings[0]
            .text
            .contains("a new pod would fail the same way: Container node"),
        "{report:?}"
    );
    assert!(
        report_of("DeadlineExceeded", "").findings[0]
            .text
            .contains("deadlineSeconds")
    );
}

#[test]
fn a_job_that_goes_well_has_nothing_to_say() {
    let running = Observed {
        job: Some(job(json!({"active": 3, "ready": 3}))),
        ..Observed::default()
    };
    assert_eq!(
        report(&running),
        Report {
            state: State::Running,
            summary: "3 nodes: 3 ready, 0 starting, 0 finished".into(),
            findings: vec![]
        }
    );
    let conditions = json!([{"type": "Complete", "status": "True"}]);
    let mut complete = terminated(json!({"exitCode": 1}));
    complete.job = Some(job(json!({"succeeded": 3, "conditions": conditions})));
    assert_eq!(
        (report(&complete).state, report(&complete).findings),
        (State::Complete, vec![])
    );
    assert_eq!(report(&Observed::default()).state, State::Absent);
}

#[test]
fn the_same_trouble_of_a_pod_is_told_once() {
    let mut observed = with_event("Job", "FailedCreate", "exceeded quota: team");
    observed.events.push(observed.events[0].clone());
    assert_eq!(report(&observed).findings.len(), 1);
}

#[test]
fn nonsense_is_no_trouble() {
    let nonsense = [
        json!(null),
        json!([]),
        json!({"status": 3}),
        json!({"status": {"containerStatuses": {}}}),
    ];
    for value in nonsense {
        let observed = Observed {
            job: Some(value.clone()),
            pods: vec![value.clone()],
            events: vec![value.clone()],
            claims: vec![value],
            ..Observed::default()
        };
        report(&observed);
    }
}

#[test]
fn data_that_cannot_be_prepared() {
    let failed = json!({"metadata": {"name": "ctr-data"}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    let state = json!({"terminated": {"exitCode": 1, "message": "canoe: the checksum is wrong\n"}});
    let observed = Observed {
        data_job: Some(failed),
        data_pods: vec![
            json!({"metadata": {"name": "ctr-data-x"}, "status": {"initContainerStatuses": [{"state": state}]}}),
        ],
        ..starting()
    };
    let texts: Vec<String> = report(&observed)
        .findings
        .into_iter()
        .map(|finding| finding.text)
        .collect();
    assert!(
        texts.iter().any(|text| text
            .contains("the data could not be prepared; it said: canoe: the checksum is wrong")),
        "{texts:?}"
    );
}

#[test]
fn a_job_that_a_queue_holds_back() {
    let mut observed = starting();
    observed.job.as_mut().unwrap()["spec"]["suspend"] = json!(true);
    let report = report(&observed);
    assert!(
        report.findings[0].text.contains("is suspended"),
        "{report:?}"
    );
}
