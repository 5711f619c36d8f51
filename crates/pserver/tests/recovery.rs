//! Servers and trainers are lost and replaced; the final model has the bytes of the undisturbed run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Cluster, Job, Model, Trainer, same};
use words::status::Phase;

/// A trainer's thread, which ends with the model and the number of roll-backs, and how many batches it has done.
type Started = (std::thread::JoinHandle<(Model, u32)>, Arc<AtomicU64>);

/// What trainers end with.
fn ended(trainers: Vec<Started>) -> Vec<(Model, u32)> {
    let threads = trainers.into_iter();
    threads.map(|(thread, _)| thread.join().unwrap()).collect()
}

/// Starts a trainer that tells how far it is.
fn start(job: &Job, trainer: u32, bases: &[u16]) -> Started {
    start_with(job, job.client_config(trainer, bases))
}

fn start_with(job: &Job, config: wire::SessionConfig) -> Started {
    start_gated(job, config, &Arc::new(AtomicU64::new(u64::MAX)))
}

/// Starts a trainer that rests after the batch of this number until the number is raised: however busy the machine is, the
/// job does not end before the test has done its part.
fn start_gated(job: &Job, config: wire::SessionConfig, gate: &Arc<AtomicU64>) -> Started {
    let done = Arc::new(AtomicU64::new(0));
    let (counter, gate) = (done.clone(), gate.clone());
    let job = job.clone();
    let thread = std::thread::spawn(move || {
        let mut trainer = Trainer::new(job, config);
        trainer.after_batch = Box::new(move |_, batch| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
            while batch >= gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let model = trainer.train().unwrap();
        (model, trainer.rollbacks)
    });
    (thread, done)
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(
            begun.elapsed() < Duration::from_secs(240),
            "waited too long for {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn directory(root: &Path, server: usize) -> PathBuf {
    root.join(format!("private-{server}"))
}

/// Replaces a server that is gone, on the same port.
fn replace(job: &Job, cluster: &mut Cluster, server: usize, root: &Path) {
    cluster.servers[server] = None;
    let config = job.server_config(cluster.bases[server], Some(directory(root, server)));
    let begun = Instant::now();
    loop {
        match pserver::Server::start(config.clone(), support::quiet()) {
            Ok(server_object) => {
                cluster.servers[server] = Some(server_object);
                return;
            }
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(240), "{error:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_server_is_replaced_and_the_model_is_the_same() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 5,
        passes: 2,
        ..Job::new(&[20, 17])
    };
    let wanted = job.local();
    let mut cluster = job.start(Some(root.path()));
    let trainers: Vec<_> = (0..2).map(|t| start(&job, t, &cluster.bases)).collect();
    for (kill, after) in [(0, 8), (1, 16), (1, 30)] {
        wait_for("batches", || trainers[0].1.load(Ordering::Relaxed) >= after);
        replace(&job, &mut cluster, kill, root.path());
    }
    let results = ended(trainers);
    assert!(results[0].1 >= 1, "the trainers were rolled back");
    same(&results[0].0, &wanted);
}

/// While a server is away, trainers name it; after the recovery they name whom they wait for then.
#[test]
fn what_a_trainer_says_of_its_waiting_is_true_in_a_recovery_and_after_it() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 5,
        passes: 1,
        ..Job::new(&[40, 40])
    };
    let mut cluster = job.start(Some(root.path()));
    let config = job.client_config(0, &cluster.bases);
    let watch = config.watch.clone();
    assert_eq!(watch.waits_for(), "");
    let first = start_with(&job, config);
    // Trainer 1 comes when trainer 0 has said that it is missed, and rests after its batch 30 until it may continue.
    wait_for("a word of who is missing", || {
        watch
            .waits_for()
            .contains("waits for trainers 1 to connect")
    });
    let (go, may_go) = channel();
    let (other, config) = (job.clone(), job.client_config(1, &cluster.bases));
    let second = std::thread::spawn(move || {
        let mut trainer = Trainer::new(other, config);
        trainer.after_batch = Box::new(move |_, batch| {
            std::thread::sleep(Duration::from_millis(2));
            if batch == 30 {
                may_go.recv().unwrap();
            }
        });
        trainer.train().unwrap()
    });
    wait_for("batches", || first.1.load(Ordering::Relaxed) >= 8);
    cluster.servers[1] = None;
    let away = format!("server 127.0.0.1:{} ", cluster.bases[1]);
    wait_for("a word of who is away", || {
        watch.waits_for().contains(&away)
    });
    for _ in 0..100 {
        let said = watch.waits_for();
        assert!(!said.contains("waits for trainer"), "{said}");
        std::thread::sleep(Duration::from_millis(1));
    }
    replace(&job, &mut cluster, 1, root.path());
    wait_for("a word of who rests", || {
        let said = watch.waits_for();
        let step = said.strip_prefix("step ");
        let step = step.and_then(|said| said.strip_suffix(" waits for trainer 1"));
        step.is_some_and(|step| step.parse::<u64>().unwrap() >= 29)
    });
    go.send(()).unwrap();
    let (model, rollbacks) = first.0.join().unwrap();
    assert!(rollbacks >= 1, "the trainers were rolled back");
    same(&model, &second.join().unwrap());
}

/// A server that is to end has its snapshot before the next one is due, and all servers have it.
#[test]
fn a_server_that_is_to_end_gets_a_snapshot_of_all_servers() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 1_000_000,
        passes: 1,
        ports: 2,
        sparse_ports: 1,
        ..Job::new(&[400, 390])
    };
    let wanted = job.local();
    let mut cluster = job.start(Some(root.path()));
    let gate = Arc::new(AtomicU64::new(8));
    let trainers: Vec<_> = (0..2)
        .map(|t| start_gated(&job, job.client_config(t, &cluster.bases), &gate))
        .collect();
    let batches = || trainers[0].1.load(Ordering::Relaxed);
    wait_for("batches", || batches() >= 8);
    let ending = cluster.servers[1].as_ref().unwrap();
    assert!(ending.report().snapshots.is_empty());
    ending.want_snapshot();
    let ordered = ending.report().wanted.unwrap();
    gate.store(300, Ordering::Relaxed);
    wait_for("the snapshot", || ending.stable() >= Some(ordered));
    for server in cluster.servers.iter().flatten() {
        let have = server.report().snapshots;
        assert!(
            have.iter().any(|step| *step >= ordered),
            "{ordered}: {have:?}"
        );
    }
    let before = batches();
    assert!(before < 390, "the job must still run");
    replace(&job, &mut cluster, 1, root.path());
    gate.store(u64::MAX, Ordering::Relaxed);
    let results = ended(trainers);
    same(&results[0].0, &wanted);
    assert!(results[0].1 >= 1, "the trainers were rolled back");
}

/// Without a common step that all wait for, the order names one that nobody has reached.
#[test]
fn an_order_is_heeded_in_asynchronous_training_too() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 1_000_000,
        passes: 1,
        mode: wire::Mode::Async { staleness: 4 },
        ..Job::new(&[600, 600, 600])
    };
    let cluster = job.start(Some(root.path()));
    let gate = Arc::new(AtomicU64::new(8));
    let trainers: Vec<_> = (0..3)
        .map(|t| start_gated(&job, job.client_config(t, &cluster.bases), &gate))
        .collect();
    wait_for("batches", || trainers[0].1.load(Ordering::Relaxed) >= 8);
    let ending = cluster.servers[1].as_ref().unwrap();
    ending.want_snapshot();
    let ordered = ending.report().wanted.unwrap();
    gate.store(300, Ordering::Relaxed);
    wait_for("the snapshot", || ending.stable() >= Some(ordered));
    gate.store(u64::MAX, Ordering::Relaxed);
    ended(trainers);
}

#[test]
fn a_server_lost_before_the_first_snapshot_starts_over() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        snapshot_every: 1000,
        passes: 1,
        ..Job::new(&[12, 12])
    };
    let wanted = job.local();
    let mut cluster = job.start(Some(root.path()));
    let gate = Arc::new(AtomicU64::new(6));
    let trainers: Vec<_> = (0..2)
        .map(|t| start_gated(&job, job.client_config(t, &cluster.bases), &gate))
        .collect();
    wait_for("batches", || trainers[0].1.load(Ordering::Relaxed) >= 5);
    replace(&job, &mut cluster, 1, root.path());
    gate.store(u64::MAX, Ordering::Relaxed);
    let results = ended(trainers);
    same(&results[0].0, &wanted);
}

/// Forwards bytes until told to cut: a trainer behind it can be lost without ending its process.
struct Relay {
    cut: Arc<Mutex<Vec<std::net::TcpStream>>>,
}

impl Relay {
    fn start(from: u16, to: u16) -> Self {
        let cut: Arc<Mutex<Vec<std::net::TcpStream>>> = Arc::default();
        let listener = std::net::TcpListener::bind((support::LOCALHOST, from)).unwrap();
        let kept = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = std::net::TcpStream::connect((support::LOCALHOST, to)) else {
                    continue;
                };
                kept.lock().unwrap().push(client.try_clone().unwrap());
                kept.lock().unwrap().push(server.try_clone().unwrap());
                pipe(client.try_clone().unwrap(), server.try_clone().unwrap());
                pipe(server, client);
            }
        });
        Self { cut }
    }

    fn cut(&self) {
        for stream in self.cut.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn pipe(mut from: std::net::TcpStream, mut to: std::net::TcpStream) {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
        let _ = from.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn cut_connections_at_any_moment_change_nothing() {
    let root = tempfile::tempdir().unwrap();
    let job = Job {
        servers: 1,
        snapshot_every: 3,
        passes: 2,
        ..Job::new(&[25, 25])
    };
    let wanted = job.local();
    let cluster = job.start(Some(root.path()));
    let front = support::free_ports(1);
    let relay = Relay::start(front, cluster.bases[0]);
    let trainers: Vec<_> = (0..2).map(|t| start(&job, t, &[front])).collect();
    for round in 0..8_u64 {
        let after = 3 + round * 3;
        wait_for("batches", || trainers[0].1.load(Ordering::Relaxed) >= after);
        std::thread::sleep(Duration::from_micros(support::noise(&[round]) % 5000));
        relay.cut();
    }
    let results = ended(trainers);
    same(&results[0].0, &wanted);
}

#[test]
fn a_snapshot_restores_on_other_numbers_of_servers() {
    let root = tempfile::tempdir().unwrap();
    let shared = root.path().join("shared");
    let mut job = Job {
        servers: 3,
        ports: 1,
        sparse_ports: 1,
        snapshot_every: 4,
        passes: 2,
        ..Job::new(&[10, 9])
    };
    let wanted = job.local();
    let (stop, stopped): (_, Receiver<()>) = channel();
    for (servers, ports, sparse_ports, until) in
        [(3, 1, 1, (0, 6)), (2, 2, 0, (1, 4)), (5, 1, 2, (9, 0))]
    {
        (job.servers, job.ports, job.sparse_ports) = (servers, ports, sparse_ports);
        let started: Vec<_> = (0..servers)
            .map(|_| job.start_server(Some(shared.clone())))
            .collect();
        let bases: Vec<u16> = started.iter().map(|(_, base)| *base).collect();
        let threads: Vec<_> = (0..2)
            .map(|trainer| {
                let (job, config, stop) = (
                    job.clone(),
                    job.client_config(trainer, &bases),
                    stop.clone(),
                );
                std::thread::spawn(move || {
                    let mut trainer = Trainer::new(job, config);
                    trainer.after_batch = Box::new(move |pass, batch| {
                        std::thread::sleep(Duration::from_millis(20));
                        if (pass, batch) == until {
                            // This trainer is never heard of again.
                            let _ = stop.send(());
                            std::thread::sleep(Duration::from_secs(3600));
                        }
                    });
                    trainer.train()
                })
            })
            .collect();
        if until.0 == 9 {
            let models: Vec<_> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap().unwrap())
                .collect();
            same(&models[0], &wanted);
        } else {
            stopped.recv_timeout(Duration::from_secs(240)).unwrap();
            stopped.recv_timeout(Duration::from_secs(240)).unwrap();
            let report = started[0].0.report();
            assert_eq!(report.phase, Phase::Running);
            // It is written on a thread of its own.
            for (server, _) in &started {
                wait_for("a snapshot", || !server.report().snapshots.is_empty());
            }
            started.iter().for_each(|(server, _)| server.shutdown());
        }
    }
}
