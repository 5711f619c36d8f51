//! What a newcomer tries in the first hour: a folder of one's own, wrong words, wrong configurations, too many nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{CANOE, Folder, failed, said, succeeded};

fn new_job() -> Folder {
    let folder = Folder::empty();
    succeeded(&folder.canoe(&["new", "job"]));
    folder
}

fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_new_job_can_be_checked_and_trained_and_learns() {
    let folder = new_job();
    let checked = folder.canoe(&["config", "check", "job/model/trainer_config.py"]);
    succeeded(&checked);
    assert!(
        said(&checked).contains("can be trained"),
        "{}",
        said(&checked)
    );
    let run = folder.canoe(&["run", "job", "--watch=off", "--json"]);
    succeeded(&run);
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(result["outcome"], "finished");
    assert!(result["best"]["value"].as_f64().unwrap() < 0.12, "{result}");
    let test = Command::new("python3")
        .arg("test_job.py")
        .env("CANOE", CANOE)
        .current_dir(folder.path("job"))
        .output()
        .unwrap();
    succeeded(&test);
}

#[test]
fn what_trains_also_runs_on_nodes() {
    let folder = new_job();
    // No folder data/: one file beside the configuration, in the folder from which `canoe train` reads it.
    let (job, model) = (folder.path("job"), folder.path("job/model"));
    for name in ["train", "test"] {
        fs::rename(
            job.join(format!("data/{name}.txt")),
            job.join(format!("{name}.txt")),
        )
        .unwrap();
        fs::write(job.join(format!("{name}.list")), format!("{name}.txt\n")).unwrap();
    }
    fs::remove_dir_all(job.join("data")).unwrap();
    let config = model.join("trainer_config.py");
    change(&config, "data/train.list", "train.list");
    change(&config, "data/test.list", "test.list");
    let trained = folder.canoe_in(
        "job",
        &[
            "train",
            "--config=model/trainer_config.py",
            "--num_passes=1",
        ],
    );
    succeeded(&trained);
    let run = folder.canoe(&[
        "run",
        "job",
        "--nodes=3",
        "--passes=1",
        "--watch=off",
        "--json",
    ]);
    succeeded(&run);
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let samples = result["nodes"].as_array().unwrap().iter();
    let samples: u64 = samples.map(|node| node["samples"].as_u64().unwrap()).sum();
    assert_eq!(samples, 2000, "every sample is read once: {result}");
}

#[test]
fn the_configuration_that_runs_is_named_with_the_others() {
    let folder = Folder::with_demo(60);
    let run = folder.canoe(&["run", "job", "--passes=1", "--watch=off"]);
    succeeded(&run);
    let said = said(&run);
    assert!(
        said.contains("configuration: quick_start/trainer_config.lr.py (--config chooses another:"),
        "{said}"
    );
    assert!(
        said.contains("quick_start/trainer_config.lstm.py"),
        "{said}"
    );
}

#[test]
fn more_nodes_than_the_machine_can_carry_need_force() {
    let folder = new_job();
    let refused = failed(&folder.canoe(&["run", "job", "--nodes=5000", "--watch=off"]));
    assert!(
        refused.contains("10000 processes on") && refused.contains("--force"),
        "{refused}"
    );
    assert!(!folder.path("job/output").exists());
}

#[test]
fn a_folder_that_does_not_exist_is_named_with_what_to_do() {
    let folder = Folder::empty();
    for (command, part) in [
        ("run", "`canoe new DIR`"),
        ("dashboard", "give the folder of a job"),
    ] {
        let text = failed(&folder.canoe(&[command, "nowhere"]));
        assert!(
            text.contains("nowhere does not exist") && text.contains(part),
            "{text}"
        );
    }
}

#[test]
fn a_configuration_that_cannot_be_trained_is_refused_with_file_and_line() {
    type Harm = fn(&Path);
    let cases: [(&str, Harm, &str); 15] = [
        (
            "a batch of nothing",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "batch_size=",
                    "batch_size=0*",
                )
            },
            "batch_size=0; a batch needs at least one sample",
        ),
        (
            "no outputs",
            |job| change(&job.join("model/trainer_config.py"), "outputs(", "str("),
            "outputs is not called",
        ),
        (
            "a negative size",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "fc_layer(input=point, size=",
                    "fc_layer(input=point, size=-",
                )
            },
            "the size of a layer must be positive",
        ),
        (
            "shards for a list that does not exist",
            |job| {
                fs::create_dir(job.join("data/0")).unwrap();
                fs::rename(job.join("data/train.list"), job.join("data/0/train.list")).unwrap();
            },
            "train.list",
        ),
        (
            "no settings",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "settings(batch",
                    "dict(batch",
                )
            },
            "settings is not called",
        ),
        (
            "no cost",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "outputs(classification_cost(input=output, label=label))",
                    "outputs(output)",
                )
            },
            "trainer_config.py:18: none of the outputs is a cost",
        ),
        (
            "a module that does not exist",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "module='provider'",
                    "module='provder'",
                )
            },
            "trainer_config.py:10: data provider module \"provder\" was not found",
        ),
        (
            "no training data",
            |job| {
                let config = job.join("model/trainer_config.py");
                change(
                    &config,
                    "define_py_data_sources2(train_list='data/train.list', ",
                    "dict(",
                );
                change(&config, "dict(test_list", "dict(a");
            },
            "names no training data",
        ),
        (
            "more classes than outputs",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "name='label', size=2",
                    "name='label', size=3",
                );
            },
            "trainer_config.py:18: cost '__cost_0__' compares layer '__fc_layer_1__' of size 2",
        ),
        (
            "a label that is too large",
            |job| change(&job.join("data/train.txt"), "\n1 ", "\n7 "),
            "layer '__cost_0__': id 7 is out of range, there are only 2",
        ),
        (
            "a list that does not exist",
            |job| fs::remove_file(job.join("data/train.list")).unwrap(),
            "train.list",
        ),
        (
            "a vector of another size",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "name='point', size=2",
                    "name='point', size=5",
                )
            },
            "has dimension 2 but the layer has size 5",
        ),
        (
            "a data layer of no size",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "name='point', size=2",
                    "name='point', size=0",
                )
            },
            "trainer_config.py:14: data layer 'point' has size 0",
        ),
        (
            "a misspelt key of a sample",
            |job| {
                change(
                    &job.join("model/provider.py"),
                    "'label': int(label)",
                    "'lable': int(label)",
                )
            },
            "needs an integer, got nothing: the sample has only 'lable', 'point'",
        ),
        (
            "a rate that is no number",
            |job| {
                change(
                    &job.join("model/trainer_config.py"),
                    "learning_rate=0.01",
                    "learning_rate='fast'",
                )
            },
            "trainer_config.py:12: OptimizationConfig.learning_rate must be a finite number, not 'fast'",
        ),
    ];
    for (name, harm, words) in cases {
        let folder = new_job();
        harm(&folder.path("job"));
        let check = folder.canoe_in("job", &["config", "check", "model/trainer_config.py"]);
        let text = failed(&check);
        assert!(text.contains(words), "{name}: {text}");
        assert_eq!(check.status.code(), Some(78), "{name}: {text}");
        let json = folder.canoe_in(
            "job",
            &["config", "check", "--json", "model/trainer_config.py"],
        );
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["valid"], false, "{name}: {json}");
    }
    let folder = new_job();
    fs::remove_dir_all(folder.path("job/data")).unwrap();
    let fast = ["config", "check", "--fast", "model/trainer_config.py"];
    succeeded(&folder.canoe_in("job", &fast));
}

#[test]
fn misspelt_words_are_guessed() {
    let folder = new_job();
    fs::write(folder.path("job/job.yaml"), "name: a\nnods: 3\n").unwrap();
    fs::write(folder.path("job/model/trainer_config-wide.py"), "").unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["rnu", "job"], "'run'"),
        (
            &["run", "job", "--config", "trainer_config"],
            "did you mean trainer_config.py?",
        ),
        (
            &["run", "job", "--config", "trainer_confg.py"],
            "did you mean trainer_config.py?",
        ),
        (&["model", "shwo"], "'show'"),
        (&["run", "job", "--nodse=3"], "--nodes"),
        (&["train", "--num_pases=3"], "--num_passes"),
        (&["job", "render", "job"], "did you mean `nodes`?"),
    ];
    for (command, meant) in cases {
        let text = failed(&folder.canoe(command));
        assert!(text.contains(meant), "{command:?}: {text}");
    }
}

#[test]
fn a_folder_stands_for_its_only_configuration() {
    let folder = new_job();
    let check = folder.canoe_in("job", &["config", "check", "."]);
    succeeded(&check);
    assert!(
        said(&check).contains("./model/trainer_config.py can be trained"),
        "{}",
        said(&check)
    );
    let second = folder.path("job/model/trainer_config.b.py");
    fs::copy(folder.path("job/model/trainer_config.py"), second).unwrap();
    let text = failed(&folder.canoe(&["config", "dump", "job"]));
    assert!(
        text.contains("2 configurations") && text.contains("trainer_config.b.py"),
        "{text}"
    );
    let text = failed(&folder.canoe(&["config", "diagram", "job/data"]));
    assert!(text.contains("job/data is a folder without"), "{text}");
}

#[test]
fn proposed_commands_can_be_copied() {
    let folder = Folder::empty();
    let new = folder.canoe(&["new", "Größe 1"]);
    succeeded(&new);
    assert!(
        said(&new).contains("canoe run 'Größe 1'\n"),
        "{}",
        said(&new)
    );
    let run = folder.canoe(&["run", "Größe 1", "--passes=1", "--watch=127.0.0.1:0"]);
    succeeded(&run);
    assert!(
        said(&run).contains("canoe dashboard 'Größe 1'\n"),
        "{}",
        said(&run)
    );
    let demo = folder.canoe(&[
        "demo",
        "recommendation",
        "it's",
        "--ratings=2000",
        "--users=50",
    ]);
    succeeded(&demo);
    let quoted = r"canoe run 'it'\''s' --config trainer_config.py";
    assert!(said(&demo).contains(quoted), "{}", said(&demo));
}

#[test]
fn a_folder_that_models_cannot_be_saved_in_is_named_before_training() {
    let folder = new_job();
    std::os::unix::fs::symlink("nowhere", folder.path("job/output")).unwrap();
    for (flags, named) in [
        (&[][..], "./output/model"),
        (&["--save_dir=output/a"], "job/output/a"),
    ] {
        let args = [&["train", "--config=model/trainer_config.py"], flags].concat();
        let text = failed(&folder.canoe_in("job", &args));
        let is_named = text.contains("save models in ") && text.contains(named);
        assert!(is_named && !text.contains("Pass=0"), "{text}");
    }
}

#[test]
fn a_wrong_source_leaves_nothing_behind() {
    let folder = Folder::empty();
    let text = failed(&folder.canoe(&["data", "fetch", "nope"]));
    assert!(text.contains("read nope"), "{text}");
    // No network: credentials come from nowhere, also not from the metadata of a machine.
    let alone = [
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ];
    let mut fetch = Command::new(CANOE);
    alone.iter().for_each(|name| {
        fetch.env_remove(name);
    });
    let fetch = fetch
        .args(["data", "fetch", "s3://bucket/file"])
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .current_dir(folder.path("."))
        .output();
    let text = failed(&fetch.unwrap());
    assert!(text.contains("there are no credentials for S3"), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path(".")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let text = failed(&folder.canoe(&["dashboard", "nope"]));
    assert!(!text.contains("http://"), "{text}");
}

#[test]
fn trainers_do_not_warn_about_flags_that_nobody_typed() {
    let folder = new_job();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    let log = fs::read_to_string(folder.path("job/output/node_0/train.log")).unwrap();
    let warnings: Vec<&str> = log.lines().filter(|line| line.starts_with('W')).collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn shells_and_man_know_the_commands_and_flags() {
    let folder = Folder::empty();
    for shell in ["bash", "zsh", "fish"] {
        let text = folder.canoe(&["completions", shell]);
        succeeded(&text);
        let text = said(&text);
        assert!(
            text.contains("num_passes") && text.contains("doctor"),
            "{shell}"
        );
    }
    succeeded(&folder.canoe(&["man", "pages"]));
    let train = fs::read_to_string(folder.path("pages/canoe-train.1")).unwrap();
    assert!(train.contains("num_passes"), "{train}");
    let help = said(&folder.canoe(&["run", "--help"]));
    let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
}

#[test]
fn doctor_finds_a_python_that_is_missing() {
    let folder = Folder::empty();
    let healthy = folder.canoe(&["doctor", "--json"]);
    succeeded(&healthy);
    let checks: serde_json::Value = serde_json::from_slice(&healthy.stdout).unwrap();
    assert!(checks.as_array().unwrap().len() > 8, "{checks}");
    let text = failed(&folder.canoe(&["doctor", "--python", "no-such-python"]));
    assert!(
        text.contains("FAULT") && text.contains("--python_bin"),
        "{text}"
    );
}

/// The samples that a run trained in its only pass.
fn samples(folder: &Folder, args: &[&str]) -> u64 {
    let run = folder.canoe(&[args, &["--passes=1", "--watch=off", "--fresh", "--json"]].concat());
    succeeded(&run);
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let nodes = result["nodes"].as_array().unwrap();
    nodes
        .iter()
        .map(|node| node["samples"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_header_and_a_list_in_the_configuration_lose_and_repeat_no_sample_on_nodes() {
    let folder = Folder::empty();
    fs::create_dir_all(folder.path("job/data")).unwrap();
    let mut text = String::from("\u{feff}width,length,kind\n");
    for i in 0..60 {
        text += &format!("{},{},{}\n", i % 7, i % 5, i % 2);
    }
    fs::write(folder.path("job/data/t.csv"), text).unwrap();
    fs::write(folder.path("job/data/train.list"), "data/t.csv\n").unwrap();
    let config = folder.path("job/trainer_config.py");
    let configuration = "from paddle.trainer_config_helpers import *\n\
        settings(batch_size=8, learning_rate=0.1)\n\
        define_native_data_sources('data/train.list', None, format='csv', header=True,\n    \
        slots=[native_dense(['width', 'length'], layer='point'), native_integer('kind', 2, layer='kind')])\n\
        out = fc_layer(input=data_layer('point', 2), size=2, act=SoftmaxActivation())\n\
        outputs(classification_cost(input=out, label=data_layer('kind', 2)))\n";
    fs::write(&config, configuration).unwrap();
    for nodes in ["--nodes=1", "--nodes=3"] {
        assert_eq!(samples(&folder, &["run", "job", nodes]), 60, "{nodes}");
    }
    change(&config, "'data/train.list'", "['data/t.csv']");
    for file in ["train.list", "split.json"] {
        fs::remove_file(folder.path("job/data").join(file)).unwrap();
    }
    for shard in ["0", "1", "2"] {
        fs::remove_dir_all(folder.path("job/data").join(shard)).unwrap();
    }
    assert_eq!(samples(&folder, &["run", "job", "--nodes=2"]), 60);
}

#[test]
fn a_table_with_a_header_is_read_by_a_provider_on_nodes() {
    let folder = new_job();
    let rows = (0..60).map(|i| format!("{},0.{},0.{}\n", i % 2, i % 7, i % 5));
    let table = format!("label,x,y\n{}", rows.collect::<String>());
    fs::write(folder.path("job/data/train.csv"), &table).unwrap();
    fs::write(folder.path("job/data/train.list"), "data/train.csv\n").unwrap();
    fs::write(folder.path("job/data/test.list"), "data/train.csv\n").unwrap();
    fs::write(
        folder.path("job/model/provider.py"),
        "import csv\nfrom paddle.trainer.PyDataProvider2 import *\n\n\n\
         @provider(input_types={'point': dense_vector(2), 'label': integer_value(2)})\n\
         def process(settings, name):\n    for row in csv.DictReader(open(name)):\n        \
         yield {'point': [float(row['x']), float(row['y'])], 'label': int(row['label'])}\n",
    )
    .unwrap();
    for nodes in ["--nodes=1", "--nodes=3"] {
        assert_eq!(samples(&folder, &["run", "job", nodes]), 60, "{nodes}");
    }
    // Without a folder data/, the files of the list are divided.
    for file in ["train.csv", "train.list", "test.list"] {
        fs::rename(
            folder.path("job/data").join(file),
            folder.path("job").join(file),
        )
        .unwrap();
    }
    fs::remove_dir_all(folder.path("job/data")).unwrap();
    for list in ["train", "test"] {
        fs::write(folder.path(&format!("job/{list}.list")), "train.csv\n").unwrap();
        change(
            &folder.path("job/model/trainer_config.py"),
            &format!("data/{list}.list"),
            &format!("{list}.list"),
        );
    }
    assert_eq!(samples(&folder, &["run", "job", "--nodes=2"]), 60);
}

#[test]
fn replaced_data_are_split_again_and_empty_data_are_an_error() {
    let folder = new_job();
    assert_eq!(samples(&folder, &["run", "job", "--nodes=2"]), 2000);
    let data = folder.path("job/data/train.txt");
    let text = fs::read_to_string(&data).unwrap();
    let some: String = text
        .lines()
        .take(100)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&data, some).unwrap();
    assert_eq!(samples(&folder, &["run", "job", "--nodes=2"]), 100);
    fs::write(&data, "").unwrap();
    let text = failed(&folder.canoe(&["run", "job", "--watch=off", "--fresh"]));
    assert!(text.contains("the training data are empty"), "{text}");
}

#[test]
fn a_model_remembers_the_arguments_of_its_configuration_and_its_folder() {
    let folder = new_job();
    let args = "--config_args=hidden=7";
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off", "--", args]));
    // Another configuration of the same name, which comes first in the folder, and has no provider.
    fs::create_dir(folder.path("job/archive")).unwrap();
    let (from, to) = (
        "job/model/trainer_config.py",
        "job/archive/trainer_config.py",
    );
    fs::copy(folder.path(from), folder.path(to)).unwrap();
    fs::write(folder.path("points.txt"), "0.1 0.2\n").unwrap();
    let plain = folder.canoe(&["predict", "job", "points.txt"]);
    succeeded(&plain);
    let named = folder.canoe(&["predict", "job", "points.txt", "--config-args=hidden=7"]);
    assert_eq!(plain.stdout, named.stdout);
    failed(&folder.canoe(&["predict", "job", "points.txt", "--config-args=hidden=8"]));
}

#[test]
fn a_wrong_word_moves_nothing_aside() {
    let folder = new_job();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    let run = |more: &[&str]| folder.canoe(&[&["run", "job", "--watch=off"], more].concat());
    let text = failed(&run(&["--best-by", "eror", "--fresh"]));
    assert!(text.contains("did you mean error?"), "{text}");
    let text = failed(&run(&["--start-pass", "40"]));
    assert!(text.contains("--start-pass 1 would continue"), "{text}");
    let text = failed(&run(&["--nodes", "-1"]));
    assert!(text.contains("1..") && !text.contains("'-- -1'"), "{text}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = failed(&folder.canoe(&["run", "job", "--fresh", "--watch", &address]));
    assert!(
        text.contains("needs another port") && text.contains(&address),
        "{text}"
    );
    assert!(!folder.path("job/output-1").exists());
    succeeded(&run(&["--passes=2"]));
}

#[test]
fn the_best_pass_is_named_although_its_model_is_not_kept() {
    let folder = new_job();
    let run = folder.canoe(&["run", "job", "--keep=last:1", "--watch=off", "--json"]);
    succeeded(&run);
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let scores = fs::read(folder.path("job/output/scores.json")).unwrap();
    let scores: serde_json::Value = serde_json::from_slice(&scores).unwrap();
    let values = scores["passes"].as_object().unwrap().values();
    let least = values.map(|score| score["value"].as_f64().unwrap());
    let least = least.reduce(f64::min).unwrap();
    assert_eq!(result["best"]["value"].as_f64(), Some(least), "{result}");
    assert!(result["best"]["kept"].is_number(), "{result}");
    let text = failed(&folder.canoe(&["run", "job", "--keep=last:0", "--watch=off"]));
    assert!(text.contains("N of 1 or more"), "{text}");
}

#[test]
fn a_run_does_not_count_what_a_failed_one_left() {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}\nraise ValueError('no')\n")).unwrap();
    failed(&folder.canoe(&["run", "job", "--nodes=2", "--watch=off"]));
    fs::write(&config, good).unwrap();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    succeeded(&folder.canoe(&["report", "job", "-o", "report.html"]));
    let report = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(!report.contains("the job failed"), "events of another run");
    let nodes = "<tr><th scope=\"row\">nodes</th><td>1</td></tr>";
    assert!(report.contains(nodes), "{report}");
}

#[test]
fn commands_find_the_job_folder_of_a_configuration() {
    let folder = Folder::with_demo(60);
    succeeded(&folder.train("trainer_config.lr.py", "job/output", &["--num_passes=1"]));
    let config = "job/quick_start/trainer_config.lr.py";
    succeeded(&folder.canoe(&["config", "dump", config]));
    succeeded(&folder.canoe(&["config", "diagram", config, "-o", "network.svg"]));
    let flag = format!("--config={config}");
    let merge = [
        "merge_model",
        "--model_dir=job/output/best",
        "--model_file=m.bin",
    ];
    succeeded(&folder.canoe(&[&merge[..], &[&flag]].concat()));
    fs::write(folder.path("one.txt"), "great sound\n").unwrap();
    let of_pass = folder.canoe(&["predict", "job", "one.txt"]);
    succeeded(&of_pass);
    let merged = folder.canoe(&["predict", "m.bin", "--job", "job", "one.txt"]);
    succeeded(&merged);
    assert_eq!(of_pass.stdout, merged.stdout);
    fs::create_dir(folder.path("elsewhere")).unwrap();
    fs::rename(folder.path("m.bin"), folder.path("elsewhere/m.bin")).unwrap();
    let lost = folder.canoe(&[
        "predict",
        "elsewhere/m.bin",
        "--job",
        "elsewhere",
        "one.txt",
    ]);
    let text = failed(&lost);
    assert!(text.contains("--job") && text.contains("--type"), "{text}");
    let shown = folder.canoe(&["model", "show", "job"]);
    succeeded(&shown);
    assert!(
        said(&shown).contains("x2  "),
        "rows by classes: {}",
        said(&shown)
    );
    for command in ["show", "verify"] {
        let done = folder.canoe(&["model", command, "job", "--json"]);
        succeeded(&done);
        serde_json::from_slice::<serde_json::Value>(&done.stdout).unwrap();
    }
}

/// What a page of a job gets; `None` if it is no longer served.
fn page(address: &str, question: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!(
        "GET /api/jobs/0/{question} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    reply.contains(" 200 OK").then_some(reply)
}

#[test]
fn a_page_that_is_open_when_the_job_ends_shows_the_end() {
    let folder = new_job();
    let mut run = Command::new(CANOE)
        .args(["run", "job", "--passes=3", "--watch=127.0.0.1:0"])
        .current_dir(folder.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let rest = line.strip_prefix("watch it at http://")?;
        Some(rest.trim_end_matches('/').to_owned())
    });
    let address = address.unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    let mut last = String::new();
    while let Some(reply) = page(&address, "update?page=7&again=5") {
        last = reply;
        if last.contains(r#""state":"finished""#) {
            page(&address, "seen?page=7");
            break;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    assert!(run.wait().unwrap().success());
    assert!(last.contains(r#""state":"finished""#), "{last}");
    assert!(last.contains("best test error"), "{last}");
}
