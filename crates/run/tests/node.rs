//! Runs nodes as pods do, with addresses of their own (127.0.0.x), a folder as volume, a stand-in for the list of
//! pods and one for the canoe binary.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use run::event::JobEvent;
use run::local::ports::Reservation;
use run::local::{RunEnd, Shutdown};
use run::node::discover::{ListedPod, Peers, PodSource, PodsOptions};
use run::node::patience::NotYet;
use run::node::pod::Discovery;
use run::node::rollcall::Agreement;
use run::node::run::{self as node, NodeError, NodeStart};

/// Stands in for the API server: gives everybody who asks the same answer.
#[derive(Debug)]
struct Pods {
    answer: Mutex<Result<Vec<ListedPod>, NotYet>>,
}

impl Pods {
    fn show(&self, answer: Result<Vec<ListedPod>, NotYet>) {
        *self.answer.lock().unwrap() = answer;
    }

    fn show_pods(&self, pods: &[(&str, &str)]) {
        let listed = |(ip, phase): &(&str, &str)| ListedPod {
            name: (*ip).to_owned(),
            phase: (*phase).to_owned(),
            ip: Some((*ip).to_owned()),
            is_ending: false,
        };
        self.show(Ok(pods.iter().map(listed).collect()));
    }
}

impl PodSource for Pods {
    fn pods(&self, options: &PodsOptions) -> Result<Vec<ListedPod>, NotYet> {
        assert_eq!(
            (options.namespace.as_str(), options.job.as_str()),
            ("default", "ctr")
        );
        self.answer.lock().unwrap().clone()
    }
}

struct Cluster {
    root: tempfile::TempDir,
    api: Arc<Pods>,
    port: u16,
    program: PathBuf,
}

impl Cluster {
    /// A volume with a job of three shards. `behaviour` is for the stand-in of the canoe binary.
    fn new(behaviour: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("volume/ctr");
        fs::create_dir_all(job.join("quick_start")).unwrap();
        fs::write(job.join("quick_start/trainer_config.lr.py"), "").unwrap();
        for id in 0..3 {
            let shard = job.join(format!("{id}/data"));
            fs::create_dir_all(&shard).unwrap();
            fs::write(shard.join("train.txt"), "line\n".repeat(id + 1)).unwrap();
        }
        fs::create_dir(root.path().join("secret")).unwrap();
        fs::write(root.path().join("secret/token"), "0123456789\n").unwrap();
        let program = root.path().join("canoe");
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/canoe.py");
        fs::write(
            &program,
            format!(
                "#!/bin/sh\nFAKE={behaviour} exec {} \"$@\"\n",
                fake.display()
            ),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let api = Arc::new(Pods {
            answer: Mutex::new(Ok(Vec::new())),
        });
        api.show_pods(&[
            ("127.0.0.2", "Running"),
            ("127.0.0.3", "Running"),
            ("127.0.0.4", "Running"),
            ("127.0.0.9", "Failed"),
        ]);
        // The same port on other loopback addresses is free too, or as good as.
        let port = Reservation::new(4).unwrap().first();
        Self {
            root,
            api,
            port,
            program,
        }
    }

    fn job(&self) -> PathBuf {
        self.root.path().join("volume/ctr")
    }

    fn start(&self, node: u8) -> NodeStart {
        let ip = format!("127.0.0.{}", node + 2);
        let path = |name: &str| self.root.path().join(name).display().to_string();
        let variables = BTreeMap::from(
            [
                ("JOB_NAME", "ctr".to_owned()),
                ("JOB_PATH", path("volume")),
                ("JOB_NAMESPACE", "default".to_owned()),
                ("TRAIN_CONFIG_DIR", "quick_start".to_owned()),
                ("CONF_PADDLE_NIC", ip.clone()),
                ("CONF_PADDLE_PORT", self.port.to_string()),
                ("CONF_PADDLE_PORTS_NUM", "2".to_owned()),
                ("CONF_PADDLE_PORTS_NUM_SPARSE", "2".to_owned()),
                ("CONF_PADDLE_GRADIENT_NUM", "3".to_owned()),
                ("KUBERNETES_SERVICE_HOST", "127.0.0.1".to_owned()),
                ("KUBERNETES_SERVICE_PORT_HTTPS", "6443".to_owned()),
                ("POD_IP", ip),
                ("CANOE_SECRET_DIR", path("secret")),
                ("CANOE_WORK_DIR", path(&format!("disk-{node}"))),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        NodeStart {
            program: self.program.clone(),
            variables,
            discovery: Discovery::Podlist,
            arguments: vec!["--num_passes=2".into()],
            account_dir: "/nowhere".into(),
            pods: self.api.clone(),
            health_port: 0,
            metrics_port: 0,
            patience: Duration::from_secs(240),
            grace: Duration::from_secs(2),
        }
    }

    /// The other nodes know the same list of pods, although they do not run here.
    fn others_agree(&self) {
        let hosts: Vec<String> = (2..5).map(|last| format!("127.0.0.{last}")).collect();
        let agreement = Agreement::new(self.job().join("output"), "0123456789");
        for own in 0..3 {
            let hosts = hosts.clone();
            // Only the last one finds that all agree.
            drop(agreement.reached(&Peers { own, hosts }));
        }
    }

    /// Runs all three nodes to their end.
    fn run_all(&self) -> Vec<(Result<RunEnd, NodeError>, Vec<JobEvent>)> {
        let starts: Vec<NodeStart> = (0..3).map(|node| self.start(node)).collect();
        thread::scope(|scope| {
            let nodes: Vec<_> = starts
                .iter()
                .map(|start| scope.spawn(move || run_one(start, &Shutdown::new())))
                .collect();
            nodes.into_iter().map(|node| node.join().unwrap()).collect()
        })
    }
}

fn run_one(start: &NodeStart, shutdown: &Shutdown) -> (Result<RunEnd, NodeError>, Vec<JobEvent>) {
    let mut events = Vec::new();
    let result = node::run(start, shutdown, &mut |event| events.push(event));
    (result, events)
}

#[test]
fn three_nodes_find_each_other_train_their_shards_and_end_together() {
    let cluster = Cluster::new("trainer-2:late");
    for (node, (result, events)) in cluster.run_all().into_iter().enumerate() {
        assert_eq!(
            node::exit_code(&result),
            0,
            "node {node}: {result:?} {events:#?}"
        );
        let log = fs::read_to_string(cluster.job().join(format!("output/node_{node}/train.log")))
            .unwrap();
        assert!(
            log.contains(&format!("Batch=1 samples={}", node + 1)),
            "{log}"
        );
        assert!(events.iter().any(|event| matches!(event, JobEvent::Preparing { what } if what.contains("127.0.0.2, 127.0.0.3, 127.0.0.4"))));
    }
    let log = fs::read_to_string(cluster.job().join("output/node_2/train.log")).unwrap();
    assert!(log.contains("all servers are still there"), "{log}");
    assert!(cluster.job().join("output/pass-00001/done").exists());
}

#[test]
fn a_count_that_never_comes_ends_with_the_reason() {
    let cluster = Cluster::new("");
    cluster
        .api
        .show_pods(&[("127.0.0.2", "Running"), ("127.0.0.3", "Pending")]);
    let start = NodeStart {
        patience: Duration::from_millis(300),
        ..cluster.start(0)
    };
    let (result, _) = run_one(&start, &Shutdown::new());
    assert_eq!(node::exit_code(&result), 75);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("1 of 3 pods are running; 127.0.0.3 is Pending"),
        "{text}"
    );
}

#[test]
fn a_late_pod_is_waited_for() {
    let cluster = Cluster::new("");
    cluster
        .api
        .show(Err(NotYet::Later("the API server returned 500".to_owned())));
    let starts: Vec<NodeStart> = (0..3).map(|node| cluster.start(node)).collect();
    thread::scope(|scope| {
        let nodes: Vec<_> = starts
            .iter()
            .map(|start| {
                scope.spawn(|| {
                    let mut told_trouble = false;
                    let result = node::run(start, &Shutdown::new(), &mut |event| {
                        if matches!(&event, JobEvent::Preparing { what } if what.contains("returned 500")) {
                            told_trouble = true;
                            cluster.api.show_pods(&[("127.0.0.2", "Running"), ("127.0.0.3", "Running"), ("127.0.0.4", "Running")]);
                        }
                    });
                    (node::exit_code(&result), told_trouble)
                })
            })
            .collect();
        let results: Vec<(u8, bool)> = nodes.into_iter().map(|node| node.join().unwrap()).collect();
        assert!(results.iter().all(|(code, _)| *code == 0), "{results:?}");
        assert!(results.iter().any(|(_, told)| *told));
    });
}

#[test]
fn what_can_not_get_better_fails_at_once_with_a_code_that_fails_the_job() {
    let forbidden = Cluster::new("");
    forbidden
        .api
        .show(Err(NotYet::Never("it needs verb list on pods".to_owned())));
    let (result, _) = run_one(&forbidden.start(0), &Shutdown::new());
    assert_eq!(node::exit_code(&result), 78);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("verb list on pods")
    );

    let no_config = Cluster::new("");
    no_config.others_agree();
    fs::remove_file(no_config.job().join("quick_start/trainer_config.lr.py")).unwrap();
    let (result, _) = run_one(&no_config.start(0), &Shutdown::new());
    assert_eq!(node::exit_code(&result), 78);

    let mut start = no_config.start(0);
    start.variables.remove("JOB_NAME");
    start.variables.remove("POD_IP");
    let (result, _) = run_one(&start, &Shutdown::new());
    assert_eq!(node::exit_code(&result), 64);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("JOB_NAME is not set; POD_IP is not set"),
        "{text}"
    );
}

#[test]
fn a_missing_shard_and_an_unwritable_volume_are_named() {
    let cluster = Cluster::new("");
    cluster.others_agree();
    fs::remove_dir_all(cluster.job().join("0")).unwrap();
    let start = NodeStart {
        patience: Duration::from_millis(100),
        ..cluster.start(0)
    };
    let (result, _) = run_one(&start, &Shutdown::new());
    assert_eq!(node::exit_code(&result), 75);
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("ctr/data/0 nor ") && text.contains("ctr/0/data exists"),
        "{text}"
    );

    fs::write(
        cluster.job().join("output").join("node_1"),
        "a file in the way",
    )
    .unwrap();
    let (result, _) = run_one(&cluster.start(1), &Shutdown::new());
    assert!(
        matches!(result, Err(NodeError::Volume { .. })),
        "{result:?}"
    );
}

#[test]
fn a_pod_that_must_go_passes_the_request_on() {
    let cluster = Cluster::new("trainer-0:wait");
    cluster.others_agree();
    let start = cluster.start(0);
    let shutdown = Shutdown::new();
    // The other servers do not exist: the trainer waits for them until it gets the request to end.
    let result = node::run(&start, &shutdown, &mut |event| {
        if matches!(event, JobEvent::Started { process, .. } if process.role == words::process::Role::Trainer)
        {
            shutdown.request();
        }
    });
    assert_eq!(node::exit_code(&result), 143, "{result:?}");
}

#[test]
fn wrong_usage_of_the_trainer_becomes_the_code_that_fails_the_job() {
    // The others cannot finish without it.
    let cluster = Cluster::new("trainer-0:hang,trainer-1:usage,trainer-2:hang");
    let starts: Vec<NodeStart> = (0..3).map(|node| cluster.start(node)).collect();
    let shutdown = Shutdown::new();
    thread::scope(|scope| {
        let others: Vec<_> = [0, 2]
            .map(|node| {
                let (start, shutdown) = (&starts[node], &shutdown);
                scope.spawn(move || run_one(start, shutdown))
            })
            .into();
        let (result, _) = run_one(&starts[1], &Shutdown::new());
        assert_eq!(node::exit_code(&result), 64, "{result:?}");
        // As Kubernetes does when the Job has failed.
        shutdown.request();
        for other in others {
            assert_eq!(node::exit_code(&other.join().unwrap().0), 143);
        }
    });
}
