//! No work is lost when a process crashes: servers and trainers are killed at random moments and stopped, and the model
//! is that of an undisturbed run, byte for byte.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::run::{DEADLINE, Run, log, signal};
use common::{BY_ROW, Folder, failed, succeeded};

const CONFIG: &str = "trainer_config.emb.py";
const PASSES: &str = "--passes=6";

fn start(folder: &Folder) -> Run {
    let args = ["--nodes=2", "--config", CONFIG, PASSES];
    let more = ["--keep-going", "--snapshot-period=7", "--peer-timeout=2"];
    Run::start(folder, &[&args[..], &more].concat(), &[])
}

/// Reproducible pauses.
struct Pauses(u64);

impl Pauses {
    fn next(&mut self, from: u64, to: u64) -> Duration {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(from + (self.0 >> 33) % (to - from))
    }
}

/// A job whose configuration has some text replaced, and the model that it must end with.
fn folder(replacements: &[(&str, &str)]) -> (Folder, Vec<(String, Vec<u8>)>) {
    let folder = Folder::with_demo(1200);
    folder.vary(CONFIG, CONFIG, replacements);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let save = format!("--save_dir={}", folder.path("played").display());
    let config = format!("--config={CONFIG}");
    let args = [
        "train",
        "--simulate_nodes=2",
        &config,
        &save,
        "--num_passes=6",
    ];
    succeeded(&folder.canoe_in("job", &args));
    let expected = folder.parameters("played/pass-00005");
    (folder, expected)
}

/// Kills processes whose command line contains one of `victims`, in turn, at random moments, in as many runs as it
/// takes to kill `kills` times. A run survives a few crashes of each process, so several are killed in each.
fn disturb(
    (folder, expected): (Folder, Vec<(String, Vec<u8>)>),
    victims: &[&str],
    kills: usize,
    seed: u64,
) {
    let mut pauses = Pauses(seed);
    let (mut done, mut runs) = (0, 0);
    while done < kills {
        let mut run = start(&folder);
        runs += 1;
        let before = done;
        for victim in victims.iter().cycle() {
            std::thread::sleep(pauses.next(20, 600));
            if done == kills || done - before == 7 * victims.len() || run.is_over() {
                break;
            }
            if let Some(process) = run.find(victim) {
                signal(process, libc::SIGKILL);
                done += 1;
            }
        }
        run.wait(&folder);
        let model = folder.parameters("job/output/pass-00005");
        assert_eq!(model, expected, "{}", log(&folder));
        assert!(runs < 4 * kills, "runs end before anything is killed");
    }
}

#[test]
fn killed_servers_lose_nothing() {
    disturb(folder(&[]), &["server_id=0", "server_id=1"], 30, 1);
}

#[test]
fn killed_trainers_lose_nothing() {
    disturb(folder(&[]), &["--trainer_id=0", "--trainer_id=1"], 30, 2);
}

#[test]
fn killed_servers_and_trainers_lose_no_row() {
    let folder = folder(&[BY_ROW]);
    disturb(folder, &["server_id=1", "--trainer_id=0"], 16, 3);
}

#[test]
fn a_stopped_process_is_noticed_and_may_come_back() {
    let (folder, expected) = folder(&[]);
    let run = start(&folder);
    let begun = Instant::now();
    let process = loop {
        assert!(begun.elapsed() < DEADLINE, "{}", log(&folder));
        match run.find("--trainer_id=1") {
            Some(process) => break process,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    std::thread::sleep(Duration::from_millis(900));
    signal(process, libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    signal(process, libc::SIGCONT);
    run.wait(&folder);
    assert_eq!(
        folder.parameters("job/output/pass-00005"),
        expected,
        "{}",
        log(&folder)
    );
}

#[test]
fn a_killed_run_leaves_no_process() {
    let folder = Folder::with_demo(1200);
    let mut run = start(&folder);
    let begun = Instant::now();
    while run.children().len() < 4 {
        assert!(
            begun.elapsed() < DEADLINE && !run.is_over(),
            "{}",
            log(&folder)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let children = run.children();
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    for (process, line) in children {
        let alive = || {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        let begun = Instant::now();
        while alive() {
            assert!(
                begun.elapsed() < Duration::from_secs(240),
                "still there: {line}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_refusal_that_configuration_flags_and_files_decide_ends_the_job_at_once() {
    let folder = Folder::with_demo(100);
    folder.vary(CONFIG, "held.py", &[BY_ROW]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let refused = |flags: &[&str], trainer: &str| {
        let flags = [&["--passes=1", "--keep-going", "--watch=off"], flags].concat();
        let output = folder.nodes(2, "held.py", &[&flags[..], &["--", trainer]].concat());
        let text = failed(&output);
        let told = "exited with code 78, which a restart cannot fix";
        assert!(text.contains(told), "{text}");
        assert!(!text.contains("restarting"), "{text}");
        text
    };
    let unheld = "--loadsave_parameters_in_pserver=true";
    assert!(refused(&[], unheld).contains("leave test_list out"));
    let best = refused(&[], "--best_by=beauty");
    assert!(best.contains("beauty"), "{best}");
    let empty = folder.path("empty");
    fs::create_dir(&empty).unwrap();
    let from = format!("--init-model-path={}", empty.display());
    refused(&[&from], "--log_period=1");
}
