//! The job file: what a user says about a job on a cluster. `job.yaml` in the job folder, or flags.
//!
//! Everything has a default but the name. The volume's is the claim that `canoe cluster up` installs.
//! Unknown keys are errors: a key that is silently ignored is a setting that silently has no effect.

use std::collections::BTreeMap;

use run::node::pod::Discovery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A training job on Kubernetes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobFile {
    /// Version of this file's format; `canoe/v1`.
    #[serde(default = "default_version")]
    pub version: Version,
    /// Name of the job and of its folder on the volume; a DNS label of at most 52 characters.
    pub name: String,
    /// Namespace of all objects; left out: that of the kubeconfig's context, or else `default`.
    #[serde(default)]
    pub namespace: String,
    /// Also make the namespace, with restricted pod security.
    #[serde(default)]
    pub create_namespace: bool,
    /// Container image with the canoe binary and python3, best by digest; left out: `pythonImage`, and submit brings the binary along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image of a job without `image`: python3 and glibc are all it needs; best by digest.
    #[serde(default = "default_python_image")]
    pub python_image: String,
    /// `Always`, `IfNotPresent` or `Never`; left out: the cluster's own rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Secrets for a private registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Number of nodes; each is a pod with one parameter server and one trainer.
    #[serde(default = "default_nodes")]
    pub nodes: u32,
    /// Configuration file, relative to `configDir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Folder of the configuration in the job folder; v1's TRAIN_CONFIG_DIR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_dir: Option<String>,
    /// How the configuration folder gets to the nodes.
    #[serde(default)]
    pub config_from: ConfigFrom,
    /// Passes over the data; the trainer's own default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u64>,
    /// Compute threads of each trainer; v1's TRAINER_COUNT.
    #[serde(default = "default_trainer_count")]
    pub trainer_count: u32,
    /// Ports of each parameter server.
    #[serde(default)]
    pub ports: Ports,
    /// Further flags of the trainers, such as `--log_period=50`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How nodes find each other.
    #[serde(default)]
    pub discovery: Discovery,
    /// Where data, logs and models are; the claim `canoe-files` if left out.
    #[serde(default)]
    pub volume: Volume,
    /// User and group of all processes, not 0; this user must be able to write on the volume.
    #[serde(default = "default_user")]
    pub user: u32,
    /// What the data job does; left out: the shards are on the volume already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// Where models, logs and records are copied to besides the volume; left out: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<Copies>,
    /// The resources of a machine that each node needs.
    #[serde(default)]
    pub resources: Resources,
    /// Labels of machines that the nodes may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the nodes tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Also run on machines that the cloud may take back; adds the tolerations of the known clouds.
    #[serde(default)]
    pub spot: bool,
    /// Name of a PriorityClass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// The queue that holds the job back until all its nodes have room; left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<JobQueue>,
    /// How often a failed pod is replaced before the job fails; disruptions do not count.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Seconds that a pod has for a last snapshot before it must end.
    #[serde(default = "default_grace")]
    pub grace_seconds: u32,
    /// Seconds after which a finished job's pods are removed; logs and models stay on the volume.
    #[serde(default = "default_ttl")]
    pub ttl_seconds: u32,
    /// Seconds after which the job fails, even if it is still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<u64>,
    /// Seconds that nodes wait for each other and for their data before they give up (and are tried again).
    #[serde(default = "default_patience")]
    pub patience_seconds: u32,
    /// Let a Prometheus in the cluster read the metrics of all processes; left out: nobody can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// Encrypt and authenticate the traffic between the nodes.
    #[serde(default = "yes")]
    pub tls: bool,
    /// Let only the job's own pods talk to it.
    #[serde(default = "yes")]
    pub network_policy: bool,
}

/// Forms of the job file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// The first format.
    #[serde(rename = "canoe/v1")]
    V1,
}

/// How the configuration folder gets to the nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConfigFrom {
    /// In a ConfigMap (up to 1 MiB).
    #[default]
    ConfigMap,
    /// It is in the job's folder on the volume.
    Volume,
}

/// The ports of one parameter server: `first`, then the dense ones, then the sparse ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ports {
    /// v1's CONF_PADDLE_PORT.
    pub first: u16,
    /// v1's CONF_PADDLE_PORTS_NUM; at least 1.
    pub dense: u16,
    /// v1's CONF_PADDLE_PORTS_NUM_SPARSE.
    pub sparse: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            first: 7164,
            dense: 2,
            sparse: 2,
        }
    }
}

/// Where data, logs and models are. All nodes mount it for reading and writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Volume {
    /// A claim that exists.
    Claim {
        /// Its name.
        name: String,
    },
    /// An NFS server, or an EFS file system by its address.
    Nfs {
        /// Host name or address.
        server: String,
        /// Exported folder.
        #[serde(default = "root")]
        path: String,
        /// Size to declare; NFS does not enforce it.
        #[serde(default = "default_size")]
        size: String,
    },
    /// An EFS file system through its CSI driver.
    Efs {
        /// `fs-…`.
        file_system: String,
        /// `fsap-…`; gives the files an owner.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access_point: Option<String>,
        /// Size to declare; EFS does not enforce it.
        #[serde(default = "default_size")]
        size: String,
    },
    /// A class that makes volumes which many pods can write.
    StorageClass {
        /// Its name.
        name: String,
        /// Size to ask for.
        size: String,
    },
}

impl Default for Volume {
    fn default() -> Self {
        Self::Claim {
            name: CLUSTER_CLAIM.to_owned(),
        }
    }
}

/// The claim that a cluster made by `canoe cluster up` has.
pub(crate) const CLUSTER_CLAIM: &str = "canoe-files";

/// What pods run in if the job file names no image: a stock image that every registry mirror has.
pub const PYTHON_IMAGE: &str = "docker.io/library/python:3.13-slim-trixie";

/// What the data job does before the training.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Data {
    /// Archive, file or `s3://` prefix to download into `data/` of the job's folder; left out: the data are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// SHA-256 of the download, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Service account of the data job: one with a role that may read the bucket of an `s3://` url (Pod Identity, IRSA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// A Secret whose keys become environment variables of the data job, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL_S3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Further flags of `canoe data split`, such as `--shuffle`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split_args: Vec<String>,
}

/// A second place for what the job makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Copies {
    /// `s3://BUCKET/PREFIX`.
    pub to: String,
    /// When.
    #[serde(default)]
    pub at: CopyAt,
    /// Service account of the pod that copies: one with a role that may write there (Pod Identity, IRSA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// A Secret whose keys become environment variables of that pod, such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL_S3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// When copies are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CopyAt {
    /// Models after every pass, the rest at the end.
    #[default]
    Passes,
    /// Everything at the end.
    End,
}

/// A queue that starts a job when all its nodes have room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobQueue {
    /// Its name: a LocalQueue of Kueue in the job's namespace, or a Queue of Volcano.
    pub name: String,
    /// The program that manages the queue.
    #[serde(default)]
    pub of: QueueKind,
}

/// Who has queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueueKind {
    /// Kueue: the Job is suspended until it is admitted.
    #[default]
    Kueue,
    /// Volcano: a scheduler that places all pods of a group or none.
    Volcano,
}

/// The resources of a machine that each node needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Resources {
    /// Cores to reserve, such as `2` or `500m`.
    pub cpu: String,
    /// Memory to reserve and not to exceed, such as `4Gi`.
    pub memory: String,
    /// Local disk for the data shard, such as `20Gi`.
    pub disk: String,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            cpu: "1".to_owned(),
            memory: "2Gi".to_owned(),
            disk: "4Gi".to_owned(),
        }
    }
}

/// Who reads the metrics of a job's processes, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metrics {
    /// Port of every node; `/metrics` there has the metrics of its server and its trainer.
    #[serde(default = "default_metrics_port")]
    pub port: u16,
    /// Namespaces whose pods may read them, such as `monitoring`; `*` for all.
    pub from: Vec<String>,
}

impl Metrics {
    /// For the pods of these namespaces, at the usual port.
    pub fn for_namespaces(from: Vec<String>) -> Self {
        Self {
            port: default_metrics_port(),
            from,
        }
    }
}

/// A taint that the nodes tolerate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// Key of the taint; left out with `operator: Exists` it is every key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Exists` or `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

fn default_version() -> Version {
    Version::V1
}

fn default_python_image() -> String {
    PYTHON_IMAGE.to_owned()
}

fn default_nodes() -> u32 {
    3
}

fn default_trainer_count() -> u32 {
    1
}

fn default_retries() -> u32 {
    6
}

fn default_user() -> u32 {
    run::node::pod::USER
}

fn default_grace() -> u32 {
    60
}

fn default_patience() -> u32 {
    3_600
}

fn default_metrics_port() -> u16 {
    run::node::pod::METRICS_PORT
}

fn default_ttl() -> u32 {
    86_400
}

fn default_size() -> String {
    "100Gi".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

fn yes() -> bool {
    true
}

/// Why a job file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    /// The file is not YAML, has an unknown key, or a value of the wrong type. The message has the line.
    #[error("{file}: {message}")]
    Parse {
        /// The file.
        file: String,
        /// What and where.
        message: String,
    },
    /// Values that no cluster would accept; see [`crate::check`].
    #[error("{file}: {}", .problems.join("; "))]
    Invalid {
        /// The file.
        file: String,
        /// All of them.
        problems: Vec<String>,
    },
}

/// Replaces serde's words about enum variants by what to write in YAML.
fn in_words_of_yaml(message: &str) -> String {
    let alone = message.replace(
        "invalid type: unit variant, expected struct variant",
        "a word alone, expected a map such as {claim: {name: files}}",
    );
    let shapes = [
        ("volume.claim: ", "{name: files}"),
        ("volume.nfs: ", "{server: 10.0.0.5, path: /export}"),
        ("volume.efs: ", "{fileSystem: fs-0123456789abcdef0}"),
        ("volume.storageClass: ", "{name: shared, size: 100Gi}"),
    ];
    let shape = shapes.iter().find(|(key, _)| alone.contains(key));
    shape.map_or(alone.clone(), |(_, shape)| {
        alone.replace("struct variant", shape)
    })
}

impl JobFile {
    /// Reads and checks a file's text; `file` is for messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, JobFileError> {
        let read = yaml::parse(text).and_then(|document| document.typed());
        let job: Self = read.map_err(|error| JobFileError::Parse {
            file: file.to_owned(),
            message: in_words_of_yaml(&error.to_string()),
        })?;
        let problems = super::check::problems(&job);
        if problems.is_empty() {
            Ok(job)
        } else {
            Err(JobFileError::Invalid {
                file: file.to_owned(),
                problems,
            })
        }
    }

    /// The image of all pods.
    pub fn pod_image(&self) -> &str {
        self.image.as_deref().unwrap_or(&self.python_image)
    }

    /// A job of this name on this volume, in namespace `default`, all else by default.
    pub fn new(name: &str, volume: Volume) -> Self {
        Self {
            version: Version::V1,
            name: name.to_owned(),
            namespace: "default".to_owned(),
            create_namespace: false,
            image: None,
            python_image: default_python_image(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            nodes: default_nodes(),
            config: None,
            config_dir: None,
            config_from: ConfigFrom::default(),
            passes: None,
            trainer_count: default_trainer_count(),
            ports: Ports::default(),
            args: Vec::new(),
            discovery: Discovery::default(),
            volume,
            user: default_user(),
            copies: None,
            data: None,
            resources: Resources::default(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            spot: false,
            priority_class: None,
            queue: None,
            retries: default_retries(),
            grace_seconds: default_grace(),
            ttl_seconds: default_ttl(),
            deadline_seconds: None,
            patience_seconds: default_patience(),
            metrics: None,
            tls: true,
            network_policy: true,
        }
    }
}

/// The JSON schema of the job file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(JobFile).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_file_is_a_name() {
        let job = JobFile::parse("job.yaml", "name: ctr\n").unwrap();
        let mut expected = JobFile::new("ctr", Volume::default());
        expected.namespace = String::new();
        assert_eq!(job, expected);
    }

    #[test]
    fn a_volume_may_be_named() {
        let job = JobFile::parse(
            "job.yaml",
            "name: ctr\nnamespace: default\nvolume: {claim: {name: efsvol}}\n",
        )
        .unwrap();
        assert_eq!(
            job,
            JobFile::new(
                "ctr",
                Volume::Claim {
                    name: "efsvol".into()
                }
            )
        );
        assert_eq!((job.nodes, job.ports.first, job.tls), (3, 7164, true));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let parse = |text: &str| JobFile::parse("job.yaml", text).unwrap_err().to_string();
        let error = parse("name: ctr\nvolume: {claim: {name: x}}\nnode: 3\n");
        assert!(
            error.contains("job.yaml: line 3: unknown field `node`: did you mean `nodes`?"),
            "{error}"
        );
        let error = parse("name: ctr\nvolume: {claim: {name: x}}\nnodes: many\n");
        assert!(
            error.contains("nodes") && error.contains("line 3"),
            "{error}"
        );
        let error = parse("nodes: 3\n");
        assert!(error.contains("missing field `name`"), "{error}");
        let error = parse("name: ctr\nvolume: {nfs: {sever: x}}\n");
        assert!(
            error.contains("unknown field `sever`") && error.contains("line 2"),
            "{error}"
        );
        let error = parse("name: ctr\nvolume: {claim: files}\n");
        assert!(
            error.contains("expected {name: files}") && !error.contains("Volume::"),
            "{error}"
        );
        let error = parse("name: ctr\nvolume: claim\n");
        assert!(
            error.contains("expected a map such as") && !error.contains("variant"),
            "{error}"
        );
        let error = parse("version: canoe/v9\nname: ctr\nvolume: {claim: {name: x}}\n");
        assert!(
            error.contains("canoe/v1") && error.contains("line 1"),
            "{error}"
        );
    }

    #[test]
    fn a_file_written_is_a_file_read() {
        let mut job = JobFile::new(
            "ctr",
            Volume::Efs {
                file_system: "fs-1".into(),
                access_point: None,
                size: "1Gi".into(),
            },
        );
        job.data = Some(Data {
            url: Some("https://x/y.tgz".into()),
            ..Data::default()
        });
        let text = yaml::document(&serde_json::to_value(&job).unwrap());
        assert_eq!(JobFile::parse("job.yaml", &text).unwrap(), job);
    }

    #[test]
    fn the_documented_file_has_every_key_and_is_valid() {
        let text = include_str!("../../../deploy/job.yaml");
        JobFile::parse("deploy/job.yaml", text).unwrap();
        for key in schema()["properties"].as_object().unwrap().keys() {
            assert!(
                text.contains(&format!("\n{key}:")) || text.contains(&format!("\n# {key}:")),
                "{key}"
            );
        }
    }

    #[test]
    fn the_schema_describes_every_key() {
        let schema = schema();
        let properties = schema["properties"].as_object().unwrap();
        let job = JobFile::new("x", Volume::Claim { name: "y".into() });
        for key in serde_json::to_value(&job)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
        {
            assert!(
                properties[key]["description"].is_string() || properties[key]["$ref"].is_string(),
                "{key}"
            );
        }
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["required"], serde_json::json!(["name"]));
    }
}
