//! The promise of the same model bit for bit: repeated, resumed, killed, threaded, and on several nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{BY_ROW, CANOE, Folder, succeeded};

const LR: &str = "trainer_config.lr.py";
const EMB: &str = "trainer_config.emb.py";

#[test]
fn two_runs_and_other_numbers_of_threads_are_equal() {
    let folder = Folder::with_demo(600);
    for (save, threads) in [("a", "1"), ("b", "1"), ("c", "3")] {
        let threads = format!("--trainer_count={threads}");
        succeeded(&folder.train(EMB, save, &["--num_passes=1", &threads]));
    }
    let once = folder.parameters("a/pass-00000");
    assert_eq!(once, folder.parameters("b/pass-00000"), "repeated");
    assert_eq!(once, folder.parameters("c/pass-00000"), "three threads");
}

#[test]
fn a_run_that_continues_equals_one_that_was_never_stopped() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.train(LR, "whole", &["--num_passes=4"]));
    succeeded(&folder.train(LR, "parts", &["--num_passes=2"]));
    succeeded(&folder.train(LR, "parts", &["--num_passes=2", "--start_pass=2"]));
    assert_eq!(
        folder.parameters("whole/pass-00003"),
        folder.parameters("parts/pass-00003")
    );
}

#[test]
fn a_killed_run_continues_from_its_last_pass() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.train(LR, "whole", &["--num_passes=4"]));
    let save = format!("--save_dir={}", folder.path("parts").display());
    let mut child = Command::new(CANOE)
        .args(["train", "--config=quick_start/trainer_config.lr.py", &save])
        .args(["--num_passes=1000", "--keep=all", "--dot_period=0"])
        .current_dir(folder.path("job"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !folder.path("parts/pass-00001/done").exists() {
        assert!(begun.elapsed() < Duration::from_secs(240), "no second pass");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeded(&folder.train(LR, "parts", &["--num_passes=2", "--start_pass=2"]));
    assert_eq!(
        folder.parameters("whole/pass-00003"),
        folder.parameters("parts/pass-00003")
    );
}

#[test]
fn nodes_equal_one_process_that_plays_them() {
    let folder = Folder::with_demo(600);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=3"]));
    succeeded(&folder.played(3, LR, "played", &["--num_passes=2"]));
    let expected = folder.parameters("played/pass-00001");
    for (servers, ports, threads) in [(3, 1, 1), (1, 3, 2), (5, 2, 1), (2, 1, 2)] {
        let servers = format!("--servers={servers}");
        let ports = format!("--ports={ports}");
        let threads = format!("--trainer_count={threads}");
        let more = ["--passes=2", &servers, &ports, "--", &threads];
        succeeded(&folder.nodes(3, LR, &more));
        assert_eq!(
            folder.parameters("job/output/pass-00001"),
            expected,
            "{servers} {ports} {threads}"
        );
    }
}

/// Trainers fetch only the rows that they read of a large table that is looked up by row, copied on the same host and over a
/// connection elsewhere; what is saved or tested in the middle of a pass is complete all the same.
#[test]
fn a_table_that_is_read_by_row_is_whole_whenever_somebody_looks() {
    let folder = Folder::with_demo(2000);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let often = ["--saving_period_by_batches=2", "--test_period=3"];
    // Sizes in bytes from which they are read by row.
    for (config, least) in [(EMB, 1 << 20), (LR, 1 << 16)] {
        let played = format!("played-{config}");
        let once = [&often[..], &["--num_passes=1"]].concat();
        succeeded(&folder.played(2, config, &played, &once));
        for local in ["--local_sockets=true", "--local_sockets=false"] {
            let trainers = [&["--fresh", "--passes=1", "--", local], &often[..]].concat();
            succeeded(&folder.nodes(2, config, &trainers));
            for pass in ["pass-00000-001", "pass-00000-002", "pass-00000"] {
                let expected = folder.parameters(&format!("{played}/{pass}"));
                let largest = expected.iter().map(|(_, bytes)| bytes.len()).max();
                assert!(largest > Some(least), "large enough to be read by row");
                assert_eq!(
                    folder.parameters(&format!("job/output/{pass}")),
                    expected,
                    "{config} {local} {pass}"
                );
            }
        }
    }
}

/// AdaGrad without decay treats a row as it treats a dense parameter.
const ADAGRAD: (&str, &str) = ("AdamOptimizer()", "AdaGradOptimizer()");

#[test]
fn rows_equal_a_dense_table_where_the_mathematics_is_the_same() {
    let folder = Folder::with_demo(600);
    folder.vary(EMB, "dense.py", &[ADAGRAD]);
    folder.vary(EMB, "rows.py", &[ADAGRAD, BY_ROW]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    succeeded(&folder.played(2, "dense.py", "dense", &["--num_passes=2"]));
    let expected = folder.parameters("dense/pass-00001");
    succeeded(&folder.played(2, "rows.py", "rows", &["--num_passes=2"]));
    assert_eq!(folder.parameters("rows/pass-00001"), expected, "played");
    for (config, servers, sparse) in [("dense.py", 2, 1), ("rows.py", 2, 0), ("rows.py", 3, 2)] {
        let servers = format!("--servers={servers}");
        let sparse = format!("--sparse-ports={sparse}");
        succeeded(&folder.nodes(2, config, &["--passes=2", &servers, &sparse]));
        assert_eq!(
            folder.parameters("job/output/pass-00001"),
            expected,
            "{config} {servers} {sparse}"
        );
    }
}

#[test]
fn nodes_that_continue_equal_nodes_that_were_never_stopped() {
    let folder = Folder::with_demo(600);
    // Adam by row keeps moments, a schedule counts samples and passes: all of it must be restored.
    let schedule = (
        "learning_rate=2e-3,",
        "learning_rate=2e-3, learning_rate_schedule='poly', learning_rate_decay_a=1e-3, learning_rate_decay_b=0.5,",
    );
    folder.vary(EMB, "adam.py", &[BY_ROW, schedule]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    succeeded(&folder.nodes(2, "adam.py", &["--passes=4"]));
    let expected = folder.parameters("job/output/pass-00003");
    for servers in ["--servers=2", "--servers=1", "--servers=3"] {
        std::fs::remove_dir_all(folder.path("job/output")).unwrap();
        succeeded(&folder.nodes(2, "adam.py", &["--passes=2"]));
        succeeded(&folder.nodes(
            2,
            "adam.py",
            &[
                "--passes=2",
                "--start-pass=2",
                "--snapshot-period=3",
                servers,
            ],
        ));
        assert_eq!(
            folder.parameters("job/output/pass-00003"),
            expected,
            "{servers}"
        );
    }
}

#[test]
fn a_loaded_model_starts_on_servers_as_it_does_alone() {
    let folder = Folder::with_demo(600);
    folder.vary(EMB, "rows.py", &[ADAGRAD, BY_ROW]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    succeeded(&folder.played(2, "rows.py", "first", &["--num_passes=1"]));
    let from = folder.path("first/pass-00000").display().to_string();
    let load = format!("--init_model_path={from}");
    succeeded(&folder.played(2, "rows.py", "then", &["--num_passes=1", &load]));
    succeeded(&folder.nodes(2, "rows.py", &["--passes=1", &load]));
    assert_eq!(
        folder.parameters("job/output/pass-00000"),
        folder.parameters("then/pass-00000")
    );
}

#[test]
fn tables_that_no_trainer_holds_are_saved_and_loaded_by_servers() {
    let folder = Folder::with_demo(600);
    let untested = ("else 'data/test.list'", "else None");
    folder.vary(EMB, "held.py", &[ADAGRAD, BY_ROW]);
    folder.vary(EMB, "rows.py", &[ADAGRAD, BY_ROW, untested]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let unheld = "--loadsave_parameters_in_pserver=1";
    let refused = common::failed(&folder.nodes(2, "held.py", &["--passes=1", "--", unheld]));
    assert!(refused.contains("test_list"), "{refused}");

    succeeded(&folder.nodes(2, "rows.py", &["--passes=1"]));
    let whole = folder.parameters("job/output/pass-00000");
    succeeded(&folder.nodes(2, "rows.py", &["--passes=1", "--", unheld]));
    let dense = folder.parameters("job/output/pass-00000");
    let table = "___embedding_0__.w0";
    let kept: Vec<_> = whole.iter().filter(|(name, _)| name != table).collect();
    assert_eq!(dense.iter().collect::<Vec<_>>(), kept, "all but the table");
    assert_eq!(whole.len(), dense.len() + 1);
    assert!(folder.path("job/output/pass-00000/pserver.0001").exists());

    // What the servers saved is what a trainer would have: both lead to the same model, on three servers.
    std::fs::rename(folder.path("job/output/pass-00000"), folder.path("unheld")).unwrap();
    succeeded(&folder.nodes(2, "rows.py", &["--passes=1"]));
    std::fs::rename(folder.path("job/output/pass-00000"), folder.path("held")).unwrap();
    let from = |save: &str| format!("--init_model_path={}", folder.path(save).display());
    succeeded(&folder.nodes(2, "rows.py", &["--passes=1", &from("held")]));
    let expected = folder.parameters("job/output/pass-00000");
    let more = ["--passes=1", "--servers=3", &from("unheld"), "--", unheld];
    succeeded(&folder.nodes(2, "rows.py", &more));
    let loaded = folder.parameters("job/output/pass-00000");
    let kept: Vec<_> = expected.into_iter().filter(|(n, _)| n != table).collect();
    assert_eq!(loaded, kept);
}

#[test]
fn a_test_reads_the_tables_that_servers_saved() {
    let folder = Folder::with_demo(600);
    let untested = ("else 'data/test.list'", "else None");
    // Decay that is due when a row was not used for a while, and averages, are part of what is tested.
    let average = (
        "learning_method=",
        "model_average=ModelAverage(average_window=0.5),\n    learning_method=",
    );
    folder.vary(EMB, "held.py", &[ADAGRAD, BY_ROW, average]);
    folder.vary(EMB, "rows.py", &[ADAGRAD, BY_ROW, average, untested]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    succeeded(&folder.nodes(2, "rows.py", &["--passes=2"]));
    std::fs::rename(folder.path("job/output/pass-00001"), folder.path("whole")).unwrap();
    let unheld = "--loadsave_parameters_in_pserver=1";
    succeeded(&folder.nodes(2, "rows.py", &["--passes=2", "--servers=3", "--", unheld]));
    let saved = folder.path("job/output/pass-00001");
    assert!(!saved.join("___embedding_0__.w0").exists());

    let test = |from: &std::path::Path| {
        let from = format!("--init_model_path={}", from.display());
        let config = "--config=quick_start/held.py";
        folder.canoe_in("job", &["train", config, "--job=test", &from])
    };
    let result = |output: &std::process::Output| {
        succeeded(output);
        let said = common::said(output);
        let line = said.lines().rfind(|line| line.contains("Test samples="));
        let line = line.unwrap_or_else(|| panic!("no test in\n{said}"));
        line[line.find("Test samples=").unwrap()..].to_owned()
    };
    let whole = result(&test(&folder.path("whole")));
    assert_eq!(result(&test(&saved)), whole);

    let shown = folder.canoe(&["model", "show", "job/output/pass-00001"]);
    assert!(common::said(&shown).contains("___embedding_0__.w0: "));

    // A run that starts from a model in the output folder would move it aside.
    let tables = folder.path("tables");
    std::fs::rename(&saved, &tables).unwrap();
    let saved = tables;
    let part = saved.join("pserver.0002");
    let bytes = std::fs::read(&part).unwrap();
    let told = |what: &str| {
        let said = common::failed(&test(&saved));
        assert!(said.contains("pserver.0") && said.contains(what), "{said}");
    };
    std::fs::write(&part, &bytes[..bytes.len() - 40]).unwrap();
    told("too early");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    std::fs::write(&part, flipped).unwrap();
    told("checksum");
    std::fs::write(&part, b"something else entirely").unwrap();
    told("not written by a canoe server");
    std::fs::remove_file(&part).unwrap();
    told("or later ones");
    let load = format!("--init_model_path={}", saved.display());
    let refused = folder.nodes(2, "rows.py", &["--passes=1", &load, "--", unheld]);
    assert!(common::failed(&refused).contains("or later ones"));
    std::fs::write(&part, &bytes).unwrap();
    std::fs::remove_file(saved.join("pserver.0001")).unwrap();
    told("lacks pserver.0001");
}

#[test]
fn trainers_that_meet_every_few_batches_are_reproducible_and_learn() {
    let folder = Folder::with_demo(1200);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    for method in ["average", "elastic_average"] {
        let words = "words = data_layer(name='word'";
        let terms = format!(
            "from paddle.trainer.config_parser import Settings\nSettings(num_batches_per_send_parameter=3, center_parameter_update_method='{method}')\n{words}"
        );
        let batch = ("else 128", "else 16");
        folder.vary(EMB, "meet.py", &[batch, (words, &terms)]);
        succeeded(&folder.nodes(2, "meet.py", &["--passes=3"]));
        let once = folder.parameters("job/output/pass-00002");
        let said = std::fs::read_to_string(folder.path("job/output/node_0/train.log")).unwrap();
        let error = last_test_error(&said);
        assert!(error < 0.25, "{method}: test error {error}\n{said}");
        succeeded(&folder.nodes(2, "meet.py", &["--passes=3"]));
        assert_eq!(once, folder.parameters("job/output/pass-00002"), "{method}");
    }
}

/// The classification error of the last test in a log.
fn last_test_error(log: &str) -> f64 {
    let line = log.lines().rfind(|line| line.contains("Test samples="));
    let line = line.unwrap_or_else(|| panic!("no test in\n{log}"));
    let value = line.rsplit("classification_error_evaluator=").next();
    value.unwrap().trim().parse().unwrap()
}
