//! `--job=checkgrad` on the networks of the demos: the gradients of every parameter agree with the cost.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Folder, said, succeeded};

fn check(folder: &Folder, job: &str, config: &str) {
    let config = format!("--config={config}");
    let out = folder.canoe_in(job, &["train", &config, "--job=checkgrad"]);
    succeeded(&out);
    let text = said(&out);
    assert!(text.contains("true_delta="), "nothing was checked:\n{text}");
    assert!(!text.contains("***"), "{text}");
}

#[test]
fn the_text_networks() {
    let folder = Folder::with_demo(40);
    for network in ["lr", "emb", "cnn", "lstm", "bidi-lstm", "resnet-lstm"] {
        check(
            &folder,
            "job",
            &format!("quick_start/trainer_config.{network}.py"),
        );
    }
}

#[test]
fn the_recommendation_network() {
    let folder = Folder::empty();
    let sizes = ["--users=30", "--movies=60", "--ratings=700"];
    let args = [&["demo", "recommendation", "job"][..], &sizes].concat();
    succeeded(&folder.canoe(&args));
    check(&folder, "job", "recommendation/trainer_config.py");
}
