//! The training Job: Indexed, one pod per node, with a contract on exit codes.
//!
//! | code of the node | meaning | what the Job does |
//! |---|---|---|
//! | 0 | done | counts the index as completed |
//! | 64, 78 | wrong usage, wrong configuration | fails at once: a new pod would do the same |
//! | 143 | asked to end (pod deleted, machine drained) | new pod, no retry is used up |
//! | 75 and others | another attempt may succeed | new pod, one retry is used up |
//!
//! Retries are counted over all nodes, because the whole job stands still without one of them. `backoffLimitPerIndex` is
//! one larger than the number of retries, so it never decides. But because of it, the pause before a successor (10 s,
//! doubled each time, up to 10 minutes) grows with the losses of its own node only. Without it, the tenth drained machine
//! of a long job would cost ten minutes, whichever node was on it.

use serde_json::{Value, json};

use super::pod::variable;
use super::{
    JOB_NAME_LABEL, KEYS_ANNOTATION, ObjectInputs, QUEUE_LABEL, content, data_ports, labels,
    metadata, pod, program,
};
use crate::job::{ConfigFrom, JobFile, JobQueue, QueueKind};
use run::node::environment::name as variable_name;
use run::node::pod::Discovery;
use run::node::pod::{CONFIG_PATH, HEALTH_PORT, JOB_PATH, SECRET_PATH, WORK_PATH};

/// The container's name; the failure policy refers to it.
pub(super) const CONTAINER: &str = "node";

/// The Job.
pub(super) fn object(inputs: &ObjectInputs) -> Value {
    let job = &inputs.job;
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("node");
    // The controller adds this one too; tools that look at manifests alone need to see it.
    labels[JOB_NAME_LABEL] = json!(job.name);
    let mut spec = json!({
        "backoffLimit": job.retries,
        "backoffLimitPerIndex": job.retries.saturating_add(1),
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        "podFailurePolicy": training_policy(inputs),
        "podReplacementPolicy": "Failed",
        "template": {"metadata": pod_metadata(inputs, labels), "spec": pod_spec(inputs)},
        "ttlSecondsAfterFinished": job.ttl_seconds,
    });
    if let Some(seconds) = job.deadline_seconds {
        spec["activeDeadlineSeconds"] = json!(seconds);
    }
    let mut metadata = metadata(job, &job.name);
    match &job.queue {
        // Its webhook suspends a Job that names a queue.
        Some(queue) if queue.of == QueueKind::Kueue => {
            metadata["labels"][QUEUE_LABEL] = json!(queue.name);
        }
        Some(queue) => metadata["annotations"] = volcano(job, queue),
        None => {}
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
}

/// What Volcano reads of a Job and of its pods: the queue, and how many pods are placed together.
fn volcano(job: &JobFile, queue: &JobQueue) -> Value {
    json!({
        "scheduling.volcano.sh/group-min-member": job.nodes.to_string(),
        "scheduling.volcano.sh/queue-name": queue.name,
    })
}

/// A new pod cannot help if the program is damaged or does not run in the image.
fn training_policy(inputs: &ObjectInputs) -> Value {
    let mut policy = failure_policy(Some(CONTAINER), &[64, 78]);
    if let (Some(_), Some(rules)) = (&inputs.program, policy["rules"].as_array_mut()) {
        rules.push(json!({
            "action": "FailJob",
            "onExitCodes": {"containerName": program::CONTAINER, "operator": "In", "values": [78]},
        }));
    }
    policy
}

/// The metadata of the pods: with the fingerprint of the job's keys, and the annotations by which Prometheus finds
/// metrics.
fn pod_metadata(inputs: &ObjectInputs, labels: Value) -> Value {
    let keys = inputs.credentials.fingerprint();
    let mut annotations = json!({KEYS_ANNOTATION: keys});
    if let Some(metrics) = &inputs.job.metrics {
        annotations["prometheus.io/path"] = json!("/metrics");
        annotations["prometheus.io/port"] = json!(metrics.port.to_string());
        annotations["prometheus.io/scrape"] = json!("true");
    }
    if let Some(queue) = inputs
        .job
        .queue
        .as_ref()
        .filter(|it| it.of == QueueKind::Volcano)
        && let Value::Object(group) = volcano(&inputs.job, queue)
    {
        for (key, value) in group {
            annotations[key] = value;
        }
    }
    json!({"annotations": annotations, "labels": labels})
}

/// The exit-code contract. The first rule that matches decides. `container`: whose code counts, or any.
pub(super) fn failure_policy(container: Option<&str>, hopeless: &[i32]) -> Value {
    let on_codes = |action: &str, codes: &[i32]| {
        let mut rule = json!({
            "action": action,
            "onExitCodes": {"operator": "In", "values": codes},
        });
        if let Some(name) = container {
            rule["onExitCodes"]["containerName"] = json!(name);
        }
        rule
    };
    json!({
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"status": "True", "type": "DisruptionTarget"}]},
            on_codes("FailJob", hopeless),
            on_codes("Ignore", &[143]),
        ],
    })
}

fn pod_spec(inputs: &ObjectInputs) -> Value {
    let job = &inputs.job;
    let lists_pods = job.discovery == Discovery::Podlist;
    let mut spec = json!({
        "automountServiceAccountToken": lists_pods,
        "containers": [container(inputs)],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod::security(job),
        "subdomain": job.name,
        "terminationGracePeriodSeconds": job.grace_seconds,
        "topologySpreadConstraints": [{
            "labelSelector": {"matchLabels": {JOB_NAME_LABEL: job.name}},
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
        }],
        "volumes": volumes(inputs),
    });
    if job
        .queue
        .as_ref()
        .is_some_and(|it| it.of == QueueKind::Volcano)
    {
        spec["schedulerName"] = json!("volcano");
    }
    if lists_pods {
        spec["serviceAccountName"] = json!(job.name);
    }
    pod::place(&mut spec, job);
    let patience = job.patience_seconds;
    program::add(&mut spec, job, inputs.program.as_ref(), patience);
    spec
}

fn container(inputs: &ObjectInputs) -> Value {
    let job = &inputs.job;
    let mut ports: Vec<Value> = data_ports(job)
        .into_iter()
        .map(|(name, port)| json!({"name": name, "containerPort": port, "protocol": "TCP"}))
        .collect();
    ports.push(json!({"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}));
    if let Some(metrics) = &job.metrics {
        ports.push(json!({"name": "metrics", "containerPort": metrics.port, "protocol": "TCP"}));
    }
    let probe = |path: &str, period: u32, failures: u32| {
        json!({
            "httpGet": {"path": path, "port": "health"},
            "periodSeconds": period,
            "failureThreshold": failures,
            "timeoutSeconds": 5,
        })
    };
    let resources = &job.resources;
    json!({
        "name": CONTAINER,
        "image": job.pod_image(),
        "command": [program::command(inputs.program.as_ref())],
        "args": arguments(inputs),
        "env": variables(job),
        "ports": ports,
        "resources": {
            "limits": {"memory": resources.memory, "ephemeral-storage": resources.disk},
            "requests": {"cpu": resources.cpu, "memory": resources.memory, "ephemeral-storage": resources.disk},
        },
        "securityContext": pod::container_security(),
        "startupProbe": probe("/healthz", 2, 30),
        "livenessProbe": probe("/healthz", 10, 6),
        "readinessProbe": probe("/readyz", 2, 3),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(job),
    })
}

/// `canoe node` takes its own flags and passes all others on to the trainer, as v1's start script did.
fn arguments(inputs: &ObjectInputs) -> Vec<String> {
    let job = &inputs.job;
    let discovery = match job.discovery {
        Discovery::Indexed => "indexed",
        Discovery::Podlist => "podlist",
    };
    let mut args = vec![
        "node".to_owned(),
        format!("--discovery={discovery}"),
        format!("--config={}", inputs.config_file),
    ];
    // Ten seconds of the pod's grace period are for the node itself.
    args.push(format!(
        "--grace={}",
        job.grace_seconds.saturating_sub(10).max(1)
    ));
    args.push(format!("--patience={}", job.patience_seconds));
    args.extend(
        job.metrics
            .as_ref()
            .map(|metrics| format!("--metrics_port={}", metrics.port)),
    );
    args.extend(job.passes.map(|passes| format!("--num_passes={passes}")));
    args.extend(job.args.iter().cloned());
    args
}

fn variables(job: &JobFile) -> Vec<Value> {
    let mut variables = v1_variables(job);
    variables.push(variable(variable_name::SECRET_DIR, SECRET_PATH));
    variables.push(variable(variable_name::WORK_DIR, WORK_PATH));
    if job.config_from == ConfigFrom::ConfigMap {
        variables.push(variable(variable_name::CONFIG_DIR, CONFIG_PATH));
    }
    // For server-side apply a reference is one value: without the apiVersion, which the server fills in, a second apply
    // by another manager would be a conflict.
    variables.push(json!({"name": variable_name::POD_IP, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}));
    variables.push(variable("HOME", "/tmp"));
    variables.push(variable("PYTHONDONTWRITEBYTECODE", 1));
    variables
}

/// The variables of v1's tutorial.
pub(super) fn v1_variables(job: &JobFile) -> Vec<Value> {
    vec![
        variable(variable_name::JOB_NAME, &job.name),
        variable(variable_name::JOB_PATH, JOB_PATH),
        variable(variable_name::JOB_NAMESPACE, &job.namespace),
        variable(
            variable_name::TRAIN_CONFIG_DIR,
            job.config_dir.as_deref().unwrap_or("."),
        ),
        variable(variable_name::NIC, "eth0"),
        variable(variable_name::PORT, job.ports.first),
        variable(variable_name::PORTS_NUM, job.ports.dense),
        variable(variable_name::PORTS_NUM_SPARSE, job.ports.sparse),
        variable(variable_name::GRADIENT_NUM, job.nodes),
        variable(variable_name::TRAINER_COUNT, job.trainer_count),
    ]
}

fn volumes(inputs: &ObjectInputs) -> Vec<Value> {
    let job = &inputs.job;
    let mut volumes = vec![
        pod::job_volume(job),
        pod::tmp_volume(),
        json!({"name": "work", "emptyDir": {"sizeLimit": job.resources.disk}}),
        json!({"name": "secret", "secret": {"secretName": job.name, "defaultMode": 0o440}}),
    ];
    if job.config_from == ConfigFrom::ConfigMap {
        let items = content::config_items(&inputs.config);
        volumes.push(json!({"name": "config", "configMap": {"name": job.name, "items": items}}));
    }
    volumes
}

fn mounts(job: &JobFile) -> Vec<Value> {
    let read_only =
        |name: &str, path: &str| json!({"name": name, "mountPath": path, "readOnly": true});
    let mut mounts = vec![
        pod::job_mount(),
        pod::tmp_mount(),
        json!({"name": "work", "mountPath": WORK_PATH}),
        read_only("secret", SECRET_PATH),
    ];
    if job.config_from == ConfigFrom::ConfigMap {
        mounts.push(read_only("config", CONFIG_PATH));
    }
    mounts
}
