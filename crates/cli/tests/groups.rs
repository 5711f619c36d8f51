//! Recurrent groups and generation, by the program: the same bytes on threads and nodes, results as v1 writes them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;

use common::reversal::{self, CONFIG, PROVIDER};
use common::{failed, said, succeeded};

#[test]
fn groups_have_the_same_bytes_on_threads_and_nodes() {
    let folder = reversal::job();
    let train = |save: &str, more: &[&str]| {
        succeeded(&folder.train("c.py", save, &[&["--num_passes=3"][..], more].concat()));
        folder.parameters(&format!("{save}/pass-00002"))
    };
    let once = train("one", &["--trainer_count=1"]);
    assert_eq!(once, train("three", &["--trainer_count=3"]), "threads");
    succeeded(&folder.train("c.py", "parts", &["--num_passes=1"]));
    let resumed = train("parts", &["--start_pass=1", "--num_passes=2"]);
    assert_eq!(once, resumed, "resumed");
    for nodes in [1, 2, 3] {
        let shards = format!("--shards={nodes}");
        succeeded(&folder.canoe(&["data", "split", "job", &shards]));
        let save = format!("played{nodes}");
        succeeded(&folder.played(nodes, "quick_start/c.py", &save, &["--num_passes=2"]));
        succeeded(&folder.nodes(nodes, "quick_start/c.py", &["--passes=2", "--fresh"]));
        assert_eq!(
            folder.parameters(&format!("{save}/pass-00001")),
            folder.parameters("job/output/pass-00001"),
            "{nodes} nodes"
        );
    }
}

#[test]
fn a_trained_group_generates_what_it_learned() {
    let folder = reversal::job();
    succeeded(&folder.train("c.py", "model", &["--num_passes=40"]));
    let model = format!(
        "--init_model_path={}",
        folder.path("model/pass-00039").display()
    );
    let generate = |args: &str| {
        let args = format!("--config_args=generate=1,{args}");
        let out = folder.train("c.py", "unused", &["--job=test", &model, &args]);
        succeeded(&out);
        fs::read_to_string(folder.path("job/result.txt")).unwrap()
    };
    let greedy = generate("beam=1");
    let lines: Vec<&str> = greedy.lines().collect();
    assert_eq!(lines.len(), 36, "one line per sample:\n{greedy}");
    // The shortest sentences are learned first: one word, and the end.
    assert!(lines[0].starts_with("0\t w2 w1"), "{}", lines[0]);
    assert!(
        lines.iter().all(|line| line.split(' ').count() <= 10),
        "at most nine words"
    );
    let beam = generate("beam=3");
    let mut blocks = beam.split("\n\n");
    let first: Vec<&str> = blocks.next().unwrap().lines().collect();
    assert_eq!((first.len(), first[0]), (4, "0"), "{beam}");
    let scores: Vec<f64> = first[1..]
        .iter()
        .map(|line| line.split('\t').nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(
        scores.is_sorted_by(|a, b| a >= b) && scores[0] < 0.0,
        "{scores:?}"
    );
    assert!(first[1].ends_with("\t w2 w1"), "{first:?}");
    assert_eq!(blocks.filter(|block| !block.is_empty()).count(), 35);
}

#[test]
fn training_what_generates_is_refused() {
    let folder = reversal::job();
    let text = failed(&folder.train("c.py", "out", &["--config_args=generate=1"]));
    assert!(text.contains("--job=test"), "{text}");
}

#[test]
fn checking_gradients_needs_a_cost() {
    let folder = reversal::job();
    let config = CONFIG.replace(
        "outputs(classification_cost(input=predicted, label=data_layer('following', WORDS)))",
        "outputs(predicted)",
    );
    let provider = PROVIDER.replace(", following=back + [1]", "").replace(
        ", target=integer_value_sequence(12),\n                           following=integer_value_sequence(12)",
        ", target=integer_value_sequence(12)",
    );
    fs::write(folder.path("job/quick_start/c.py"), config).unwrap();
    fs::write(folder.path("job/quick_start/p.py"), provider).unwrap();
    let out = folder.train("c.py", "out", &["--job=checkgrad"]);
    let text = failed(&out);
    assert!(
        text.contains("no cost") && !said(&out).contains("true_delta"),
        "{text}"
    );
}
