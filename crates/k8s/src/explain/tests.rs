//! Every common stop, with the sentence that a user reads. Recordings of a real cluster are replayed in `tests/replay.rs`.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

mod others;

const NOW: &str = "2026-11-15T10:00:00Z";

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn job(status: Value) -> Job {
    typed(
        json!({"metadata": {"name": "ctr", "namespace": "team"}, "spec": {"completions": 3, "backoffLimit": 6, "template": {}}, "status": status}),
    )
}

fn starting() -> Observed {
    Observed {
        job: Some(job(json!({"active": 3}))),
        pods: Vec::new(),
        events: Vec::new(),
        claims: Vec::new(),
        machines: None,
        data_job: None,
        data_pods: Vec::new(),
        now: NOW.parse().unwrap(),
    }
}

fn pod(name: &str, status: Value) -> Pod {
    typed(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"nodeName": "worker-2", "containers": [{"name": "node"}], "volumes": [{"name": "job", "persistentVolumeClaim": {"claimName": "ctr-volume"}}]},
        "status": status,
    }))
}

fn container(state: Value) -> Value {
    let image = "canoe:9";
    json!({"name": "node", "image": image, "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

fn with_pod(status: Value) -> Observed {
    Observed {
        pods: vec![pod("ctr-1-x7k2p", status)],
        ..starting()
    }
}

fn creating() -> Value {
    json!({"phase": "Pending", "containerStatuses": [container(json!({"waiting": {"reason": "ContainerCreating"}}))]})
}

fn event(kind: &str, name: &str, reason: &str, message: &str, time: &str) -> Event {
    let involved = json!({"kind": kind, "name": name});
    typed(
        json!({"metadata": {}, "reason": reason, "message": message, "type": "Warning", "count": 2, "firstTimestamp": time, "lastTimestamp": time, "involvedObject": involved}),
    )
}

fn with_event(kind: &str, reason: &str, message: &str) -> Observed {
    let name = if kind == "Pod" { "ctr-1-x7k2p" } else { "ctr" };
    let pods = if kind == "Pod" {
        with_pod(creating()).pods
    } else {
        Vec::new()
    };
    Observed {
        pods,
        events: vec![event(kind, name, reason, message, NOW)],
        ..starting()
    }
}

fn waiting(reason: &str, message: &str) -> Observed {
    let state = json!({"waiting": {"reason": reason, "message": message}});
    with_pod(json!({"phase": "Pending", "containerStatuses": [container(state)]}))
}

fn terminated(state: Value) -> Observed {
    with_pod(
        json!({"phase": "Failed", "containerStatuses": [container(json!({"terminated": state}))]}),
    )
}

fn unschedulable(message: &str) -> Observed {
    with_pod(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}),
    )
}

fn claim(name: &str, class: &str, volume: &str, message: &str) -> Observed {
    let claim = json!({
        "metadata": {"name": name},
        "spec": {"storageClassName": class, "volumeName": volume},
        "status": {"phase": "Pending"},
    });
    Observed {
        claims: vec![typed(claim)],
        events: vec![event(
            "PersistentVolumeClaim",
            name,
            "ProvisioningFailed",
            message,
            NOW,
        )],
        ..with_pod(json!({"phase": "Pending"}))
    }
}

fn texts(observed: &Observed) -> Vec<String> {
    let findings = diagnose(observed).findings;
    findings.iter().map(ToString::to_string).collect()
}

/// What is observed, and a part of the sentence with the way out.
fn cases() -> Vec<(Observed, &'static str)> {
    vec![
        (
            waiting("ImagePullBackOff", "manifest unknown: not found"),
            "image canoe:9 cannot be pulled: the name has no registry, so Docker Hub was asked",
        ),
        (
            with_pod(json!({"phase": "Pending", "containerStatuses": [{
                "name": "node", "image": "reg.example/canoe:9", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown: not found"}}}]})),
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
            with_pod(json!({"phase": "Running", "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]})),
            "machine worker-2: does not respond",
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
            "its claim does not exist: there is no claim \"efsvol\"",
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
            "ended with code 64 (wrong flags or variables): JOB_NAME is not set",
        ),
        (terminated(json!({"exitCode": 78})), "a wrong configuration"),
        (
            with_pod(
                json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}),
            ),
            "evicted: The node was low",
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
        assert_eq!(diagnose(&observed).state, JobState::Starting);
        let texts = texts(&observed);
        assert!(
            texts.iter().any(|text| text.contains(want)),
            "{want:?} is not in {texts:#?}"
        );
    }
}

#[test]
fn the_reason_of_a_failed_job_is_told_once() {
    let conditions = |reason: &str| json!([{"type": "Failed", "status": "True", "reason": reason, "message": "in the words of the cluster"}]);
    let ended = |name: &str, code: i32, message: &str| {
        let state = json!({"terminated": {"exitCode": code, "message": message}});
        pod(
            name,
            json!({"phase": "Failed", "containerStatuses": [container(state)]}),
        )
    };
    let failed = |reason: &str| Observed {
        job: Some(job(json!({"failed": 7, "conditions": conditions(reason)}))),
        pods: vec![
            ended("ctr-0-a", 1, "pserver 2 is silent"),
            ended("ctr-1-b", 143, "asked to end"),
            ended("ctr-2-c", 1, "pserver 2 is silent"),
        ],
        ..starting()
    };
    let diagnosis = diagnose(&failed("BackoffLimitExceeded"));
    assert_eq!(diagnosis.state, JobState::Failed);
    assert_eq!(
        diagnosis.summary(),
        "3 nodes: 0 ready, 0 starting, 0 finished; 7 pods have failed, 6 of 6 retries used"
    );
    assert_eq!(
        texts(&failed("BackoffLimitExceeded")),
        [
            "job ctr: the job failed because its pods failed more than 6 times: a pod ended with code 1: pserver 2 is silent; `canoe job logs ctr -n team` shows more"
        ]
    );
    assert!(
        texts(&failed("PodFailurePolicy"))[0]
            .contains("a new pod would fail the same way: a pod ended with code 1")
    );
    assert!(texts(&failed("DeadlineExceeded"))[0].contains("deadlineSeconds"));
    assert!(texts(&failed("New"))[0].contains("New: in the words of the cluster"));
}

#[test]
fn one_is_not_many_and_none_are_none() {
    let of = |failed: i32, limit: i32| {
        let mut observed = starting();
        let mut changed = job(json!({"failed": failed}));
        let spec = changed.spec.as_mut().unwrap();
        (spec.completions, spec.backoff_limit) = (Some(1), Some(limit));
        observed.job = Some(changed);
        diagnose(&observed).summary()
    };
    assert_eq!(
        of(1, 6),
        "1 node: 0 ready, 0 starting, 0 finished; 1 pod has failed, 1 of 6 retries used"
    );
    assert_eq!(
        of(3, 0),
        "1 node: 0 ready, 0 starting, 0 finished; 3 pods have failed, no retries were allowed"
    );
    assert_eq!(of(0, 0), "1 node: 0 ready, 0 starting, 0 finished");
}

/// The Job's own numbers come a moment after its pods.
#[test]
fn counts_agree_with_the_rows() {
    let mut observed = starting();
    observed.job = Some(job(json!({})));
    let pending = |index: u32| {
        let mut it = pod(&format!("ctr-{index}-x"), json!({"phase": "Pending"}));
        let label = "batch.kubernetes.io/job-completion-index".to_owned();
        it.metadata.labels = Some([(label, index.to_string())].into());
        it
    };
    observed.pods = (0..3).map(pending).collect();
    let told = diagnose(&observed);
    assert_eq!(
        told.summary(),
        "3 nodes: 0 ready, 3 starting, 0 finished",
        "{:?}",
        told.rows
    );
    observed.job = Some(job(json!({"active": 3, "ready": 2})));
    assert!(
        diagnose(&observed)
            .summary()
            .contains("2 ready, 1 starting")
    );
}

#[test]
fn a_job_that_goes_well_has_nothing_to_say() {
    let running = Observed {
        job: Some(job(json!({"active": 3, "ready": 3}))),
        ..starting()
    };
    let diagnosis = diagnose(&running);
    assert_eq!(
        (diagnosis.state, diagnosis.findings.len()),
        (JobState::Running, 0)
    );
    assert_eq!(
        diagnosis.summary(),
        "3 nodes: 3 ready, 0 starting, 0 finished"
    );
    let conditions = json!([{"type": "Complete", "status": "True"}]);
    let mut complete = terminated(json!({"exitCode": 1}));
    complete.job = Some(job(json!({"succeeded": 3, "conditions": conditions})));
    let diagnosis = diagnose(&complete);
    assert_eq!(
        (diagnosis.state, diagnosis.findings.len()),
        (JobState::Complete, 0)
    );
    let absent = Observed {
        job: None,
        ..starting()
    };
    assert_eq!(diagnose(&absent).state, JobState::Absent);
    assert!(diagnose(&absent).summary().contains("there is no such job"));
}

#[test]
fn objects_that_tell_nothing_are_no_trouble() {
    let observed = Observed {
        job: Some(typed(json!({"metadata": {}}))),
        pods: vec![typed(json!({"metadata": {}}))],
        events: vec![typed(json!({"metadata": {}, "involvedObject": {}}))],
        claims: vec![typed(json!({"metadata": {}}))],
        machines: Some(vec![typed(json!({"metadata": {}}))]),
        data_job: Some(typed(json!({"metadata": {}}))),
        data_pods: vec![typed(json!({"metadata": {}}))],
        ..starting()
    };
    assert!(!diagnose(&observed).has_trouble());
}

#[test]
fn an_old_event_is_not_told_of_a_pod_that_runs() {
    let message = "mount.nfs4: Connection timed out";
    let stuck = with_event("Pod", "FailedMount", message);
    assert!(diagnose(&stuck).has_trouble());
    let mut runs = with_event("Pod", "FailedMount", message);
    runs.pods = vec![pod(
        "ctr-1-x7k2p",
        json!({"phase": "Running", "containerStatuses": [container(json!({"running": {}}))]}),
    )];
    assert_eq!(texts(&runs), Vec::<String>::new());
    let mut gone = with_event("Pod", "FailedMount", message);
    gone.pods.clear();
    assert_eq!(texts(&gone), Vec::<String>::new());
    let mut replaced = with_event("Pod", "FailedMount", message);
    replaced.events[0].involved_object.uid = Some("of an earlier pod of this name".into());
    assert_eq!(texts(&replaced), Vec::<String>::new());
    let mut pulls = with_event("Pod", "FailedMount", message);
    pulls.events.push(event(
        "Pod",
        "ctr-1-x7k2p",
        "Pulling",
        "Pulling image \"canoe:9\"",
        NOW,
    ));
    assert_eq!(
        texts(&pulls),
        ["pod ctr-1-x7k2p: machine worker-2 is pulling image canoe:9"]
    );
}

#[test]
fn a_cache_that_is_not_yet_filled_is_no_file_server() {
    let message = "MountVolume.SetUp failed for volume \"secret\" : failed to sync secret cache: timed out waiting for the condition";
    let mut passing = with_event("Pod", "FailedMount", message);
    assert_eq!(texts(&passing), [""; 0], "nearly every start has this");
    passing.now = "2026-11-15T10:00:09Z".parse().unwrap();
    let diagnosis = diagnose(&passing);
    assert_eq!(diagnosis.findings[0].reason, Reason::MountsAgain);
    assert!(!diagnosis.has_trouble());
    let mut stubborn = passing;
    stubborn.now = "2026-11-15T10:03:00Z".parse().unwrap();
    assert!(texts(&stubborn)[0].contains("failed to sync secret cache"));
    assert!(diagnose(&stubborn).has_trouble());
}

#[test]
fn pods_that_exist_are_no_pods_that_cannot_be_made() {
    let mut refused = with_event(
        "Job",
        "FailedCreate",
        "dial tcp 10.0.0.1:443: connect: connection refused",
    );
    assert!(texts(&refused)[0].contains("is tried again by itself: dial tcp"));
    assert!(!diagnose(&refused).has_trouble());
    refused.now = "2026-11-15T10:00:09Z".parse().unwrap();
    assert!(texts(&refused)[0].contains("no pod can be made: dial tcp"));
    for name in ["a", "b", "c"] {
        refused.pods.push(pod(name, creating()));
    }
    assert_eq!(texts(&refused), Vec::<String>::new());
}

#[test]
fn data_that_cannot_be_prepared() {
    let failed = json!({"metadata": {"name": "ctr-data"}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    let state = json!({"terminated": {"exitCode": 1, "message": "canoe: the checksum is wrong\n"}});
    let observed = Observed {
        data_job: Some(typed(failed)),
        data_pods: vec![pod(
            "ctr-data-x",
            json!({"phase": "Failed", "initContainerStatuses": [container(state)]}),
        )],
        ..starting()
    };
    assert!(
        texts(&observed)[0].contains(
            "the data could not be prepared: its pod ended with code 1: the checksum is wrong"
        ),
        "{:?}",
        texts(&observed)
    );
}

#[test]
fn a_job_that_a_queue_holds_back() {
    let mut observed = starting();
    observed
        .job
        .as_mut()
        .unwrap()
        .spec
        .as_mut()
        .unwrap()
        .suspend = Some(true);
    assert!(texts(&observed)[0].contains("is suspended"));
}

#[test]
fn two_generations_of_keys_are_named() {
    let mut began = job(json!({"active": 3}));
    assert_eq!(
        other_keys(&began, "bb"),
        None,
        "a job of an earlier version"
    );
    let template = &mut began.spec.as_mut().unwrap().template;
    template.metadata = Some(typed(json!({"annotations": {"canoe/keys": "aa"}})));
    assert_eq!(other_keys(&began, "aa"), None);
    let text = other_keys(&began, "bb").unwrap().to_string();
    assert!(
        text.contains("two generations of keys") && text.contains("--replace"),
        "{text}"
    );
    began.status = Some(typed(
        json!({"conditions": [{"type": "Complete", "status": "True"}]}),
    ));
    assert_eq!(
        other_keys(&began, "bb"),
        None,
        "a job that has ended needs no keys"
    );
}

#[test]
fn every_node_has_a_row() {
    let mut observed = with_pod(creating());
    let labels = [(
        "batch.kubernetes.io/job-completion-index".to_owned(),
        "1".to_owned(),
    )];
    observed.pods[0].metadata.labels = Some(labels.into());
    let rows = diagnose(&observed).rows;
    let shown: Vec<(Option<u32>, bool)> = rows
        .iter()
        .map(|row| (row.node, row.pod.is_some()))
        .collect();
    assert_eq!(shown, [(Some(0), false), (Some(1), true), (Some(2), false)]);
    assert_eq!(rows[0].shown.to_string(), "no pod yet");
    assert!(
        texts(&observed)[0].starts_with("nodes 0, 2: no pod at the moment"),
        "{:?}",
        texts(&observed)
    );
}

#[test]
fn a_job_that_was_made_just_now_has_no_pods_and_that_is_no_trouble() {
    let mut observed = starting();
    let mut made_at = |seconds: i64| {
        let mut job = observed.job.take().unwrap();
        let made = observed.now - std::time::Duration::from_secs(seconds.unsigned_abs());
        job.metadata.creation_timestamp = Some(typed(json!(made.to_string())));
        job.spec.as_mut().unwrap().completion_mode = Some("Indexed".to_owned());
        observed.job = Some(job);
        texts(&observed)
    };
    assert_eq!(made_at(1), [""; 0]);
    let late = made_at(60);
    assert!(late[0].starts_with("nodes 0, 1, 2: no pod"), "{late:?}");
    // Pods are made one after the other, also of a job that was paused for an hour.
    observed.pods = vec![node("ctr-0-aaaaa", 0, creating())];
    assert_eq!(texts(&observed).len(), 1, "a minute later");
    let resumed = observed.now - std::time::Duration::from_secs(1);
    let status = observed.job.as_mut().unwrap().status.as_mut().unwrap();
    status.start_time = Some(typed(json!(resumed.to_string())));
    assert_eq!(texts(&observed), [""; 0]);
}

fn node(name: &str, index: u32, status: Value) -> Pod {
    let mut made = pod(name, status);
    let label = "batch.kubernetes.io/job-completion-index".to_owned();
    made.metadata.labels = Some([(label, index.to_string())].into());
    made
}

fn ended(code: i32) -> Value {
    json!({"phase": "Failed", "containerStatuses": [container(json!({"terminated": {"exitCode": code}}))]})
}

fn runs() -> Value {
    json!({"phase": "Running", "containerStatuses": [container(json!({"running": {}}))]})
}

#[test]
fn a_failure_is_told_in_full_until_its_own_successor_runs() {
    let mut observed = starting();
    // The Job's numbers come a moment after its pods: all are ready, they say, when one has just been killed.
    observed.job = Some(job(json!({"active": 3, "ready": 3})));
    observed.pods = vec![
        node("ctr-0-aaaaa", 0, ended(137)),
        node("ctr-1-aaaaa", 1, runs()),
        node("ctr-2-aaaaa", 2, runs()),
    ];
    let text = texts(&observed).join("\n");
    assert!(
        text.contains("pod ctr-0-aaaaa: ended with code 137") && !text.contains("failed before"),
        "{text}"
    );
    // Its successor runs, and another node is lost: whose place is long taken is history.
    let status = json!({"active": 2, "ready": 2, "failed": 1});
    observed.job = Some(job(status));
    let mut successor = node("ctr-0-bbbbb", 0, runs());
    successor.metadata.creation_timestamp = Some(typed(json!(NOW)));
    observed.pods[2] = successor;
    let text = texts(&observed).join("\n");
    assert!(
        text.contains("1 pod failed before (ended with code 137")
            && text.contains("and was replaced"),
        "{text}"
    );
    assert!(!text.contains("a new pod takes its place"), "{text}");
}

#[test]
fn nothing_is_promised_to_a_pod_that_gets_no_successor() {
    let mut observed = starting();
    observed
        .job
        .as_mut()
        .unwrap()
        .spec
        .as_mut()
        .unwrap()
        .completion_mode = Some("Indexed".to_owned());
    observed.pods = vec![node("ctr-0-aaaaa", 0, ended(78))];
    let text = texts(&observed).join("\n");
    assert!(
        text.contains("the job fails at once") && !text.contains("takes its place"),
        "{text}"
    );
    assert!(!text.contains("no pod at the moment"), "{text}");
}

/// In a namespace where other pods end at this moment, the scheduler finds no room and then does.
#[test]
fn a_pod_without_room_is_no_trouble_before_others_had_time_to_end() {
    let mut observed = with_pod(json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": NOW,
        "message": "0/3 nodes are available: 3 Insufficient cpu."}]}));
    assert_eq!(texts(&observed), [""; 0]);
    observed.now += std::time::Duration::from_secs(6);
    assert!(
        texts(&observed)[0].contains("enough free cores"),
        "{:?}",
        texts(&observed)
    );
}

/// Who watches gets a line when something changes, not for every second.
#[test]
fn a_pull_is_told_in_steps() {
    let mut observed = with_pod(creating());
    observed.events.push(event(
        "Pod",
        "ctr-1-x7k2p",
        "Pulling",
        "Pulling image \"canoe:9\"",
        NOW,
    ));
    let mut after = |seconds: u64| {
        observed.now = NOW.parse::<Timestamp>().unwrap() + std::time::Duration::from_secs(seconds);
        texts(&observed).remove(0)
    };
    assert_eq!(after(1), after(29));
    assert!(
        after(59).ends_with("has been pulling image canoe:9 for more than 30 s"),
        "{}",
        after(59)
    );
}
