//! Runs jobs with a stand-in for the canoe binary (`fake/canoe.py`): starts, crashes, restarts, ends.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use run::event::{JobEvent, ProcessExit};
use run::local::{
    self, FolderLayout, FolderOptions, RestartPolicy, RunEnd, RunError, RunLimits, RunOptions,
    RunOutcome, RunPlan, Shutdown, SupervisorOptions,
};
use words::process::ProcessId;

fn fake() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/canoe.py")
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A job folder with two shards of two and three lines.
fn job() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "quick_start/trainer_config.lr.py", "");
    write(folder.path(), "data/0/train.txt", "a\nb\n");
    write(folder.path(), "data/1/train.txt", "c\nd\ne\n");
    folder
}

struct Run {
    outcome: Result<RunOutcome, RunError>,
    events: Vec<JobEvent>,
}

fn run_with(
    job: &Path,
    behaviour: &str,
    limits: RunLimits,
    on_event: &mut dyn FnMut(&JobEvent, &Shutdown),
) -> Run {
    let options = RunOptions {
        nodes: 2,
        servers: 2,
        num_passes: Some(3),
        environment: BTreeMap::from([("FAKE".into(), behaviour.into())]),
        ..RunOptions::default()
    };
    let layout = FolderLayout::read(job, 2, &FolderOptions::default()).unwrap();
    let plan = RunPlan::new(fake(), layout, options, "0123456789".into()).unwrap();
    let shutdown = Shutdown::new();
    let mut events = Vec::new();
    let supervision = SupervisorOptions {
        limits,
        lines: true,
        ..SupervisorOptions::default()
    };
    let outcome = local::run(plan, &supervision, &shutdown, &mut |event| {
        on_event(&event, &shutdown);
        events.push(event);
    });
    Run { outcome, events }
}

fn run(job: &Path, behaviour: &str, limits: RunLimits) -> Run {
    run_with(job, behaviour, limits, &mut |_, _| {})
}

fn keep_going() -> RunLimits {
    RunLimits {
        restart: Some(RestartPolicy::default()),
        ..RunLimits::default()
    }
}

fn failed(run: &Run) -> &run::event::Cause {
    match &run.outcome.as_ref().unwrap().end {
        RunEnd::Failed(cause) => cause,
        other => panic!("{other:?}, events {:#?}", run.events),
    }
}

#[test]
fn a_job_runs_to_its_end_and_leaves_the_output_tree_of_v1() {
    let job = job();
    let run = run(job.path(), "", RunLimits::default());
    let outcome = run.outcome.unwrap();
    assert_eq!(outcome.end, RunEnd::Succeeded, "{:#?}", run.events);
    assert_eq!(outcome.exit_code(), 0);
    let output = job.path().join("output");
    let log = fs::read_to_string(output.join("node_1/train.log")).unwrap();
    assert!(
        log.contains("Batch=1 samples=3") && log.contains("token 10"),
        "{log}"
    );
    assert!(
        fs::read_to_string(output.join("node_0/server.log"))
            .unwrap()
            .contains("tcp server start")
    );
    let table = outcome
        .tally
        .table(&fs::canonicalize(job.path()).unwrap(), outcome.elapsed);
    assert!(
        table.contains("15 samples") && table.contains("3 models, the last is output/pass-00002"),
        "{table}"
    );
    assert!(table.contains("pass 2: cost 0.25  e=0.125"), "{table}");
    let first_trainer = position(
        &run.events,
        |event| matches!(event, JobEvent::Started { process, .. } if *process == ProcessId::trainer(0)),
    );
    let last_ready = position(
        &run.events,
        |event| matches!(event, JobEvent::Ready { process } if *process == ProcessId::pserver(1)),
    );
    assert!(
        last_ready < first_trainer,
        "trainers start when all servers are ready"
    );
}

fn position(events: &[JobEvent], test: impl Fn(&JobEvent) -> bool) -> usize {
    events
        .iter()
        .position(test)
        .unwrap_or_else(|| panic!("no such event in {events:#?}"))
}

#[test]
fn a_death_ends_the_job_with_its_cause_and_last_words() {
    let job = job();
    let run = run(job.path(), "trainer-1:die", RunLimits::default());
    let cause = failed(&run);
    assert_eq!(cause.process, Some(ProcessId::trainer(1)));
    assert_eq!(cause.exit, Some(ProcessExit::Code(1)));
    assert_eq!(cause.tail.last().unwrap(), "something is wrong");
    assert!(
        cause
            .log
            .as_ref()
            .unwrap()
            .ends_with("output/node_1/train.log")
    );
    assert_eq!(run.outcome.as_ref().unwrap().exit_code(), 3);
}

#[test]
fn a_signal_is_named() {
    let job = job();
    let run = run(job.path(), "pserver-0:segv", RunLimits::default());
    assert!(
        failed(&run)
            .reason
            .starts_with("pserver 0 was killed by SIGSEGV"),
        "{}",
        failed(&run).reason
    );
}

#[test]
fn with_restarts_a_crashed_process_comes_back_under_its_id_and_its_log_continues() {
    for who in ["trainer-1:die-once", "pserver-1:segv-once"] {
        let job = job();
        let run = run(job.path(), who, keep_going());
        let outcome = run.outcome.unwrap();
        assert_eq!(outcome.end, RunEnd::Succeeded, "{who} {:#?}", run.events);
        assert_eq!(outcome.tally.nodes[&1].restarts, 1);
        assert!(
            run.events
                .iter()
                .any(|event| matches!(event, JobEvent::Started { restart: 1, .. }))
        );
    }
    let job = job();
    run(job.path(), "trainer-1:die-once", keep_going())
        .outcome
        .unwrap();
    let log = fs::read_to_string(job.path().join("output/node_1/train.log")).unwrap();
    assert_eq!(log.matches("token 10").count(), 2, "{log}");
}

#[test]
fn wrong_usage_is_not_restarted() {
    let job = job();
    let run = run(job.path(), "trainer-0:usage", keep_going());
    assert!(
        failed(&run)
            .reason
            .contains("code 64, which a restart cannot fix")
    );
}

#[test]
fn who_ignores_sigterm_is_killed_after_the_grace_period() {
    let job = job();
    let limits = RunLimits {
        grace: Duration::from_millis(200),
        ..RunLimits::default()
    };
    let run = run_with(
        job.path(),
        "trainer-0:hang",
        limits,
        &mut |event, shutdown| {
            if matches!(event, JobEvent::Line { line, .. } if line.starts_with("I do not listen")) {
                shutdown.request();
            }
        },
    );
    let outcome = run.outcome.unwrap();
    assert_eq!(
        (&outcome.end, outcome.exit_code()),
        (&RunEnd::Interrupted, 130)
    );
}

#[test]
fn a_server_that_is_never_ready_ends_the_job_with_that_reason() {
    let job = job();
    let limits = RunLimits {
        ready: Duration::from_secs(2),
        ..RunLimits::default()
    };
    // Both, so that the reason does not depend on which one starts faster.
    let fake = "pserver-0:never-ready,pserver-1:never-ready";
    let run = run(job.path(), fake, limits);
    assert_eq!(failed(&run).reason, "pserver 0 was not ready after 2 s");
}

#[test]
fn a_port_that_another_program_took_is_replaced() {
    let job = job();
    let run = run(job.path(), "pserver-0:squat-once", RunLimits::default());
    let squatter = fs::read_to_string(job.path().join("output/node_0/work/squatter")).unwrap();
    Command::new("kill")
        .args(["-9", &squatter])
        .status()
        .unwrap();
    assert_eq!(
        run.outcome.unwrap().end,
        RunEnd::Succeeded,
        "{:#?}",
        run.events
    );
    let starts = |event: &&JobEvent| matches!(event, JobEvent::Started { process, .. } if *process == ProcessId::pserver(0));
    assert_eq!(run.events.iter().filter(starts).count(), 2);
}

#[test]
fn flat_data_are_split_first_and_a_failure_to_do_so_is_shown() {
    let job = tempfile::tempdir().unwrap();
    write(job.path(), "trainer_config.py", "");
    write(job.path(), "data/train.txt", "1\n2\n3\n4\n5\n");
    let failing = run(job.path(), "", RunLimits::default());
    assert_eq!(failing.outcome.unwrap().end, RunEnd::Succeeded);
    assert_eq!(
        fs::read_to_string(job.path().join("data/1/train.txt")).unwrap(),
        "2\n4\n"
    );

    fs::remove_dir_all(job.path().join("data/0")).unwrap();
    fs::remove_dir_all(job.path().join("data/1")).unwrap();
    // The split program has the environment of this process, not of the job.
    let layout = FolderLayout::read(job.path(), 2, &FolderOptions::default()).unwrap();
    let mut plan = RunPlan::new(
        fake(),
        layout,
        RunOptions {
            nodes: 2,
            servers: 2,
            ..RunOptions::default()
        },
        String::new(),
    )
    .unwrap();
    plan.split
        .as_mut()
        .unwrap()
        .environment
        .insert("FAKE".into(), "split:die".into());
    let error = local::run(
        plan,
        &SupervisorOptions::default(),
        &Shutdown::new(),
        &mut |_| {},
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("exited with code 1:\nno space left"),
        "{error}"
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let job = job();
    let layout = FolderLayout::read(job.path(), 2, &FolderOptions::default()).unwrap();
    let plan = RunPlan::new(
        "/no/canoe".into(),
        layout,
        RunOptions {
            nodes: 2,
            servers: 2,
            ..RunOptions::default()
        },
        String::new(),
    )
    .unwrap();
    let outcome = local::run(
        plan,
        &SupervisorOptions::default(),
        &Shutdown::new(),
        &mut |_| {},
    )
    .unwrap();
    let RunEnd::Failed(cause) = outcome.end else {
        panic!()
    };
    assert!(
        cause
            .reason
            .starts_with("pserver 0 could not be started: No such file"),
        "{}",
        cause.reason
    );
}

/// Whether a process exists and is not a zombie.
fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_until(what: &str, test: impl Fn() -> bool) {
    for _ in 0..24_000 {
        if test() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within 240 s: {what}");
}

/// Starts the example program, waits until both trainers (which then hang) run, and sends a signal.
fn after_signal(signal: i32) -> (Option<i32>, Vec<u32>) {
    let job = job();
    let mut runner = Command::new(example())
        .arg(fake())
        .arg(job.path())
        .arg("2")
        .env("FAKE", "trainer-0:child,trainer-1:hang")
        .env("FAKE_SLEEP", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    let mut lines = BufReader::new(runner.stdout.take().unwrap()).lines();
    let mut progressed = 0;
    while progressed < 2 {
        match serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() {
            JobEvent::Started { pid, .. } => pids.push(pid),
            JobEvent::Progress { process, .. } if process.role == words::process::Role::Trainer => {
                progressed += 1
            }
            _ => {}
        }
    }
    let grandchild = job.path().join("output/grandchild");
    wait_until("grandchild", || {
        fs::read_to_string(&grandchild).is_ok_and(|text| !text.is_empty())
    });
    pids.push(fs::read_to_string(&grandchild).unwrap().parse().unwrap());
    Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(runner.id().to_string())
        .status()
        .unwrap();
    lines.for_each(drop);
    let status = runner.wait().unwrap();
    (status.code(), pids)
}

fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/run_job")
}

#[test]
fn when_the_parent_is_killed_nothing_is_left() {
    let (code, pids) = after_signal(9);
    assert_eq!((code, pids.len()), (None, 5));
    for pid in pids {
        wait_until("end of all processes", || !lives(pid));
    }
}

#[test]
fn when_the_parent_is_asked_to_end_everything_ends_first() {
    let (code, pids) = after_signal(15);
    assert_eq!(code, Some(130));
    assert_eq!(pids.iter().filter(|pid| lives(**pid)).count(), 0);
}
