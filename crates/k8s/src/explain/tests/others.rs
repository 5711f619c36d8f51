//! Stops of which there is no recording: the words are those of Kubernetes' own components and of common drivers.

use super::*;

/// Everything that is told, and whether somebody has to act.
fn told(observed: &Observed) -> (String, bool) {
    (texts(observed).join("\n"), diagnose(observed).has_trouble())
}

fn at(mut observed: Observed, now: &str) -> Observed {
    observed.now = now.parse().unwrap();
    observed
}

fn pulled(image: &str, message: &str) -> Observed {
    with_pod(json!({"phase": "Pending", "containerStatuses": [{
        "name": "node", "image": image, "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": message}}}]}))
}

/// Nobody has named the image with Python, so `image` in job.yaml is not where to look.
#[test]
fn the_image_that_nobody_named_has_a_way_out_of_its_own() {
    let message = "failed to do request: Head: dial tcp: lookup registry-1.docker.io: i/o timeout";
    let (text, trouble) = told(&pulled(crate::job::PYTHON_IMAGE, message));
    assert!(trouble && text.contains("--python-image"), "{text}");
    let (text, _) = told(&pulled("reg.example/team/canoe:1", message));
    assert!(!text.contains("--python-image"), "{text}");
}

/// As a machine without a way to the registry said it.
#[test]
fn the_image_that_every_pod_of_a_machine_begins_with_is_no_network() {
    let message = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image \"reg.example/pause:3.8\": failed to pull image \"reg.example/pause:3.8\": failed to do request: Head \"https://reg.example/v2/pause/manifests/3.8\": dial tcp 192.0.2.1:443: connect: network is unreachable";
    let mut observed = with_event("Pod", "FailedCreatePodSandBox", message);
    observed.events[0].count = Some(1);
    let (text, trouble) = told(&observed);
    assert!(
        text.contains("the machine could not make room for it at first") && !trouble,
        "{text}"
    );
    observed.events[0].count = Some(2);
    let (text, trouble) = told(&observed);
    assert!(trouble && text.contains("cannot get image reg.example/pause:3.8, with which every pod of that machine begins"), "{text}");
    assert!(!text.contains("network does not work"), "{text}");
}

#[test]
fn registries_refuse_in_many_words() {
    let image = "reg.example/team/canoe@sha256:4290429";
    for (message, want) in [
        (
            "failed to resolve reference: reg.example/team/canoe@sha256:4290429: not found",
            "the registry does not have it;",
        ),
        (
            "unexpected status from HEAD request to https://reg.example/v2/team/canoe/manifests/1: 403 Forbidden",
            "wants a login",
        ),
        (
            "failed to authorize: failed to fetch anonymous token: 401 Unauthorized",
            "wants a login",
        ),
        (
            "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope",
            "does not have it, or wants a login",
        ),
        (
            "toomanyrequests: You have reached your pull rate limit",
            "limits pulls",
        ),
        (
            "unexpected status code 429 Too Many Requests",
            "limits pulls",
        ),
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "does not trust the registry's certificate",
        ),
        (
            "http: server gave HTTP response to HTTPS client",
            "speaks no TLS",
        ),
        (
            "unexpected status from GET request: 503 Service Unavailable",
            "an error of its own",
        ),
        (
            "no match for platform in manifest: not found",
            "not made for the processors",
        ),
        (
            "failed to extract layer: write /var/lib/containerd/x: no space left on device",
            "the disk of the machine is full",
        ),
        (
            "Get \"https://reg.example/v2/\": context deadline exceeded",
            "cannot be reached from the cluster",
        ),
        (
            "failed to do request: Head \"https://reg.example/v2/x\": EOF",
            "cannot be reached from the cluster",
        ),
    ] {
        let (text, trouble) = told(&pulled(image, message));
        assert!(text.contains(want) && trouble, "{message}: {text}");
    }
    let (text, trouble) = told(&pulled(image, "pull QPS exceeded"));
    assert!(text.contains("tries again") && !trouble, "{text}");
    let mut observed = pulled(image, "401 Unauthorized");
    observed.events = vec![event(
        "Pod",
        "ctr-1-x7k2p",
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed.",
        NOW,
    )];
    assert!(
        told(&observed)
            .0
            .contains("secret \"regcred\" of `imagePullSecrets` does not exist")
    );
}

#[test]
fn machines_that_take_no_pods() {
    for (message, want, not) in [
        (
            "0/4 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 3 Insufficient cpu. preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling, 3 No preemption victims found for incoming pod.",
            "enough free cores",
            "taint",
        ),
        (
            "0/3 nodes are available: 3 node(s) were unschedulable.",
            "closed for new pods (cordoned)",
            "toleration",
        ),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unschedulable: }, 2 Insufficient memory.",
            "cordoned",
            "toleration",
        ),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }.",
            "machines run short of disk",
            "toleration",
        ),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
            "machines are not ready",
            "toleration",
        ),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint {team: blue}.",
            "machines are tainted (team: blue): add `tolerations`",
            "cordoned",
        ),
        (
            "0/3 nodes are available: 3 node(s) had untolerated taint(s).",
            "machines are tainted: add `tolerations`",
            "cordoned",
        ),
        (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            "no machine has enough nvidia.com/gpu",
            "cores",
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity.",
            "must be reachable from all zones",
            "nodeSelector",
        ),
        (
            "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
            "no volume can be bound",
            "nodeSelector",
        ),
        (
            "persistentvolumeclaim \"files\" is being deleted",
            "claim \"files\" is being deleted",
            "not exist",
        ),
        (
            "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable",
            "places all or none",
            "taint",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            "anti-affinity",
            "taint",
        ),
    ] {
        let (text, trouble) = told(&unschedulable(message));
        assert!(
            text.contains(want) && !text.contains(not) && trouble,
            "{message}: {text}"
        );
    }
}

#[test]
fn a_machine_that_is_being_added_is_no_trouble() {
    let mut observed = unschedulable("0/1 nodes are available: 1 Insufficient cpu.");
    let scale = |reason: &str, message: &str, time: &str| {
        event("Pod", "ctr-1-x7k2p", reason, message, time)
    };
    observed.events = vec![scale(
        "TriggeredScaleUp",
        "pod triggered scale-up: [{workers 1->3 (max: 5)}]",
        "2026-11-15T09:59:30Z",
    )];
    let (text, trouble) = told(&observed);
    assert!(
        text.contains("is adding one (pod triggered scale-up") && !trouble,
        "{text}"
    );
    observed.events.push(scale(
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 max node group size reached",
        NOW,
    ));
    assert!(told(&observed).1);
    observed.events.pop();
    assert!(
        told(&at(observed, "2026-11-15T10:30:00Z")).1,
        "nothing came of it"
    );
}

#[test]
fn a_pod_with_gates_waits_for_its_queue() {
    let mut observed = with_pod(json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}]}));
    observed.pods[0].spec.as_mut().unwrap().scheduling_gates =
        Some(typed(json!([{"name": "kueue.x-k8s.io/admission"}])));
    let (text, trouble) = told(&observed);
    assert!(
        text.contains("scheduling gates (kueue.x-k8s.io/admission)") && !trouble,
        "{text}"
    );
}

#[test]
fn a_queue_names_itself_and_what_it_waits_for() {
    let mut observed = starting();
    let held = observed.job.as_mut().unwrap();
    held.spec.as_mut().unwrap().suspend = Some(true);
    held.metadata.labels =
        Some([("kueue.x-k8s.io/queue-name".to_owned(), "team".to_owned())].into());
    observed.events = vec![event("Job", "ctr", "Suspended", "Job suspended", NOW)];
    assert_eq!(
        told(&observed),
        (
            "job ctr: waits in queue team, which starts it when all its nodes have room".to_owned(),
            false
        )
    );
    observed.events.push(event(
        "Job",
        "ctr",
        "Stopped",
        "Preempted to accommodate a higher priority Workload",
        NOW,
    ));
    assert!(told(&observed).0.contains("(Preempted to accommodate"));
}

#[test]
fn a_volume_that_is_being_made_is_no_trouble_until_it_takes_long() {
    let mut observed = claim("ctr-volume", "efs", "", "");
    observed.events[0] = typed(
        json!({"metadata": {}, "type": "Normal", "reason": "ExternalProvisioning", "firstTimestamp": NOW, "lastTimestamp": NOW,
        "message": "Waiting for a volume to be created either by the external provisioner 'efs.csi.aws.com' or manually by the system administrator.",
        "involvedObject": {"kind": "PersistentVolumeClaim", "name": "ctr-volume"}}),
    );
    observed.pods = unschedulable(
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
    )
    .pods;
    let (text, trouble) = told(&observed);
    assert!(
        text.contains("the volume is not there yet") && !trouble,
        "{text}"
    );
    let (text, trouble) = told(&at(observed, "2026-11-15T10:00:31Z"));
    assert!(
        text.contains("nobody makes a volume for it")
            && text.contains("efs.csi.aws.com")
            && trouble,
        "{text}"
    );
    let refused = claim(
        "ctr-volume",
        "efs",
        "",
        "failed to provision volume with StorageClass \"efs\": rpc error: code = Unauthenticated desc = Access Denied",
    );
    let (text, trouble) = told(&refused);
    assert!(
        text.contains("no volume can be made for it: failed to provision") && trouble,
        "{text}"
    );
    let busy = claim(
        "ctr-volume",
        "efs",
        "",
        "failed to provision volume: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    );
    assert!(!told(&busy).1 && told(&at(busy, "2026-11-15T10:00:40Z")).1);
    let mut young = claim("ctr-volume", "", "default-ctr", "");
    young.claims[0].metadata.creation_timestamp = Some(typed(json!("2026-11-15T09:59:58Z")));
    assert!(!told(&young).1 && told(&at(young, "2026-11-15T10:00:10Z")).1);
    let mut lost = claim("ctr-volume", "", "default-ctr", "");
    lost.claims[0].status = Some(typed(json!({"phase": "Lost"})));
    assert!(told(&lost).0.contains("its volume is gone"));
}

#[test]
fn servers_refuse_pods_in_many_words() {
    for (message, want) in [
        (
            "pods \"ctr-0-x\" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, minimum memory usage per Container is 1Gi, but request is 512Mi]",
            "a LimitRange of the namespace refuses it ([maximum cpu",
        ),
        (
            "pods \"ctr-0-x\" is forbidden: no PriorityClass with name urgent was found",
            "there is no priority class \"urgent\"",
        ),
        (
            "admission webhook \"policy.example\" denied the request: no team label",
            "webhook or policy of the cluster refuses it: admission webhook \"policy.example\" denied",
        ),
        (
            "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
            "webhook or policy of the cluster refuses it",
        ),
        (
            "Internal error occurred: failed calling webhook \"inject.example\": no endpoints available for service \"injector\"",
            "does not respond, so nothing can be made",
        ),
        (
            "pods \"x\" is forbidden: unable to create new content in namespace team because it is being terminated",
            "the namespace is being deleted",
        ),
    ] {
        let (text, trouble) = told(&with_event("Job", "FailedCreate", message));
        assert!(text.contains(want) && trouble, "{message}: {text}");
    }
    for message in [
        "Operation cannot be fulfilled on resourcequotas \"team\": the object has been modified; please apply your changes to the latest version and try again",
        "pods \"x\" is forbidden: status unknown for quota: team, resources: pods",
        "error looking up service account team/default: serviceaccount \"default\" not found",
        "etcdserver: request timed out",
    ] {
        let observed = with_event("Job", "FailedCreate", message);
        let (text, trouble) = told(&observed);
        assert!(
            text.contains("is tried again by itself") && !trouble,
            "{message}: {text}"
        );
        assert!(told(&at(observed, "2026-11-15T10:00:09Z")).1, "{message}");
    }
}

#[test]
fn pods_that_machines_throw_out() {
    let failed = |reason: &str, message: &str| {
        with_pod(json!({"phase": "Failed", "reason": reason, "message": message}))
    };
    for (reason, message, want) in [
        (
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi.",
            "evicted: The node was low on resource: memory",
        ),
        (
            "Evicted",
            "The node was low on resource: ephemeral-storage.",
            "a new pod takes its place",
        ),
        (
            "Terminated",
            "Pod was terminated in response to imminent node shutdown.",
            "its machine was shut down",
        ),
        (
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1000",
            "its machine had no room left when it came",
        ),
        (
            "NodeAffinity",
            "Predicate NodeAffinity failed",
            "no longer has the labels",
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed",
            "UnexpectedAdmissionError (Allocate failed)",
        ),
    ] {
        let (text, trouble) = told(&failed(reason, message));
        assert!(text.contains(want) && !trouble, "{reason}: {text}");
    }
    let own = failed(
        "Evicted",
        "Pod ephemeral local storage usage exceeds the total limit of containers 4Gi.",
    );
    let (text, trouble) = told(&own);
    assert!(text.contains("raise `resources.disk`") && trouble, "{text}");
    let mut again = own;
    again.job = Some(job(json!({"active": 3, "ready": 3})));
    let (text, trouble) = told(&again);
    assert!(
        text.contains("1 pod failed before (was evicted: Pod ephemeral") && !trouble,
        "{text}"
    );
}

#[test]
fn containers_that_cannot_run_or_do_not_answer() {
    for (message, want) in [
        (
            "failed to create containerd task: exec: \"canoe\": executable file not found in $PATH: unknown",
            "does not have the program",
        ),
        (
            "exec /usr/local/bin/canoe: exec format error",
            "not made for the processors",
        ),
    ] {
        let observed =
            terminated(json!({"reason": "StartError", "exitCode": 128, "message": message}));
        let (text, trouble) = told(&observed);
        assert!(
            text.contains("could not be started: ") && text.contains(want) && trouble,
            "{text}"
        );
    }
    let mut crashes = waiting(
        "CrashLoopBackOff",
        "back-off 10s restarting failed container",
    );
    let containers = crashes.pods[0]
        .status
        .as_mut()
        .unwrap()
        .container_statuses
        .as_mut()
        .unwrap();
    containers[0].last_state = Some(typed(
        json!({"terminated": {"exitCode": 1, "message": "canoe: the volume is read-only\n"}}),
    ));
    assert!(
        told(&crashes)
            .0
            .contains("fails again and again: it ended with code 1: the volume is read-only")
    );
    let mut silent = terminated(json!({"exitCode": 143}));
    silent.events = vec![event(
        "Pod",
        "ctr-1-x7k2p",
        "Killing",
        "Container node failed liveness probe, will be restarted",
        NOW,
    )];
    let (text, trouble) = told(&silent);
    assert!(
        text.contains("did not respond to its machine's health check") && !trouble,
        "{text}"
    );
}

#[test]
fn init_containers_are_looked_at_like_others() {
    let init = |state: Value| {
        with_pod(json!({"phase": "Pending",
        "initContainerStatuses": [container(state)],
        "containerStatuses": [container(json!({"waiting": {"reason": "PodInitializing"}}))]}))
    };
    let mut stuck =
        init(json!({"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}}));
    assert!(told(&stuck).0.contains("cannot be pulled"));
    stuck.pods[0].metadata.labels = Some(
        [(
            "batch.kubernetes.io/job-completion-index".to_owned(),
            "0".to_owned(),
        )]
        .into(),
    );
    assert_eq!(
        diagnose(&stuck).rows[0].shown.to_string(),
        "ImagePullBackOff"
    );
    let failed =
        init(json!({"terminated": {"exitCode": 78, "message": "canoe: the program is damaged\n"}}));
    let (text, trouble) = told(&failed);
    assert!(
        text.contains("ended with code 78 (a wrong configuration): the program is damaged")
            && trouble,
        "{text}"
    );
}

#[test]
fn sandboxes_fail_for_more_than_the_network() {
    let image = with_event(
        "Pod",
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: failed to get sandbox image \"registry.k8s.io/pause:3.8\": failed to pull image: i/o timeout",
    );
    let (text, trouble) = told(&image);
    assert!(
        text.contains("it cannot get image registry.k8s.io/pause:3.8")
            && text.contains("(i/o timeout)")
            && !text.contains("network")
            && trouble,
        "{text}"
    );
    let cni = with_event(
        "Pod",
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: rpc error: plugin type=\"calico\" failed (add): connection is unauthorized",
    );
    assert!(told(&cni).0.contains("connection is unauthorized"));
    let fresh = with_event(
        "Pod",
        "NetworkNotReady",
        "network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized",
    );
    assert!(!told(&fresh).1 && told(&at(fresh, "2026-11-15T10:02:01Z")).1);
}

#[test]
fn a_summary_of_mounts_does_not_hide_the_detail() {
    let mut observed = with_event(
        "Pod",
        "FailedMount",
        "MountVolume.SetUp failed: mount.nfs: access denied by server",
    );
    observed.events.push(event("Pod", "ctr-1-x7k2p", "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[job], unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition", "2026-11-15T10:02:00Z"));
    assert!(
        told(&at(observed, "2026-11-15T10:02:05Z"))
            .0
            .contains("check its export")
    );
    let local = with_event(
        "Pod",
        "FailedMount",
        "MountVolume.NewMounter initialization failed for volume \"local\" : path \"/mnt/files\" does not exist",
    );
    let (text, trouble) = told(&local);
    assert!(
        text.contains("its folder does not exist there") && trouble,
        "{text}"
    );
}

#[test]
fn endings_that_do_not_end() {
    let mut ending = with_pod(json!({"phase": "Running"}));
    ending.pods[0].metadata.deletion_timestamp = Some(typed(json!("2026-11-15T10:00:30Z")));
    let (text, trouble) = told(&ending);
    assert!(
        text.contains("ending: it was deleted") && !trouble,
        "{text}"
    );
    let late = at(ending, "2026-11-15T10:01:00Z");
    let (text, trouble) = told(&late);
    assert!(
        text.contains("should have ended long ago")
            && text.contains("machine worker-2 does not end it")
            && trouble,
        "{text}"
    );
    let mut held = late;
    held.pods[0].metadata.finalizers = Some(vec![
        "batch.kubernetes.io/job-tracking".into(),
        "example.com/backup".into(),
    ]);
    assert!(told(&held).0.contains("is kept by example.com/backup"));
    let mut deleted = starting();
    let metadata = &mut deleted.job.as_mut().unwrap().metadata;
    metadata.deletion_timestamp = Some(typed(json!(NOW)));
    metadata.finalizers = Some(vec![
        "foregroundDeletion".into(),
        "example.com/audit".into(),
    ]);
    assert!(!told(&deleted).1);
    let (text, trouble) = told(&at(deleted, "2026-11-15T10:00:06Z"));
    assert!(
        text.contains("its deletion waits for example.com/audit") && trouble,
        "{text}"
    );
    let mut removed = with_pod(json!({"phase": "Running", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}]}));
    removed.pods[0].metadata.deletion_timestamp = Some(typed(json!(NOW)));
    assert!(
        told(&removed)
            .0
            .contains("machine worker-2 is no longer in the cluster")
    );
}

#[test]
fn the_pod_that_the_failure_policy_names_is_the_cause() {
    let conditions = json!([{"type": "Failed", "status": "True", "reason": "PodFailurePolicy",
        "message": "Container node for pod team/ctr-2-c failed with exit code 78 matching FailJob rule at index 1"}]);
    let ended = |name: &str, code: i32, message: &str| {
        let state = json!({"terminated": {"exitCode": code, "message": message}});
        pod(
            name,
            json!({"phase": "Failed", "containerStatuses": [container(state)]}),
        )
    };
    let observed = Observed {
        job: Some(job(json!({"failed": 3, "conditions": conditions}))),
        pods: vec![
            ended("ctr-0-a", 75, "canoe node: x"),
            ended("ctr-1-b", 75, "canoe node: x"),
            ended("ctr-2-c", 78, "canoe: no such layer"),
        ],
        ..starting()
    };
    assert!(
        told(&observed)
            .0
            .contains("ended with code 78 (a wrong configuration): no such layer")
    );
}
