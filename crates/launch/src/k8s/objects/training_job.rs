//! The training Job: Indexed, one pod per node, with a contract on exit codes.
//!
//! | code of the node | meaning | what the Job does |
//! |---|---|---|
//! | 0 | done | counts the index as completed |
//! | 64, 78 | wrong usage, wrong configuration | fails at once: a new pod would do the same |
//! | 143 | asked to end (pod deleted, machine drained) | new pod, no retry is used up |
//! | 75 and others | may go better next time | new pod, one retry is used up |
//!
//! `backoffLimitPerIndex` would be wrong here: one node for good means that all stand still.

use serde_json::{Value, json};

use super::pod::{CONFIG_PATH, HEALTH_PORT, JOB_PATH, SECRET_PATH, WORK_PATH, variable};
use super::{Inputs, JOB_NAME_LABEL, content, data_ports, labels, metadata, pod};
use crate::k8s::job::{ConfigFrom, Discovery, JobFile};
use crate::node::environment::name as variable_name;

/// The container's name; the failure policy refers to it.
pub const CONTAINER: &str = "node";

/// The Job.
pub fn object(inputs: &Inputs) -> Value {
    let job = &inputs.job;
    let mut labels = labels(job);
    labels["app.kubernetes.io/component"] = json!("node");
    // The controller adds this one too; tools that look at manifests alone need to see it.
    labels[JOB_NAME_LABEL] = json!(job.name);
    let mut spec = json!({
        "backoffLimit": job.retries,
        "completionMode": "Indexed",
        "completions": job.nodes,
        "parallelism": job.nodes,
        "podFailurePolicy": failure_policy(Some(CONTAINER), &[64, 78]),
        "podReplacementPolicy": "Failed",
        "template": {"metadata": pod_metadata(job, labels), "spec": pod_spec(inputs)},
        "ttlSecondsAfterFinished": job.ttl_seconds,
    });
    if let Some(seconds) = job.deadline_seconds {
        spec["activeDeadlineSeconds"] = json!(seconds);
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(job, &job.name), "spec": spec})
}

/// With the annotations by which a Prometheus finds what to read.
fn pod_metadata(job: &JobFile, labels: Value) -> Value {
    let mut metadata = json!({"labels": labels});
    if let Some(metrics) = &job.metrics {
        metadata["annotations"] = json!({
            "prometheus.io/path": "/metrics",
            "prometheus.io/port": metrics.port.to_string(),
            "prometheus.io/scrape": "true",
        });
    }
    metadata
}

/// The exit-code contract. The first rule that matches decides. `container`: whose code counts, or any.
pub fn failure_policy(container: Option<&str>, hopeless: &[i32]) -> Value {
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

fn pod_spec(inputs: &Inputs) -> Value {
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
    if lists_pods {
        spec["serviceAccountName"] = json!(job.name);
    }
    pod::place(&mut spec, job);
    spec
}

fn container(inputs: &Inputs) -> Value {
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
        "image": job.image,
        "command": ["canoe"],
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
fn arguments(inputs: &Inputs) -> Vec<String> {
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
    variables.push(json!({"name": variable_name::POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}));
    variables.push(variable("HOME", "/tmp"));
    variables.push(variable("PYTHONDONTWRITEBYTECODE", 1));
    variables
}

/// The variables of v1's tutorial.
pub fn v1_variables(job: &JobFile) -> Vec<Value> {
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

fn volumes(inputs: &Inputs) -> Vec<Value> {
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
