//! The newest snapshot that all servers have is never older than three periods, however slow and unequal their disks
//! are, and through losses of servers. Ages are counted in steps, so the speed of the machine does not matter.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use pserver::snapshot::Flush;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use support::{Cluster, Job, Model, Trainer, same, table};

const PERIOD: u64 = 10;

/// A job with little to compute and many steps, one pass.
fn job(steps: u64) -> Job {
    Job {
        servers: 3,
        snapshot_every: PERIOD,
        passes: 1,
        tables: vec![
            table("w", 4, 50, false, support::momentum()),
            table("emb", 200, 2, true, support::adagrad()),
        ],
        ..Job::new(&[steps, steps / 2])
    }
}

/// A disk whose n-th flush takes the n-th time of the list, in milliseconds, again and again.
fn slow(times: &'static [u64]) -> Flush {
    let count = AtomicU64::new(0);
    Flush::new(move |file: &File| {
        let at = count.fetch_add(1, Ordering::Relaxed) as usize % times.len();
        std::thread::sleep(Duration::from_millis(times[at]));
        file.sync_all()
    })
}

const DISKS: [&[u64]; 3] = [&[2, 0, 9], &[15, 4, 1, 0], &[0, 0, 0, 30, 1]];

fn directory(root: &Path, server: usize) -> PathBuf {
    root.join(format!("private-{server}"))
}

fn start_server(job: &Job, root: &Path, server: usize, port: u16, flush: Flush) -> pserver::Server {
    let config = pserver::ServerConfig {
        flush,
        ..job.server_config(port, Some(directory(root, server)))
    };
    loop {
        // The port of a server that was just lost may still be in use.
        if let Ok(server) = pserver::Server::start(config.clone(), support::quiet()) {
            return server;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(job: &Job, root: &Path) -> Cluster {
    let mut cluster = Cluster {
        servers: Vec::new(),
        bases: Vec::new(),
    };
    for (server, times) in DISKS.iter().enumerate() {
        let port = support::free_ports(1);
        let started = start_server(job, root, server, port, slow(times));
        cluster.servers.push(Some(started));
        cluster.bases.push(port);
    }
    cluster
}

/// Steps of which a server has a complete snapshot.
fn complete(root: &Path, server: usize) -> BTreeSet<u64> {
    let entries = std::fs::read_dir(directory(root, server));
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    let whole = paths.filter(|path| path.join(format!("server-{server:04}.json")).exists());
    whole
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix("step-")?;
            name.parse().ok()
        })
        .collect()
}

/// The newest snapshot that all servers have on their disks.
fn newest_common(root: &Path) -> u64 {
    // Older ones may be deleted and newer ones appear while this looks: what any look finds is there.
    let look = || {
        let mut common = complete(root, 0);
        (1..DISKS.len()).for_each(|server| {
            let other = complete(root, server);
            common.retain(|step| other.contains(step));
        });
        common.last().copied().unwrap_or(0)
    };
    (0..3).map(|_| look()).max().unwrap_or(0)
}

/// Trains; `tell` hears of every step of trainer 0.
fn train(
    job: &Job,
    bases: &[u16],
    mut tell: impl FnMut(u64) + Send + 'static,
) -> Vec<std::thread::JoinHandle<(Model, u32)>> {
    let mut first = Trainer::new(job.clone(), job.client_config(0, bases));
    first.after_batch = Box::new(move |_, batch| tell(batch + 1));
    let second = Trainer::new(job.clone(), job.client_config(1, bases));
    vec![run(first), run(second)]
}

fn run(mut trainer: Trainer) -> std::thread::JoinHandle<(Model, u32)> {
    std::thread::spawn(move || (trainer.train().unwrap(), trainer.rollbacks))
}

fn check_age(root: &Path, step: u64) {
    let common = newest_common(root);
    assert!(
        step <= common + 3 * PERIOD,
        "at step {step} the newest snapshot on all servers is of step {common}"
    );
}

#[test]
fn the_newest_common_snapshot_is_never_older_than_three_periods() {
    let root = tempfile::tempdir().unwrap();
    let job = job(10_000);
    let wanted = job.local();
    let mut cluster = start(&job, root.path());
    let (looked, lost): (Sender<u64>, Receiver<u64>) = channel();
    let path = root.path().to_owned();
    let trainers = train(&job, &cluster.bases, move |step| {
        if step.is_multiple_of(7) {
            check_age(&path, step);
        }
        if step.is_multiple_of(3_500) {
            let _ = looked.send(step);
        }
    });
    // Servers are lost on the way.
    for server in [1, 2] {
        lost.recv().unwrap();
        cluster.servers[server] = None;
        let port = cluster.bases[server];
        let again = start_server(&job, root.path(), server, port, slow(DISKS[server]));
        cluster.servers[server] = Some(again);
    }
    let results: Vec<_> = trainers.into_iter().map(|t| t.join().unwrap()).collect();
    assert!(results[0].1 >= 1, "the trainers were rolled back");
    same(&results[0].0, &wanted);
    let kept = (0..3).map(|server| complete(root.path(), server).len());
    assert!(kept.max().unwrap() <= 100, "old snapshots are deleted");
}

/// After thousands of steps a server that is to end still gets its snapshot.
#[test]
fn an_order_is_heeded_after_many_snapshots() {
    let root = tempfile::tempdir().unwrap();
    let job = job(200_000);
    let cluster = start(&job, root.path());
    let (reached, far) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let _trainers = train(&job, &cluster.bases, move |step| {
        if step == 1_000 {
            let _ = reached.send(());
        }
        while stopped.load(Ordering::Acquire) {
            std::thread::park();
        }
    });
    far.recv().unwrap();
    let ending = cluster.servers[1].as_ref().unwrap();
    ending.want_snapshot();
    let ordered = ending.report().wanted.unwrap();
    while ending.stable() < Some(ordered) {
        std::thread::sleep(Duration::from_millis(2));
    }
    for server in cluster.servers.iter().flatten() {
        let have = server.report().snapshots;
        assert!(
            have.iter().any(|step| *step >= ordered),
            "{ordered}: {have:?}"
        );
    }
    stop.store(true, Ordering::Release);
}

/// A server whose disk is full for a while: the snapshots of that time go everywhere, and then they are taken again.
#[test]
fn a_snapshot_that_one_server_cannot_write_is_removed_on_all() {
    let root = tempfile::tempdir().unwrap();
    let job = job(600);
    let wanted = job.local();
    let mut cluster = start(&job, root.path());
    let full = Arc::new(AtomicBool::new(false));
    let disk = full.clone();
    let flush = Flush::new(move |file: &File| {
        if disk.load(Ordering::Acquire) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        file.sync_all()
    });
    cluster.servers[2] = None;
    let failing = start_server(&job, root.path(), 2, cluster.bases[2], flush);
    cluster.servers[2] = Some(failing);
    let mut first = Trainer::new(job.clone(), job.client_config(0, &cluster.bases));
    let switch = full.clone();
    first.after_batch = Box::new(move |_, batch| {
        switch.store((200..400).contains(&batch), Ordering::Release);
    });
    let path = root.path().to_owned();
    first.before_close = Box::new(move |_| {
        // Heartbeats tell the servers what is of no use.
        let of_no_use = |step: &u64| (210..400).contains(step);
        while complete(&path, 0).iter().any(of_no_use) || newest_common(&path) < 570 {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let second = Trainer::new(job.clone(), job.client_config(1, &cluster.bases));
    let trainers = vec![run(first), run(second)];
    let results: Vec<_> = trainers.into_iter().map(|t| t.join().unwrap()).collect();
    same(&results[0].0, &wanted);
    let failures = cluster.servers[2].as_ref().unwrap().metrics();
    assert!(
        !failures.contains("snapshot_failures_total 0\n"),
        "{failures}"
    );
}
