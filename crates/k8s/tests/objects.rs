//! Golden manifests, and what must agree between objects.
//!
//! `CANOE_BLESS=1 cargo test -p canoe-k8s --test objects` writes the golden files anew; look at the
//! difference before you commit it. `e2e/manifests.sh` validates the same files against the schemas of
//! several Kubernetes versions.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use k8s::credentials::{Credentials, Tls};
use k8s::folder::Files;
use k8s::job::{
    ConfigFrom, Copies, CopyAt, Data, JobFile, JobQueue, Metrics, QueueKind, Toleration, Volume,
};
use k8s::objects::{self, ObjectInputs};
use k8s::program::{Architecture, Program};
use k8s::{check, tutorial, verify};
use run::node::pod::Discovery;
use serde_json::{Value, json};

fn inputs(job: JobFile) -> ObjectInputs {
    let tls = Tls {
        authority: "authority".into(),
        certificate: "certificate".into(),
        key: "key".into(),
    };
    let config = Files::from([
        (
            "trainer_config.lr.py".to_owned(),
            b"from paddle.trainer_config_helpers import *\n\nsettings(batch_size=128)\n".to_vec(),
        ),
        ("lib/words.bin".to_owned(), vec![0xff, 0xfe, 0x00]),
    ]);
    let credentials = Credentials {
        token: "0123456789abcdef".into(),
        tls: job.tls.then_some(tls),
    };
    ObjectInputs {
        job,
        config,
        config_file: "trainer_config.lr.py".into(),
        config_folder: "quick_start".into(),
        credentials,
        program: None,
        data_note: None,
    }
}

/// As few settings as possible.
fn plain() -> JobFile {
    JobFile {
        image: Some("registry.example/canoe@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef".into()),
        config_dir: Some("quick_start".into()),
        ..JobFile::new(
            "paddle-cluster-job",
            Volume::Claim {
                name: "efsvol".into(),
            },
        )
    }
}

/// As many settings as possible.
fn rich() -> JobFile {
    JobFile {
        namespace: "team-a".into(),
        create_namespace: true,
        image_pull_policy: Some("IfNotPresent".into()),
        image_pull_secrets: vec!["registry".into()],
        spot: true,
        user: 1234,
        nodes: 2,
        passes: Some(10),
        args: vec!["--log_period=50".into()],
        discovery: Discovery::Podlist,
        volume: Volume::Nfs {
            server: "fs-2cbf7385.efs.us-west-2.amazonaws.com".into(),
            path: "/".into(),
            size: "100Gi".into(),
        },
        data: Some(Data {
            url: Some("https://example.com/preprocessed_data.tar.gz".into()),
            sha256: Some("a".repeat(64)),
            split_args: vec!["--shuffle".into()],
            ..Data::default()
        }),
        node_selector: [("pool".to_owned(), "training".to_owned())].into(),
        tolerations: vec![Toleration {
            key: Some("eks.amazonaws.com/capacityType".into()),
            operator: Some("Equal".into()),
            value: Some("SPOT".into()),
            effect: Some("NoSchedule".into()),
        }],
        priority_class: Some("training".into()),
        queue: Some(JobQueue {
            name: "team".into(),
            of: QueueKind::Volcano,
        }),
        copies: Some(Copies {
            to: "s3://models/team/".into(),
            at: CopyAt::Passes,
            service_account: Some("writer".into()),
            environment: Some("store".into()),
        }),
        deadline_seconds: Some(36_000),
        metrics: Some(Metrics::for_namespaces(vec!["monitoring".into()])),
        ..plain()
    }
}

fn efs() -> JobFile {
    let volume = Volume::Efs {
        file_system: "fs-0123".into(),
        access_point: Some("fsap-0123".into()),
        size: "100Gi".into(),
    };
    JobFile {
        nodes: 1,
        queue: Some(JobQueue {
            name: "team".into(),
            of: QueueKind::Kueue,
        }),
        volume,
        config_from: ConfigFrom::Volume,
        tls: false,
        network_policy: false,
        ..plain()
    }
}

fn class() -> JobFile {
    JobFile {
        volume: Volume::StorageClass {
            name: "nfs-client".into(),
            size: "50Gi".into(),
        },
        ..plain()
    }
}

/// The first line in which two texts differ, with its number.
fn difference(want: &str, found: &str) -> String {
    let (mut want, mut found) = (want.lines(), found.lines());
    for number in 1.. {
        match (want.next(), found.next()) {
            (None, None) => break,
            (old, new) if old == new => {}
            (old, new) => {
                let [old, new] = [old, new].map(|line| line.unwrap_or("(the end)"));
                return format!("line {number}\n  was: {old}\n  is:  {new}");
            }
        }
    }
    "the last line end".to_owned()
}

fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("CANOE_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        want == text,
        "{name} differs at {}\nCANOE_BLESS=1 writes it anew; look at the whole difference before you commit it",
        difference(&want, text)
    );
}

#[test]
fn every_object_is_as_recorded() {
    for (name, job) in [
        ("plain.yaml", plain()),
        ("rich.yaml", rich()),
        ("efs.yaml", efs()),
        ("class.yaml", class()),
    ] {
        assert_eq!(check::problems(&job), Vec::<String>::new(), "{name}");
        golden(name, &yaml::documents(&objects::all(&inputs(job))));
    }
    golden("job.schema.json", &format!("{:#}\n", k8s::job::schema()));
}

/// What the kustomization adds by itself is left out.
#[test]
fn the_base_for_kustomize_is_the_same_job() {
    let job = JobFile {
        image: Some("canoe:0.1.0".into()),
        tls: false,
        volume: Volume::default(),
        ..plain()
    };
    let mut inputs = inputs(job);
    inputs.config.remove("lib/words.bin");
    let mut objects = objects::all(&inputs);
    objects.retain(|object| object["kind"] != "ConfigMap" && object["kind"] != "Secret");
    for object in &mut objects {
        // Which keys there are is said by whoever makes the Secret.
        if let Some(Value::Object(metadata)) = object.pointer_mut("/spec/template/metadata") {
            metadata.remove("annotations");
        }
    }
    golden(
        "../../../../deploy/kustomize/job.yaml",
        &yaml::documents(&objects),
    );
}

#[test]
fn the_pod_monitor_finds_the_nodes_of_a_job_with_metrics() {
    let text = include_str!("../../../deploy/pod-monitor.yaml");
    let monitor = yaml::parse(text).unwrap().value;
    let objects = objects::all(&inputs(rich()));
    let jobs = objects.iter().filter(|object| object["kind"] == "Job");
    let wanted = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    let is_found = |job: &&Value| {
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        wanted.iter().all(|(key, value)| &labels[key] == value)
    };
    let found: Vec<&Value> = jobs.filter(is_found).collect();
    assert_eq!(found.len(), 1, "the training job and not the data job");
    let ports = found[0]["spec"]["template"]["spec"]["containers"][0]["ports"].as_array();
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    assert!(ports.unwrap().iter().any(|have| &have["name"] == port));
}

#[test]
fn the_layout_of_the_tutorial_is_as_recorded() {
    let job = JobFile {
        image: plain().image,
        ..tutorial::job("fs-2cbf7385.efs.us-west-2.amazonaws.com")
    };
    let inputs = inputs(job);
    golden("tutorial.yaml", &tutorial::stream(&inputs));
    let names: Vec<&str> = tutorial::files(&inputs)
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(
        names,
        [
            "pv.yaml",
            "pvc.yaml",
            "paddle-data-job.yaml",
            "paddle-cluster-job.yaml"
        ]
    );
}

/// Nothing but a name: a stock image, and the program from the volume.
fn without_image() -> ObjectInputs {
    let job = JobFile {
        image: None,
        data: Some(Data::default()),
        ..plain()
    };
    ObjectInputs {
        program: Some(Program {
            sha256: "ab".repeat(32),
            architecture: Architecture::Arm64,
        }),
        ..inputs(job)
    }
}

#[test]
fn a_job_without_an_image_brings_its_program_along() {
    let inputs = without_image();
    let objects = objects::all(&inputs);
    assert_eq!(
        verify::problems(&objects, &["efsvol"]),
        Vec::<String>::new()
    );
    golden("stock.yaml", &yaml::documents(&objects));
    for job in objects.iter().filter(|object| object["kind"] == "Job") {
        let spec = &job["spec"]["template"]["spec"];
        let step = &spec["initContainers"][0];
        assert_eq!(step["name"], "program", "before all others");
        assert_eq!(spec["nodeSelector"]["kubernetes.io/arch"], "arm64");
        assert_eq!(spec["containers"][0]["command"], json!(["/program/canoe"]));
        let words = step["command"].to_string();
        assert!(words.contains(&"ab".repeat(32)) && words.contains("/.canoe/"));
    }
}

#[test]
fn rendered_jobs_agree_with_themselves() {
    for job in [plain(), rich(), efs(), class()] {
        let problems = verify::problems(&objects::all(&inputs(job)), &["efsvol"]);
        assert_eq!(problems, Vec::<String>::new());
    }
}

#[test]
fn podlist_alone_gets_rights_and_only_to_list_pods() {
    let kinds = |job| -> Vec<String> {
        objects::all(&inputs(job))
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect()
    };
    let indexed = kinds(plain());
    assert!(
        !indexed
            .iter()
            .any(|kind| kind.contains("Role") || kind == "ServiceAccount"),
        "{indexed:?}"
    );
    let objects = objects::all(&inputs(rich()));
    let role = objects
        .iter()
        .find(|object| object["kind"] == "Role")
        .unwrap();
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    );
    let training = |job| {
        objects::all(&inputs(job)).pop().unwrap()["spec"]["template"]["spec"]["automountServiceAccountToken"].clone()
    };
    assert_eq!(
        (training(plain()), training(rich())),
        (json!(false), json!(true))
    );
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    let render = || yaml::documents(&objects::all(&inputs(rich())));
    assert_eq!(render(), render());
}

/// Changes one value of the rendered objects and shows what the verifier says.
fn after(job: JobFile, kind: &str, pointer: &str, value: Value) -> Vec<String> {
    let mut objects = objects::all(&inputs(job));
    let object = objects
        .iter_mut()
        .rev()
        .find(|object| object["kind"] == kind)
        .unwrap();
    *object
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("{kind} has no {pointer}")) = value;
    verify::problems(&objects, &["efsvol"])
}

#[test]
fn faults_that_no_validator_finds_are_found() {
    let spec = "/spec/template/spec";
    for (kind, pointer, value, want) in [
        (
            "Job",
            format!("{spec}/subdomain"),
            json!("other"),
            "there is no Service of that name",
        ),
        (
            "Job",
            format!("{spec}/volumes/0/persistentVolumeClaim/claimName"),
            json!("efsvo1"),
            "mounts PersistentVolumeClaim efsvo1",
        ),
        (
            "Job",
            format!("{spec}/volumes/3/secret/secretName"),
            json!("x"),
            "mounts Secret x",
        ),
        (
            "Job",
            format!("{spec}/volumes/4/configMap/items/0/key"),
            json!("x"),
            "key \"x\"",
        ),
        (
            "Job",
            format!("{spec}/containers/0/volumeMounts/0/name"),
            json!("x"),
            "mounts volume x",
        ),
        (
            "Job",
            format!("{spec}/containers/0/name"),
            json!("x"),
            "names container node",
        ),
        (
            "Job",
            format!("{spec}/restartPolicy"),
            json!("OnFailure"),
            "needs restartPolicy Never",
        ),
        (
            "Job",
            format!("{spec}/securityContext/runAsNonRoot"),
            json!(false),
            "lacks runAsNonRoot",
        ),
        (
            "Job",
            format!("{spec}/securityContext/runAsUser"),
            json!(0),
            "lacks runAsUser other than 0",
        ),
        (
            "Job",
            format!("{spec}/securityContext/seccompProfile"),
            json!({}),
            "lacks seccompProfile",
        ),
        (
            "Job",
            format!("{spec}/containers/0/securityContext/capabilities/drop"),
            json!([]),
            "lacks capabilities.drop",
        ),
        (
            "Job",
            format!("{spec}/containers/0/securityContext/allowPrivilegeEscalation"),
            json!(true),
            "lacks allowPrivilegeEscalation",
        ),
        (
            "Job",
            format!("{spec}/containers/0/ports/0"),
            json!({"hostPort": 7164, "containerPort": 7164}),
            "lacks no hostPort",
        ),
        (
            "Job",
            format!("{spec}/volumes/0"),
            json!({"name": "job", "hostPath": {"path": "/"}}),
            "mounts a hostPath",
        ),
        (
            "Service",
            "/spec/clusterIP".into(),
            json!("10.0.0.1"),
            "is not headless",
        ),
        (
            "Service",
            "/spec/publishNotReadyAddresses".into(),
            json!(false),
            "hides pods",
        ),
        (
            "Service",
            "/spec/selector".into(),
            json!({"app": "x"}),
            "does not select the pods",
        ),
        (
            "Service",
            "/metadata/namespace".into(),
            json!("x"),
            "different namespaces",
        ),
        (
            "NetworkPolicy",
            "/spec/podSelector/matchLabels".into(),
            json!({"app": "x"}),
            "does not select the pods",
        ),
        (
            "NetworkPolicy",
            "/spec/ingress/0/ports/0/port".into(),
            json!(7170),
            "no ingress for port 7164",
        ),
        (
            "NetworkPolicy",
            "/spec/egress/0/ports/0/port".into(),
            json!(7170),
            "no egress for port 7164",
        ),
        (
            "NetworkPolicy",
            "/spec/egress/1/ports".into(),
            json!([]),
            "lets no DNS out",
        ),
    ] {
        let problems = after(plain(), kind, &pointer, value);
        assert!(
            problems.iter().any(|problem| problem.contains(want)),
            "{want}: {problems:?}"
        );
    }
    for (kind, pointer, value, want) in [
        (
            "PersistentVolumeClaim",
            "/spec/accessModes",
            json!(["ReadWriteOnce"]),
            "is not ReadWriteMany",
        ),
        (
            "PersistentVolume",
            "/spec/claimRef/name",
            json!("x"),
            "is not kept for it",
        ),
        (
            "Job",
            "/spec/template/spec/serviceAccountName",
            json!("x"),
            "runs as ServiceAccount x",
        ),
        ("Secret", "/kind", json!("ConfigMap"), "is there twice"),
    ] {
        let problems = after(rich(), kind, pointer, value);
        assert!(
            problems.iter().any(|problem| problem.contains(want)),
            "{want}: {problems:?}"
        );
    }
}
