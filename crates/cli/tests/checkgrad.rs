//! `--job=checkgrad`, by the program: the gradients of every parameter agree with the cost, in a configuration for
//! every type of layer, projection and operator that can be executed, and on the networks of the demos.
//!
//! The configurations are in `checkgrad/`, with a provider of random samples. A new type must be added to one of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Folder, said, succeeded};

/// The configurations, with the arguments that they are run with.
const CONFIGS: [(&str, &str); 11] = [
    ("activations", ""),
    ("costs", ""),
    ("groups", ""),
    ("images", ""),
    ("images", "use_gpu=1,cudnn_version=5000"),
    ("labels", ""),
    ("projections", ""),
    ("recurrent", ""),
    ("rows", ""),
    ("sequences", ""),
    (WITHOUT_GRADIENT, ""),
];

/// The configuration of layers through which no gradient flows: they are computed next to a cost.
const WITHOUT_GRADIENT: &str = "without_gradient";

/// Types that no configuration can check, with the reason.
const NOT_CHECKED: [(&str, &str); 1] = [(
    "lambda_cost",
    "it reports the NDCG, which jumps, and descends a pairwise cost; `canoe-nn` checks it against that",
)];

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checkgrad")
}

/// Runs the check and returns its output.
fn check(folder: &Folder, job: &str, config: &str, args: &str) -> String {
    let config = format!("--config={config}");
    let args = format!("--config_args={args}");
    let out = folder.canoe_in(job, &["train", &config, &args, "--job=checkgrad"]);
    succeeded(&out);
    let text = said(&out);
    assert!(text.contains("true_delta="), "nothing was checked:\n{text}");
    assert!(!text.contains("***"), "{text}");
    text
}

#[test]
fn every_layer_type() {
    let folder = Folder::empty();
    for entry in fs::read_dir(sources()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(
            &path,
            folder.path(path.file_name().unwrap().to_str().unwrap()),
        )
        .unwrap();
    }
    fs::write(folder.path("all.list"), "generated\n").unwrap();
    for (name, args) in CONFIGS {
        let text = check(&folder, ".", &format!("{name}.py"), args);
        let unchecked = text.contains("no gradient in this batch");
        assert_eq!(unchecked, name == WITHOUT_GRADIENT, "{name}: {text}");
    }
}

/// Types of layers, projections and operators that the configurations use, as `layer fc`.
fn used_types() -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (name, args) in CONFIGS {
        let evaluated = config::evaluate(&config::EvaluateOptions {
            args: args.to_owned(),
            ..config::EvaluateOptions::new(sources().join(format!("{name}.py")))
        });
        for layer in evaluated.unwrap().model_config.unwrap().layers {
            used.insert(format!("layer {}", layer.r#type));
            let projections = layer.inputs.iter().filter_map(|i| i.proj_conf.as_ref());
            used.extend(projections.map(|p| format!("projection {}", p.r#type)));
            let operators = layer.operator_confs.iter();
            used.extend(operators.map(|o| format!("operator {}", o.r#type)));
        }
    }
    used
}

#[test]
fn no_type_is_left_out() {
    let layers = nn::layers::REGISTRY.iter();
    let layers = layers.map(|(kind, _)| ("layer", *kind));
    let projections = nn::projections::PROJECTIONS.iter();
    let projections = projections.map(|(kind, _)| ("projection", *kind));
    let operators = nn::projections::OPERATORS.iter();
    let operators = operators.map(|(kind, _)| ("operator", *kind));
    let used = used_types();
    let left_out: Vec<String> = layers
        .chain(projections)
        .chain(operators)
        .filter(|(_, kind)| NOT_CHECKED.iter().all(|(known, _)| known != kind))
        .map(|(family, kind)| format!("{family} {kind}"))
        .filter(|kind| !used.contains(kind))
        .collect();
    assert!(
        left_out.is_empty(),
        "no configuration in checkgrad/ uses {left_out:?}"
    );
}

#[test]
fn the_text_networks() {
    let folder = Folder::with_demo(40);
    for (network, args) in [
        ("lr", ""),
        ("emb", ""),
        ("cnn", ""),
        ("lstm", ""),
        ("bidi-lstm", ""),
        ("resnet-lstm", ""),
        ("db-lstm", "width=16"),
    ] {
        let config = format!("quick_start/trainer_config.{network}.py");
        check(&folder, "job", &config, args);
    }
}

#[test]
fn the_recommendation_network() {
    let folder = Folder::empty();
    let sizes = ["--users=30", "--movies=60", "--ratings=700"];
    let args = [&["demo", "recommendation", "job"][..], &sizes].concat();
    succeeded(&folder.canoe(&args));
    check(&folder, "job", "recommendation/trainer_config.py", "");
}
