//! Servers and trainers started by hand, as an operator would: other numbers of servers, full disks, certificates,
//! metrics, shutdown, and mistakes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{CANOE, Folder, failed, said, succeeded};

const LR: &str = "trainer_config.lr.py";
const EMB: &str = "trainer_config.emb.py";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const DEADLINE: Duration = Duration::from_secs(240);

/// A job folder with the working directories of two nodes.
struct Hand {
    folder: Folder,
    /// Arguments of all trainers.
    trainer: Vec<String>,
    snapshots: PathBuf,
}

/// Servers that run.
struct Servers {
    children: Vec<Child>,
    list: String,
    status: Vec<u16>,
}

fn free_port() -> u16 {
    run::local::ports::Reservation::new(1).unwrap().first()
}

impl Hand {
    fn new(config: &str, samples: usize) -> Hand {
        let folder = Folder::with_demo(samples);
        folder.vary(
            LR,
            "async.py",
            &[("batch_size=1", "is_async=True, batch_size=1")],
        );
        let by_row = "size=128, param_attr=ParamAttr(sparse_update=True))";
        folder.vary(EMB, "rows.py", &[("size=128)", by_row)]);
        succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
        succeeded(&folder.nodes(2, config, &["--passes=1"]));
        let save = folder.path("saved");
        let snapshots = folder.path("snapshots");
        fs::create_dir_all(&snapshots).unwrap();
        let trainer = [
            "train".to_owned(),
            format!("--config={config}"),
            format!("--save_dir={}", save.display()),
            "--local=0".to_owned(),
            "--ports_num=1".to_owned(),
            "--ports_num_for_sparse=0".to_owned(),
            "--num_gradient_servers=2".to_owned(),
            "--dot_period=0".to_owned(),
            format!("--snapshot_dir={}", snapshots.display()),
        ];
        Hand {
            folder,
            trainer: trainer.to_vec(),
            snapshots,
        }
    }

    fn servers(&self, count: usize) -> Servers {
        let start = |command: &mut Command| command.spawn().unwrap();
        self.servers_with(count, CANOE, &[], start)
    }

    /// Starts servers; `before` are words before the program's own arguments.
    fn servers_with(
        &self,
        count: usize,
        program: &str,
        before: &[String],
        start: impl Fn(&mut Command) -> Child,
    ) -> Servers {
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let list: Vec<String> = ports.iter().map(|p| format!("127.0.0.1:{p}")).collect();
        let status: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let mut children = Vec::new();
        for id in 0..count {
            let log = fs::File::create(self.folder.path(&format!("server_{id}.log"))).unwrap();
            let mut command = Command::new(program);
            command
                .args(before)
                .args(["pserver", "--nics=lo", "--ports_num=1"])
                .args(["--ports_num_for_sparse=0", "--num_gradient_servers=2"])
                .arg(format!("--port={}", ports[id]))
                .arg(format!("--server_id={id}"))
                .arg(format!("--status_port={}", status[id]))
                .arg(format!("--snapshot_dir={}", self.snapshots.display()))
                .env("CANOE_JOB_TOKEN", TOKEN)
                .stdout(Stdio::null())
                .stderr(log);
            children.push(start(&mut command));
        }
        Servers {
            children,
            list: list.join(","),
            status,
        }
    }

    fn trainer_command(&self, id: usize, servers: &Servers, more: &[&str]) -> Command {
        let mut command = Command::new(CANOE);
        let work = self.folder.path(&format!("job/output/node_{id}/work"));
        command
            .args(&self.trainer)
            .arg(format!("--pservers={}", servers.list))
            .arg(format!("--trainer_id={id}"))
            .args(more)
            .current_dir(work)
            .env("CANOE_JOB_TOKEN", TOKEN);
        command
    }

    fn trainers(&self, servers: &Servers, more: &[&str]) -> Vec<Child> {
        let start = |id: usize| {
            let log = fs::File::create(self.folder.path(&format!("trainer_{id}.log"))).unwrap();
            let mut command = self.trainer_command(id, servers, more);
            command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
        };
        (0..2).map(start).collect()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path(name)).unwrap_or_default()
    }

    fn logs(&self) -> String {
        let names = [
            "server_0.log",
            "server_1.log",
            "trainer_0.log",
            "trainer_1.log",
        ];
        names.map(|name| self.log(name)).join("\n")
    }

    /// Steps of which every one of `servers` has a whole snapshot.
    fn snapshots(&self, servers: usize) -> Vec<String> {
        let mut steps: Vec<String> = fs::read_dir(&self.snapshots)
            .unwrap()
            .flatten()
            .filter(|entry| {
                let manifest = |id| entry.path().join(format!("server-{id:04}.json"));
                (0..servers).all(|id| manifest(id).exists())
            })
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        steps.sort();
        steps
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < DEADLINE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn end(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        end(&mut self.children);
    }
}

fn is_over(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_some()
}

fn metrics(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.contains("canoe_pserver_").then_some(text)
}

fn metric(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .parse()
        .unwrap()
}

#[test]
fn a_job_of_three_servers_continues_with_two_and_then_with_five() {
    let hand = Hand::new("rows.py", 1200);
    let passes = "--num_passes=4";
    succeeded(&hand.folder.played(2, "rows.py", "played", &[passes]));
    let expected = hand.folder.parameters("played/pass-00003");
    let more = [passes, "--snapshot_period=2"];
    for count in [3, 2] {
        let known = hand.snapshots(count);
        let mut servers = hand.servers(count);
        let mut trainers = hand.trainers(&servers, &more);
        wait_until("a new snapshot", || {
            assert!(!trainers.iter_mut().any(is_over), "{}", hand.logs());
            hand.snapshots(count).last() > known.last()
        });
        end(&mut trainers);
        end(&mut servers.children);
    }
    let servers = hand.servers(5);
    let mut trainers = hand.trainers(&servers, &more);
    let mut seen = String::new();
    wait_until("the end", || {
        seen = metrics(servers.status[0]).unwrap_or(std::mem::take(&mut seen));
        trainers.iter_mut().all(is_over)
    });
    for trainer in &mut trainers {
        assert!(trainer.wait().unwrap().success(), "{}", hand.logs());
    }
    let log = hand.log("server_0.log");
    assert!(log.contains("from the snapshot of step"), "{log}");
    let hottest = metric(&seen, "canoe_pserver_shard_touched_rows_total{");
    assert!(
        hottest > metric(&seen, "canoe_pserver_shard_touched_rows_mean"),
        "{seen}"
    );
    assert_eq!(
        hand.folder.parameters("saved/pass-00003"),
        expected,
        "{}",
        hand.logs()
    );
}

#[test]
fn a_trainer_that_comes_after_the_end_hears_so() {
    let hand = Hand::new(LR, 600);
    let mut servers = hand.servers(2);
    let mut trainers = hand.trainers(&servers, &["--num_passes=1"]);
    wait_until("the end", || trainers.iter_mut().all(is_over));
    wait_until("the end of servers", || {
        servers.children.iter_mut().all(is_over)
    });
    let late = hand
        .trainer_command(1, &servers, &["--num_passes=1"])
        .output()
        .unwrap();
    succeeded(&late);
    assert!(said(&late).contains("already finished"), "{}", said(&late));
}

#[test]
fn asynchronous_trainers_keep_their_bound_and_it_is_seen() {
    let hand = Hand::new("async.py", 2400);
    let servers = hand.servers(2);
    let more = ["--num_passes=3", "--async_staleness=2"];
    let mut trainers = hand.trainers(&servers, &more);
    let mut seen = String::new();
    wait_until("the end", || {
        seen = metrics(servers.status[0]).unwrap_or(std::mem::take(&mut seen));
        trainers.iter_mut().all(is_over)
    });
    for trainer in &mut trainers {
        assert!(trainer.wait().unwrap().success(), "{}", hand.logs());
    }
    let lead = metric(&seen, "canoe_pserver_staleness_batches_max ");
    assert!((0.0..=2.0).contains(&lead), "{seen}");
    assert!(metric(&seen, "canoe_pserver_pushes_total") > 10.0, "{seen}");
}

#[test]
fn a_full_disk_costs_snapshots_but_not_the_job() {
    let mut hand = Hand::new(LR, 1200);
    let allowed = Command::new("unshare").args(["-m", "true"]).output();
    if !allowed.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: file systems cannot be mounted here (unshare -m)");
        return;
    }
    // Room for one snapshot and a half.
    let servers = hand.servers(1);
    let mut trainers = hand.trainers(&servers, &["--num_passes=1", "--snapshot_period=2"]);
    wait_until("a snapshot", || !hand.snapshots(1).is_empty());
    let first = hand.snapshots.join(&hand.snapshots(1)[0]);
    let size: u64 = fs::read_dir(first)
        .unwrap()
        .flatten()
        .map(|file| file.metadata().unwrap().len())
        .sum();
    wait_until("the end", || trainers.iter_mut().all(is_over));
    drop(servers);

    let small = hand.folder.path("small");
    fs::create_dir_all(&small).unwrap();
    hand.snapshots = small.clone();
    hand.trainer
        .retain(|argument| !argument.starts_with("--snapshot_dir"));
    let kib = size * 3 / 2 / 1024 + 16;
    let script = format!(
        "mount -t tmpfs -o size={kib}k none {} && exec {CANOE} \"$@\"",
        small.display()
    );
    let before = ["-m", "sh", "-c", &script, "canoe"].map(str::to_owned);
    let servers = hand.servers_with(1, "unshare", &before, |command| command.spawn().unwrap());
    let mut trainers = hand.trainers(&servers, &["--num_passes=2", "--snapshot_period=2"]);
    let root = PathBuf::from(format!("/proc/{}/root", servers.children[0].id()));
    let inside = root.join(small.strip_prefix("/").unwrap());
    let (mut seen, mut kept) = (String::new(), false);
    wait_until("the end", || {
        seen = metrics(servers.status[0]).unwrap_or(std::mem::take(&mut seen));
        let manifests = fs::read_dir(&inside).into_iter().flatten().flatten();
        let mut manifests = manifests.map(|step| step.path().join("server-0000.json"));
        kept |= seen.contains("canoe_pserver_snapshot_failures_total")
            && metric(&seen, "canoe_pserver_snapshot_failures_total") > 0.0
            && manifests.any(|manifest| manifest.exists());
        trainers.iter_mut().all(is_over)
    });
    for trainer in &mut trainers {
        assert!(trainer.wait().unwrap().success(), "{}", hand.logs());
    }
    let log = hand.log("server_0.log");
    assert!(log.contains("the job continues"), "{log}");
    assert!(log.contains("No space left"), "{log}");
    assert!(kept, "an earlier snapshot stays\n{seen}\n{log}");
}

#[test]
fn narrow_numbers_and_keys_are_flags_of_a_run() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    succeeded(&folder.nodes(2, LR, &["--passes=1"]));
    let plain = folder.parameters("job/output/pass-00000");
    for precision in ["f16", "bf16"] {
        let narrow = format!("--wire-precision={precision}");
        succeeded(&folder.nodes(2, LR, &["--passes=1", &narrow]));
        let rounded = folder.parameters("job/output/pass-00000");
        assert_ne!(rounded, plain, "{precision} rounds");
    }
    let tls = k8s::credentials::Credentials::generate("job", "default", true);
    let tls = tls.unwrap().tls.unwrap();
    let files = [
        ("ca", tls.authority),
        ("cert", tls.certificate),
        ("key", tls.key),
    ];
    let flags = files.map(|(name, text)| {
        let path = folder.path(&format!("{name}.pem"));
        fs::write(&path, text).unwrap();
        format!("--tls-{name}={}", path.display())
    });
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    succeeded(&folder.nodes(2, LR, &[&["--passes=1"], &flags[..]].concat()));
    assert_eq!(
        folder.parameters("job/output/pass-00000"),
        plain,
        "over TLS"
    );
    let half = failed(&folder.nodes(2, LR, &["--passes=1", flags[0]]));
    assert!(half.contains("--tls-cert"), "{half}");
}

fn server(folder: &Folder, args: &[&str]) -> Output {
    Command::new(CANOE)
        .arg("pserver")
        .args(args)
        .env("CANOE_JOB_TOKEN", TOKEN)
        .current_dir(folder.path("."))
        .output()
        .unwrap()
}

#[test]
fn settings_that_cannot_be_meant_are_named() {
    let folder = Folder::empty();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = format!("--port={}", taken.local_addr().unwrap().port());
    let cases: [(&[&str], &str); 4] = [
        (&["--nics=nosuch0"], "nosuch0"),
        (&["--ports_num=0"], "--ports_num"),
        (&["--num_gradient_servers=0"], "--num_gradient_servers"),
        (&["--nics=lo", &port], "choose another --port"),
    ];
    for (args, words) in cases {
        let text = failed(&server(&folder, args));
        assert!(text.contains(words), "{args:?}: {text}");
    }
    let nobody = Command::new(CANOE).arg("pserver").output().unwrap();
    assert!(failed(&nobody).contains("CANOE_JOB_TOKEN"));
}

#[test]
fn trainers_that_contradict_the_job_are_refused_and_the_others_continue() {
    let hand = Hand::new(LR, 600);
    let servers = hand.servers(2);
    let mut trainers = hand.trainers(&servers, &["--num_passes=100000", "--save_only_one=1"]);
    wait_until("the job begins", || {
        hand.log("server_0.log").contains("generation 1 starts")
    });
    let turned: Vec<&str> = servers.list.rsplit(',').collect();
    let turned = format!("--pservers={}", turned.join(","));
    let cases: [(usize, &[&str], &str); 4] = [
        (1, &["--num_gradient_servers=3"], "--num_gradient_servers"),
        (7, &[], "out of range"),
        (1, &[&turned], "a different list of servers"),
        (
            1,
            &["--snapshot_period=77"],
            "a different model or uses different settings",
        ),
    ];
    for (id, more, words) in cases {
        let mut command = hand.trainer_command(id.min(1), &servers, more);
        command
            .arg(format!("--trainer_id={id}"))
            .arg("--num_passes=100000");
        let text = failed(&command.output().unwrap());
        assert!(text.contains(words), "{id} {more:?}: {text}");
    }
    let stranger = hand
        .trainer_command(1, &servers, &[])
        .env("CANOE_JOB_TOKEN", "another token of nobody")
        .output()
        .unwrap();
    assert!(failed(&stranger).contains("token"), "{}", said(&stranger));
    let log = hand.log("server_0.log");
    assert!(!log.contains("is over"), "the others continue\n{log}");
    assert!(!trainers.iter_mut().any(is_over), "{}", hand.logs());
    end(&mut trainers);
}

#[test]
fn asynchronous_training_learns() {
    let folder = Folder::empty();
    let demo = ["demo", "quick_start", "job", "--train-samples=6000"];
    succeeded(&folder.canoe(&[&demo[..], &["--test-samples=2500"]].concat()));
    let asynchronous = ("batch_size=1", "is_async=True, batch_size=1");
    folder.vary(LR, "async.py", &[asynchronous]);
    let error = |nodes: u32, config: &str| {
        let shards = format!("--shards={nodes}");
        succeeded(&folder.canoe(&["data", "split", "job", &shards, "--force"]));
        succeeded(&folder.nodes(nodes, config, &["--passes=10"]));
        let log = fs::read_to_string(folder.path("job/output/node_0/train.log")).unwrap();
        let line = log.lines().rfind(|line| line.contains("Test samples="));
        let value = line.and_then(|line| line.rsplit('=').next());
        value.unwrap_or_default().trim().parse::<f64>().unwrap()
    };
    let synchronous = error(2, LR);
    for nodes in [1, 2, 4] {
        let other = error(nodes, "async.py");
        // How far trainers drift apart, and so the last few points, depends on how busy the machine is; half of what
        // synchronous training learns (a guess is wrong half of the time) does not.
        assert!(
            other <= (0.5 + synchronous) / 2.0,
            "{nodes} trainers: {other}, synchronous {synchronous}"
        );
    }
}
