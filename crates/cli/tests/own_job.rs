//! A job of one's own: files that the user keeps beside it stay as they are, and what trains in one process also runs on nodes.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

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
fn files_that_the_configuration_names_itself_are_written_to_no_file() {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    change(&config, "'data/train.list'", "['data/train.txt']");
    change(&config, "'data/test.list'", "['data/test.txt']");
    for name in ["train.list", "test.list"] {
        fs::write(folder.path("job").join(name), "precious").unwrap();
        fs::remove_file(folder.path("job/data").join(name)).unwrap();
    }
    let config = "model/trainer_config.py";
    let with_config = format!("--config={config}");
    let summary = "train:   data/train.txt (py2 provider.process)";
    let commands: [&[&str]; 8] = [
        &["config", "check", config],
        &["config", "check", "--fast", config],
        &["config", "dump", config],
        &["config", "diagram", config],
        &["train", &with_config, "--num_passes=1", "--save_dir=models"],
        &[
            "predict",
            "models/pass-00000",
            "--input-format=provider",
            "data/test.txt",
        ],
        &["run", ".", "--passes=1", "--watch=off"],
        &["run", ".", "--nodes=2", "--passes=1", "--watch=off"],
    ];
    for command in commands {
        let done = folder.canoe_in("job", command);
        succeeded(&done);
        if command[1] == "check" {
            assert!(said(&done).contains(summary), "{}", said(&done));
        }
        for name in ["train.list", "test.list"] {
            let kept = fs::read_to_string(folder.path("job").join(name)).unwrap();
            assert_eq!(kept, "precious", "{command:?}");
        }
    }
}

#[test]
fn what_lies_in_the_job_folder_is_found_on_nodes() {
    let folder = new_job();
    let job = folder.path("job");
    fs::create_dir(job.join("other")).unwrap();
    for file in ["dict.txt", "other/dict.txt", "model/dict.txt", "extra.txt"] {
        fs::write(job.join(file), "1").unwrap();
    }
    fs::write(job.join("helper.py"), "FACTOR = 1\n").unwrap();
    change(
        &job.join("model/provider.py"),
        "    with open(file_name)",
        "    for name in ('dict.txt', 'other/dict.txt', 'model/dict.txt'):\n        open(name).read()\n    import helper\n    with open(file_name)",
    );
    change(
        &job.join("model/trainer_config.py"),
        "hidden =",
        "open('extra.txt').read()\nhidden =",
    );
    let config = "--config=model/trainer_config.py";
    succeeded(&folder.canoe_in("job", &["train", config, "--num_passes=1"]));
    succeeded(&folder.canoe_in("job", &["config", "check", "model/trainer_config.py"]));
    for nodes in ["--nodes=1", "--nodes=2"] {
        succeeded(&folder.canoe(&["run", "job", nodes, "--passes=1", "--watch=off"]));
    }
    let simulated = [
        "train",
        config,
        "--simulate_nodes=2",
        "--num_passes=1",
        "--save_dir=simulated",
    ];
    succeeded(&folder.canoe_in("job", &simulated));
    let same = [
        "model",
        "diff",
        "job/output/pass-00000",
        "job/simulated/pass-00000",
    ];
    succeeded(&folder.canoe(&same));
}

#[test]
fn a_reader_that_leaves_early_does_not_end_a_job_with_earlier_results() {
    let folder = new_job();
    let run = ["run", "job", "--passes=1", "--watch=off"];
    succeeded(&folder.canoe(&run));
    // As `canoe run … 2>&1 | head -1`.
    let mut child = Command::new(CANOE)
        .args(run)
        .current_dir(folder.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    told.read_line(&mut first).unwrap();
    drop(told);
    let end = child.wait().unwrap();
    assert!(end.success(), "after {first:?} it ended with {end}");
    assert!(folder.path("job/output/pass-00000/done").exists());
    assert!(folder.path("job/output-1/pass-00000/done").exists());
}

#[test]
fn parameters_that_cannot_have_a_file_of_their_own_are_refused_with_the_line() {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    let original = fs::read_to_string(&config).unwrap();
    let long = "x".repeat(300);
    let names = [
        "done",
        "path.txt",
        "../evil",
        "a/b",
        "..",
        "canoe.state",
        "canoe.sums",
        "pserver.0000",
        "trainer_config.py",
        &long,
    ];
    for name in names {
        let layer = format!("size=hidden, param_attr=ParamAttr(name='{name}'), ");
        fs::write(&config, original.replace("size=hidden, ", &layer)).unwrap();
        let config = "model/trainer_config.py";
        for command in [
            &["config", "check", "--fast", config][..],
            &[
                "train",
                "--config=model/trainer_config.py",
                "--num_passes=1",
            ],
        ] {
            let text = failed(&folder.canoe_in("job", command));
            assert!(
                text.contains(&format!("parameter '{name}'")),
                "{command:?}: {text}"
            );
            // The name of the file is known only where it has been read.
            let line = "trainer_config.py:17:";
            assert!(text.contains(line) || name == "trainer_config.py", "{text}");
        }
        assert!(!folder.path("job/output/model").exists());
    }
    let layer = original.replace("size=hidden, ", "size=hidden, name='a/b', ");
    fs::write(&config, layer).unwrap();
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    assert!(
        text.contains("parameter '_a/b.w0'") && text.contains("to its layer"),
        "{text}"
    );
    // What v1 allowed and a file can be called.
    for name in ["a b", "done.w", "Path.txt", "x:y@z"] {
        let layer = format!("size=hidden, param_attr=ParamAttr(name='{name}'), ");
        fs::write(&config, original.replace("size=hidden, ", &layer)).unwrap();
        succeeded(&folder.canoe_in(
            "job",
            &[
                "train",
                "--config=model/trainer_config.py",
                "--num_passes=1",
            ],
        ));
        assert!(
            folder
                .path("job/output/model/pass-00000")
                .join(name)
                .is_file()
        );
        succeeded(&folder.canoe(&["model", "verify", "job/output/model/pass-00000"]));
    }
}

/// Samples of each node of a run.
fn samples(folder: &Folder, args: &[&str]) -> Vec<u64> {
    let more = ["--passes=1", "--watch=off", "--json"];
    let run = folder.canoe(&[&["run", "job"], args, &more].concat());
    succeeded(&run);
    let result: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let nodes = result["nodes"].as_array().unwrap().iter();
    nodes
        .map(|node| node["samples"].as_u64().unwrap())
        .collect()
}

#[test]
fn compressed_files_are_dealt_out_whole() {
    let folder = new_job();
    let data = folder.path("job/data");
    let text = fs::read_to_string(data.join("train.txt")).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut list = String::new();
    for (number, part) in lines.chunks(500).enumerate() {
        let name = format!("part-{number}.txt");
        fs::write(data.join(&name), part.concat()).unwrap();
        assert!(
            Command::new("gzip")
                .arg(data.join(&name))
                .status()
                .unwrap()
                .success()
        );
        list += &format!("data/{name}.gz\n");
    }
    fs::write(data.join("train.list"), list).unwrap();
    let provider = folder.path("job/model/provider.py");
    change(
        &provider,
        "with open(file_name) as",
        "with opened(file_name) as",
    );
    change(
        &provider,
        "@provider",
        "def opened(name):\n    import gzip\n    return gzip.open(name, 'rt') if name.endswith('.gz') else open(name)\n\n\n@provider",
    );
    assert_eq!(samples(&folder, &["--nodes=2"]), [1000, 1000]);
    assert_eq!(samples(&folder, &["--nodes=3"]), [1000, 500, 500]);
    assert!(data.join("2/part-2.txt.gz").is_file() && !data.join("1/part-2.txt.gz").exists());
    let shown = folder.canoe(&["data", "show", "job"]);
    succeeded(&shown);
    assert!(!said(&shown).contains("damaged"), "{}", said(&shown));
    let again = folder.canoe(&["data", "split", "job", "--shards=3"]);
    assert!(said(&again).contains("already split"), "{}", said(&again));
    let refused = failed(&folder.canoe(&["run", "job", "--nodes=5", "--force", "--watch=off"]));
    assert!(
        refused.contains("is not text") && refused.contains("4 shards"),
        "{refused}"
    );
}

#[test]
fn a_file_with_few_lines_does_not_keep_others_from_being_divided() {
    let folder = new_job();
    let data = folder.path("job/data");
    fs::write(data.join("empty.txt"), "").unwrap();
    fs::write(data.join("few.txt"), "0 0.1 0.2\n1 0.3 0.4\n").unwrap();
    fs::write(
        data.join("train.list"),
        "data/empty.txt\ndata/few.txt\ndata/train.txt\n",
    )
    .unwrap();
    let mut found = samples(&folder, &["--nodes=3"]);
    found.sort_unstable();
    assert_eq!(found.iter().sum::<u64>(), 2002, "{found:?}");
    assert!(found[0] >= 666, "{found:?}");
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=3", "--shuffle"]));
    let by_bytes = ["data", "split", "job", "--shards=3", "--by=bytes"];
    succeeded(&folder.canoe(&by_bytes));
    fs::write(data.join("train.list"), "data/empty.txt\ndata/few.txt\n").unwrap();
    let text = failed(&folder.canoe(&["data", "split", "job", "--shards=3"]));
    assert!(
        text.contains("data has 2 lines, too few for 3 shards"),
        "{text}"
    );
}

#[test]
fn a_list_in_the_data_folder_may_name_files_outside_of_it() {
    let folder = new_job();
    let job = folder.path("job");
    fs::rename(job.join("data/train.txt"), job.join("rows.txt")).unwrap();
    fs::write(job.join("data/train.list"), "rows.txt\n").unwrap();
    let train = [
        "train",
        "--config=model/trainer_config.py",
        "--num_passes=1",
    ];
    succeeded(&folder.canoe_in("job", &train));
    for nodes in [1, 2, 3] {
        let found = samples(&folder, &[&format!("--nodes={nodes}")]);
        assert_eq!(found.iter().sum::<u64>(), 2000, "{nodes}: {found:?}");
    }
    // The same with a file beside the job folder.
    fs::rename(job.join("rows.txt"), folder.path("rows.txt")).unwrap();
    fs::write(job.join("data/train.list"), "../rows.txt\n").unwrap();
    for nodes in [1, 2] {
        let found = samples(&folder, &[&format!("--nodes={nodes}")]);
        assert_eq!(found.iter().sum::<u64>(), 2000, "{nodes}: {found:?}");
    }
}

#[test]
fn data_that_were_shuffled_are_shuffled_for_another_number_of_nodes() {
    let folder = new_job();
    let split = [
        "data",
        "split",
        "job",
        "--shards=2",
        "--shuffle",
        "--seed=7",
    ];
    succeeded(&folder.canoe(&split));
    let run = folder.canoe(&["run", "job", "--nodes=3", "--passes=1", "--watch=off"]);
    succeeded(&run);
    assert!(
        said(&run)
            .contains("the data are split with --shuffle --seed=7, as they were for 2 shards"),
        "{}",
        said(&run)
    );
    let split = [
        "data",
        "split",
        "job",
        "--shards=3",
        "--shuffle",
        "--seed=7",
    ];
    let again = folder.canoe(&split);
    assert!(said(&again).contains("already split"), "{}", said(&again));
}

/// A configuration, changed in one place, is checked and trained; both refuse it with these words, and the check names the line.
fn refused_by_check_and_training(changes: &[(&str, &str)], line: u32, words: &str) {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    for (from, to) in changes {
        change(&config, from, to);
    }
    let path = "model/trainer_config.py";
    for check in [
        &["config", "check", path][..],
        &["config", "check", "--fast", path],
    ] {
        let text = failed(&folder.canoe_in("job", check));
        let place = format!("trainer_config.py:{line}: ");
        assert!(
            text.contains(&place) && text.contains(words),
            "{changes:?}: {text}"
        );
    }
    let trained = folder.canoe_in(
        "job",
        &[
            "train",
            "--config=model/trainer_config.py",
            "--num_passes=1",
        ],
    );
    let text = failed(&trained);
    assert!(text.contains(words), "{changes:?}: {text}");
}

#[test]
fn learning_settings_that_training_refuses_are_refused_by_the_check() {
    let settings = "learning_method=AdamOptimizer())";
    let with = |text: &'static str| [(settings, text)];
    for (text, words) in [
        (
            "gradient_clipping_threshold=-3)",
            "gradient_clipping_threshold is -3",
        ),
        ("regularization=L2Regularization(-1))", "decay_rate is -1"),
        (
            "learning_method=MomentumOptimizer(-0.5))",
            "momentum is -0.5",
        ),
        ("learning_method=AdamOptimizer(beta1=2))", "adam_beta1 is 2"),
        (
            "learning_method=AdamOptimizer(epsilon=-1))",
            "adam_epsilon is -1",
        ),
        ("learning_method=RMSPropOptimizer(rho=3))", "ada_rou is 3"),
        (
            "learning_method=AdaDeltaOptimizer(rho=-1))",
            "ada_rou is -1",
        ),
        ("model_average=ModelAverage(-1))", "average_window is -1"),
        (
            "model_average=ModelAverage(0.5, -5))",
            "max_average_window is -5",
        ),
        ("learning_rate_schedule='polly')", "did you mean \"poly\"?"),
        (
            "learning_rate_schedule='manual', learning_rate_args='nonsense')",
            "\"nonsense\" is not SAMPLES:RATE",
        ),
        (
            "learning_rate_schedule='pass_manual', learning_rate_args='3:x')",
            "\"3:x\" is not SAMPLES:RATE",
        ),
    ] {
        refused_by_check_and_training(&with(text), 12, words);
    }
    for (attribute, words) in [
        (
            "gradient_clipping_threshold=-3",
            "gradient_clipping_threshold is -3",
        ),
        ("l2_rate=-1", "decay_rate is -1"),
    ] {
        let layer = format!("size=hidden, param_attr=ParamAttr({attribute}), ");
        refused_by_check_and_training(&[("size=hidden, ", &layer)], 17, words);
    }
}

#[test]
fn what_the_check_calls_no_training_is_none() {
    refused_by_check_and_training(
        &[("batch_size=32", "batch_size=0")],
        12,
        "batch_size=0; a batch needs",
    );
    // As with v1, initial values can be drawn and saved without a cost; the check means a network that is to learn.
    let folder = new_job();
    let cost = "outputs(classification_cost(input=output, label=label))";
    change(
        &folder.path("job/model/trainer_config.py"),
        cost,
        "outputs(output)",
    );
    let words = "none of the outputs is a cost";
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    assert!(
        text.contains(&format!("trainer_config.py:18: {words}")),
        "{text}"
    );
    let train = [
        "train",
        "--config=model/trainer_config.py",
        "--num_passes=1",
    ];
    let trained = folder.canoe_in("job", &train);
    assert!(said(&trained).contains(words), "{}", said(&trained));
    let folder = new_job();
    fs::write(folder.path("job/data/test.txt"), "").unwrap();
    let checked = folder.canoe(&["config", "check", "job"]);
    succeeded(&checked);
    assert!(
        said(&checked).contains("the test data have no samples"),
        "{}",
        said(&checked)
    );
    succeeded(&folder.canoe_in(
        "job",
        &[
            "train",
            "--config=model/trainer_config.py",
            "--num_passes=1",
        ],
    ));
}

#[test]
fn what_cannot_run_with_servers_or_in_memory_does_not_pass_the_check() {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    let original = fs::read_to_string(&config).unwrap();
    let sparse = "size=hidden, param_attr=ParamAttr(sparse_update=True), ";
    fs::write(&config, original.replace("size=hidden, ", sparse)).unwrap();
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    assert!(
        text.contains(
            "trainer_config.py:17: layer '__fc_layer_0__': a parameter that is kept by row"
        ),
        "{text}"
    );
    fs::write(
        &config,
        original.replace("size=hidden, ", "size=2000000000, "),
    )
    .unwrap();
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    assert!(
        text.contains("trainer_config.py:17: ") && text.contains("this machine has"),
        "{text}"
    );
    assert!(!text.contains("can be trained"), "{text}");
    // Parameters kept by row are the way to train large tables, which no process holds.
    let demo = Folder::with_demo(60);
    demo.vary("trainer_config.emb.py", "rows.py", &[common::BY_ROW]);
    succeeded(&demo.canoe(&["config", "check", "job/quick_start/rows.py"]));
}

#[test]
fn a_check_reads_the_first_samples_only() {
    let folder = new_job();
    let provider = folder.path("job/model/provider.py");
    let text = "from paddle.trainer.PyDataProvider2 import *\n\n\
                @provider(input_types={'point': dense_vector(2), 'label': integer_value(2)})\n\
                def process(settings, file_name):\n    while True:\n        yield {'point': [0.5, 0.5], 'label': 1}\n";
    fs::write(provider, text).unwrap();
    let checked = folder.canoe(&["config", "check", "job"]);
    succeeded(&checked);
    assert!(
        said(&checked).contains("the network computes the first 96 training samples"),
        "{}",
        said(&checked)
    );
}

#[test]
fn an_argument_that_nothing_reads_is_named_with_a_guess() {
    let folder = new_job();
    let args = "--config_args=hiden=3,hidden=4,trainer_id=0";
    let note = "the configuration does not read hiden of --config_args; did you mean hidden?";
    let config = "--config=model/trainer_config.py";
    let trained = folder.canoe_in("job", &["train", config, args, "--num_passes=1"]);
    succeeded(&trained);
    assert_eq!(
        said(&trained).matches(note).count(),
        1,
        "{}",
        said(&trained)
    );
    let checked = folder.canoe_in("job", &["config", "check", "model/trainer_config.py", args]);
    succeeded(&checked);
    assert_eq!(
        said(&checked).matches(note).count(),
        1,
        "{}",
        said(&checked)
    );
    let run = folder.canoe(&["run", "job", "--passes=1", "--watch=off", "--", args]);
    succeeded(&run);
    assert!(said(&run).contains(note), "{}", said(&run));
}

#[test]
fn the_test_of_a_new_job_is_found_by_unittest() {
    let folder = new_job();
    let test = Command::new("python3")
        .args(["-m", "unittest"])
        .env("CANOE", CANOE)
        .current_dir(folder.path("job"))
        .output()
        .unwrap();
    succeeded(&test);
    assert!(said(&test).contains("Ran 2 tests"), "{}", said(&test));
}

#[test]
fn a_continued_run_keeps_what_its_report_says_of_earlier_passes() {
    let folder = new_job();
    let report = |passes: u32| {
        succeeded(&folder.canoe(&["report", "job"]));
        let html = fs::read_to_string(folder.path("job/output/report.html")).unwrap();
        let samples = format!("<td>{},000</td>", 2 * passes);
        let all = html.contains(&format!(
            "<th scope=\"row\">samples of all trainers</th>{samples}"
        ));
        assert!(all, "{passes}: {}", html.split("<h2>").next().unwrap());
        assert!(html.contains("The job is finished"), "{html}");
    };
    succeeded(&folder.canoe(&["run", "job", "--nodes=2", "--passes=2", "--watch=off"]));
    report(2);
    succeeded(&folder.canoe(&["run", "job", "--nodes=2", "--passes=3", "--watch=off"]));
    report(3);
    let more = [
        "run",
        "job",
        "--nodes=2",
        "--start-pass=3",
        "--passes=2",
        "--watch=off",
    ];
    succeeded(&folder.canoe(&more));
    report(5);
    succeeded(&folder.canoe(&[
        "run",
        "job",
        "--nodes=2",
        "--passes=1",
        "--watch=off",
        "--fresh",
    ]));
    report(1);
}

#[test]
fn a_killed_job_is_not_running() {
    let folder = new_job();
    let mut child = Command::new(CANOE)
        .args([
            "run",
            "job",
            "--passes=100000",
            "--keep=last:1",
            "--watch=off",
        ])
        .current_dir(folder.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while !folder.path("job/output/pass-00000/done").exists() && begun.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeded(&folder.canoe(&["report", "job"]));
    let html = fs::read_to_string(folder.path("job/output/report.html")).unwrap();
    assert!(!html.contains("The job is running"), "{html}");
    assert!(
        html.contains("ended without a record of its end, so it was killed"),
        "{html}"
    );
}

#[test]
fn wrong_layers_and_evaluators_are_named_with_their_lines() {
    let folder = new_job();
    let config = folder.path("job/model/trainer_config.py");
    let original = fs::read_to_string(&config).unwrap();
    let line = original.lines().count() + 1;
    let image = "x = data_layer(name='x', size=64)\n";
    for (text, words) in [
        (
            "img_conv_layer(input=x, filter_size=20, num_channels=1, num_filters=4)",
            "a window of 20 pixels does not fit into an image of 8",
        ),
        (
            "img_pool_layer(input=x, pool_size=30, num_channels=1)",
            "a window of 30 pixels does not fit",
        ),
        (
            "img_conv_layer(input=x, filter_size=3, num_channels=0, num_filters=4)",
            "num_channels is 0",
        ),
        (
            "img_conv_layer(input=x, filter_size=3, num_channels=1, num_filters=4, stride=0)",
            "moves by 0 covers nothing",
        ),
        ("data_layer(name='y', size=-1)", "has size -1"),
        ("native_dense([0, -1])", "a number from 0, not -1"),
        (
            "fc_layer(input=x, size=3, act='softmax')",
            "SoftmaxActivation(), not the text 'softmax'",
        ),
    ] {
        fs::write(&config, format!("{original}{image}{text}\n")).unwrap();
        let checked = folder.canoe(&["config", "check", "job", "--json"]);
        failed(&checked);
        let result: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        let problem = &result["problems"][0];
        assert!(
            problem["text"].as_str().unwrap().contains(words),
            "{result}"
        );
        let place = problem["place"].as_str().unwrap();
        assert!(
            place.ends_with(&format!("trainer_config.py:{}", line + 1)),
            "{result}"
        );
    }
    let evaluator =
        "chunk_evaluator(input=output, label=label, chunk_scheme='IOB', num_chunk_types=1)\n";
    fs::write(&config, format!("{original}{evaluator}")).unwrap();
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    let place = format!("trainer_config.py:{line}: evaluator");
    assert!(
        text.contains(&place) && text.contains("'__fc_layer_1__'"),
        "{text}"
    );
    fs::write(&config, original).unwrap();
    let provider = folder.path("job/model/provider.py");
    let text = fs::read_to_string(&provider).unwrap();
    let plain: String = text
        .lines()
        .filter(|line| !line.starts_with("@provider"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(provider, plain).unwrap();
    let text = failed(&folder.canoe(&["config", "check", "job"]));
    assert!(
        text.contains("provider.process") && text.contains("write @provider("),
        "{text}"
    );
}

#[test]
fn numbers_below_zero_and_files_in_the_place_of_folders_are_named() {
    let folder = new_job();
    for flag in ["--patience", "--passes", "--start-pass"] {
        let text = failed(&folder.canoe(&["run", "job", flag, "-1", "--watch=off"]));
        assert!(
            text.contains("'-1'") && text.contains("invalid value"),
            "{text}"
        );
    }
    fs::write(folder.path("file"), "").unwrap();
    let text = failed(&folder.canoe(&["new", "file"]));
    assert!(text.contains("file is a file; name a folder"), "{text}");
}

#[test]
fn a_report_that_cannot_be_written_leaves_nothing_behind() {
    let folder = new_job();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    let report = ["report", "job", "--to", "report.html"];
    succeeded(&folder.canoe(&report));
    fs::remove_file(folder.path("report.html")).unwrap();
    // A disk on which nothing can be written.
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 1; trap '' XFSZ; exec \"$@\"", "sh", CANOE])
        .args(report)
        .current_dir(folder.path("."))
        .output()
        .unwrap();
    let text = failed(&limited);
    assert!(text.contains("write report.html"), "{text}");
    let names: Vec<_> = fs::read_dir(folder.path("."))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["job"]);
}

#[test]
fn a_run_that_trainers_would_refuse_leaves_earlier_results_where_they_are() {
    let folder = new_job();
    succeeded(&folder.canoe(&["run", "job", "--passes=1", "--watch=off"]));
    let config = folder.path("job/model/trainer_config.py");
    let original = fs::read_to_string(&config).unwrap();
    let run = |more: &[&str], words: &str| {
        let done = folder.canoe(&[&["run", "job", "--watch=off"], more].concat());
        let text = failed(&done);
        assert!(text.contains(words), "{more:?}: {text}");
        if text.contains("trainer_config.py:") {
            assert_eq!(done.status.code(), Some(78), "{text}");
        }
        assert!(!folder.path("job/output-1").exists(), "{more:?}: {text}");
        assert!(folder.path("job/output/pass-00000/done").exists());
    };
    run(&["--passes=0"], "--passes");
    run(&["--init-model-path=nope"], "nope does not exist");
    let broken = original.replace("fc_layer(input=point", "fc_layr(input=point");
    fs::write(&config, broken).unwrap();
    run(&[], "trainer_config.py:17: NameError");
    fs::write(&config, original.replace("batch_size=32", "batch_size=0")).unwrap();
    run(&[], "trainer_config.py:12: settings has batch_size=0");
    fs::write(&config, original.replace("'data/test.list'", "None")).unwrap();
    run(&["--patience=1"], "--patience 1 needs test data");
}
