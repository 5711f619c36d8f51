//! `canoe predict`: the outputs of `--job=test`, from every kind of input, whatever the batch size; and messages for what
//! cannot be predicted.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{BY_ROW, CANOE, Folder, failed, said, succeeded};

/// A folder with a trained model of a configuration in `job/out`.
fn trained(config: &str) -> Folder {
    let folder = Folder::with_demo(200);
    succeeded(&folder.train(config, "job/out", &["--num_passes=1"]));
    folder
}

/// What `--job=test` writes for the prediction data.
fn tested(folder: &Folder, config: &str, model: &str) -> String {
    let config = format!("--config=quick_start/{config}");
    let model = format!("--init_model_path={model}");
    succeeded(&folder.canoe_in(
        "job",
        &[
            "train",
            &config,
            &model,
            "--job=test",
            "--config_args=is_predict=1",
            "--predict_output_dir=rank",
        ],
    ));
    fs::read_to_string(folder.path("job/rank/rank-00000")).unwrap()
}

fn stdout(folder: &Folder, args: &[&str]) -> String {
    let out = folder.canoe_in("job", args);
    succeeded(&out);
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn text_and_the_provider_yield_what_a_test_yields_whatever_the_batch_size() {
    for config in [
        "trainer_config.lr.py",
        "trainer_config.cnn.py",
        "trainer_config.lstm.py",
    ] {
        let folder = trained(config);
        let want = tested(&folder, config, "out/pass-00000");
        let v1 = ["--config-args", "is_predict=1", "--format", "v1"];
        let text = ["predict", "out", "data/pred.txt"];
        assert_eq!(
            stdout(&folder, &[&text[..], &v1].concat()),
            want,
            "{config}"
        );
        let provider = ["predict", "out", "--input-format", "provider"];
        assert_eq!(
            stdout(&folder, &[&provider[..], &v1].concat()),
            want,
            "{config}"
        );
        let batches = ["1", "3", "1000"].map(|size| {
            let more = ["--batch-size", size, "--threads", "2"];
            stdout(&folder, &[&text[..], &more].concat())
        });
        assert_eq!(batches[0], batches[1], "{config}");
        assert_eq!(batches[1], batches[2], "{config}");
    }
}

#[test]
fn csv_and_json_lines_are_samples_and_results() {
    let folder = trained("trainer_config.lr.py");
    let labels = ["--labels", "data/labels.list"];
    fs::write(
        folder.path("job/in.csv"),
        "id,word\n7,\"good , very good\"\n8,bad\n",
    )
    .unwrap();
    let csv = stdout(
        &folder,
        &[&["predict", "out", "in.csv", "--keep"][..], &labels].concat(),
    );
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        lines[0],
        "id,word,__fc_layer_0__,__fc_layer_0__.neg,__fc_layer_0__.pos"
    );
    assert!(lines[1].starts_with("7,\"good , very good\","), "{csv}");
    assert_eq!(lines.len(), 3);
    fs::write(
        folder.path("job/in.jsonl"),
        "{\"word\": \"good , very good\"}\n\n{\"word\": [\"bad\"]}\n",
    )
    .unwrap();
    let json = stdout(
        &folder,
        &[&["predict", "out", "in.jsonl"][..], &labels].concat(),
    );
    for (line, record) in json.lines().zip(&lines[1..]) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let scores = &value["__fc_layer_0__"]["scores"];
        let cells: Vec<&str> = record.rsplitn(3, ',').collect();
        assert_eq!(scores["pos"].to_string(), cells[0]);
        assert_eq!(scores["neg"].to_string(), cells[1]);
    }
    let to = ["predict", "out", "in.csv", "-o", "result.csv"];
    succeeded(&folder.canoe_in("job", &to));
    let written = fs::read_to_string(folder.path("job/result.csv")).unwrap();
    assert_eq!(written.lines().count(), 3);
    assert!(!folder.path("job/.result.csv.part").exists());
}

#[test]
fn tables_that_servers_saved_are_read_by_row() {
    let folder = Folder::with_demo(200);
    // Servers keep rows only where no trainer tests; see the test of `--job=test`.
    let untested = ("else 'data/test.list'", "else None");
    folder.vary("trainer_config.emb.py", "rows.py", &[BY_ROW, untested]);
    succeeded(&folder.canoe(&["data", "split", "job", "--shards=2"]));
    let unheld = "--loadsave_parameters_in_pserver=1";
    let run = folder.nodes(2, "rows.py", &["--passes=1", "--", unheld]);
    succeeded(&run);
    assert!(
        folder.path("job/output/pass-00000/pserver.0000").exists(),
        "{}",
        said(&run)
    );
    let want = tested(&folder, "rows.py", "output/pass-00000");
    let args = [
        "predict",
        ".",
        "data/pred.txt",
        "--config-args",
        "is_predict=1",
        "--format",
        "v1",
    ];
    assert_eq!(stdout(&folder, &args), want);
    let exported = folder.canoe_in("job", &["model", "export", ".", "model.npz"]);
    assert!(
        said(&exported).contains("x 128, rows have words"),
        "{}",
        said(&exported)
    );
}

#[test]
fn what_cannot_be_predicted_is_named_with_its_line_and_field() {
    let folder = trained("trainer_config.emb.py");
    let job = |args: &[&str]| failed(&folder.canoe_in("job", args));
    let file = |name: &str, text: &str| fs::write(folder.path("job").join(name), text).unwrap();
    file("a.jsonl", "{\"word\": [1]}\n{\"word\": [99999999]}\n");
    let text = job(&["predict", "out", "a.jsonl"]);
    assert!(
        text.contains("a.jsonl line 2") && text.contains("out of range"),
        "{text}"
    );
    file("b.csv", "words\nx\n");
    assert!(job(&["predict", "out", "b.csv"]).contains("'word'"));
    file("c.txt", "x\n");
    let text = job(&["predict", "out", "c.txt", "--unknown", "refuse"]);
    assert!(
        text.contains("c.txt line 1") && text.contains("--unknown"),
        "{text}"
    );
    assert!(job(&["predict", "out", "missing.txt"]).contains("missing.txt"));
    assert!(job(&["predict", "nowhere", "c.txt"]).contains("no model"));
    assert!(job(&["predict", "out", "c.txt", "--output", "x"]).contains("no layer 'x'"));
    fs::create_dir(folder.path("job/out/pass-00007")).unwrap();
    assert!(job(&["predict", "out/pass-00007", "c.txt"]).contains("done"));
    fs::remove_file(folder.path("job/out/pass-00000/___fc_layer_0__.w0")).unwrap();
    assert!(job(&["predict", "out", "c.txt"]).contains("___fc_layer_0__.w0"));
}

#[test]
fn an_exported_model_comes_back_and_words_have_neighbours() {
    let folder = trained("trainer_config.emb.py");
    for ending in ["npz", "safetensors"] {
        let (file, back) = (format!("m.{ending}"), format!("back-{ending}/pass-00000"));
        succeeded(&folder.canoe_in("job", &["model", "export", "out", &file]));
        let import = [
            "model",
            "import",
            &file,
            &back,
            "--config",
            "quick_start/trainer_config.emb.py",
        ];
        succeeded(&folder.canoe_in("job", &import));
        let original = folder.parameters("job/out/pass-00000");
        assert_eq!(folder.parameters(&format!("job/{back}")), original);
        assert!(failed(&folder.canoe_in("job", &import)).contains("exists"));
    }
    let near = [
        "model",
        "neighbours",
        "out",
        "embedding_0.weight",
        "great",
        "--json",
    ];
    let list: serde_json::Value = serde_json::from_str(&stdout(&folder, &near)).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 10);
    assert!(list[0]["cosine"].as_f64() >= list[9]["cosine"].as_f64());
    let nobody = [
        "model",
        "neighbours",
        "out",
        "embedding_0.weight",
        "nosuchword",
    ];
    assert!(failed(&folder.canoe_in("job", &nobody)).contains("nosuchword"));
    let embed = ["model", "embed", "out", "embedding_0.weight"];
    let rows = stdout(&folder, &embed);
    let words = fs::read_to_string(folder.path("job/data/dict.txt")).unwrap();
    assert_eq!(rows.lines().count(), words.lines().count());
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let folder = trained("trainer_config.lr.py");
    let many = "good\n".repeat(200_000);
    fs::write(folder.path("job/many.txt"), many).unwrap();
    let mut child = Command::new(CANOE)
        .args(["predict", "out", "many.txt"])
        .current_dir(folder.path("job"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(out.status.code(), Some(141));
}

#[test]
fn what_came_before_a_bad_line_is_written_and_nothing_is_replaced_or_left() {
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    fs::write(job("in.csv"), "id,word\n1,great\n2,bad\n").unwrap();
    let good = stdout(&folder, &["predict", "out", "in.csv"]);
    // A file that ends inside of quotes, lines that are no JSON, bytes that are no text.
    fs::write(job("cut.csv"), "id,word\n1,great\n2,bad\n3,\"cut\n").unwrap();
    let jsonl = "{\"word\":\"great\"}\n{\"word\":\"bad\"}\n{\"word\":5}\n";
    fs::write(job("bad.jsonl"), jsonl).unwrap();
    fs::write(job("bad.txt"), b"great\nbad\n\xff\xfe\n").unwrap();
    for (file, what) in [
        ("cut.csv", "line 4: the file ends inside the quotes"),
        ("bad.jsonl", "bad.jsonl line 3"),
        ("bad.txt", "not text in UTF-8"),
    ] {
        let out = folder.canoe_in("job", &["predict", "out", file, "--format", "csv"]);
        assert!(failed(&out).contains(what), "{file}: {}", said(&out));
        assert_eq!(String::from_utf8(out.stdout).unwrap(), good, "{file}");
    }
    failed(&folder.canoe_in("job", &["predict", "out", "cut.csv", "-o", "new.csv"]));
    assert!(!job("new.csv").exists() && !job(".new.csv.part").exists());
    // A mark before text in UTF-8 is no part of the first word.
    fs::write(job("mark.txt"), b"\xef\xbb\xbfgreat\nbad\n").unwrap();
    assert_eq!(stdout(&folder, &["predict", "out", "mark.txt"]), good);
    // The output must not be an input, under any name.
    std::os::unix::fs::symlink("in.csv", job("link.csv")).unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "in.csv", "-o", "link.csv"]));
    assert!(text.contains("would replace an input"), "{text}");
    assert_eq!(
        fs::read_to_string(job("in.csv")).unwrap(),
        "id,word\n1,great\n2,bad\n"
    );
    fs::write(job("empty.csv"), "").unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "empty.csv"]));
    assert!(text.contains("is empty"), "{text}");
}

#[test]
fn names_of_classes_must_fit() {
    let folder = trained("trainer_config.lr.py");
    for (names, what) in [
        ("a\nb\nc\n", "has 3 names"),
        ("a\n", "has 1 names"),
        ("", "has 0 names"),
        ("x\nx\n", "two classes are called 'x'"),
    ] {
        fs::write(folder.path("job/names"), names).unwrap();
        let args = ["predict", "out", "data/pred.txt", "--labels", "names"];
        let text = failed(&folder.canoe_in("job", &args));
        assert!(text.contains(what), "{names:?}: {text}");
    }
    fs::write(folder.path("job/names"), "blame\npraise\n").unwrap();
    let args = ["predict", "out", "data/pred.txt", "--labels", "names"];
    assert!(stdout(&folder, &args).contains(".praise"));
}

#[test]
fn compressed_inputs_are_unpacked_and_their_inner_ending_counts() {
    use std::io::Write;
    let folder = trained("trainer_config.lr.py");
    let job = |name: &str| folder.path(&format!("job/{name}"));
    let csv = "id,word\n1,great\n2,bad\n";
    fs::write(job("in.csv"), csv).unwrap();
    let file = fs::File::create(job("in.csv.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed.write_all(csv.as_bytes()).unwrap();
    packed.finish().unwrap();
    let plain = stdout(&folder, &["predict", "out", "in.csv", "--keep"]);
    let unpacked = stdout(&folder, &["predict", "out", "in.csv.gz", "--keep"]);
    assert_eq!(unpacked, plain);
    let bytes = fs::read(job("in.csv.gz")).unwrap();
    fs::write(job("cut.csv.gz"), &bytes[..bytes.len() - 9]).unwrap();
    let text = failed(&folder.canoe_in("job", &["predict", "out", "cut.csv.gz"]));
    assert!(text.contains("cut.csv.gz"), "{text}");
}

#[test]
fn ids_of_libsvm_count_as_in_the_training_data() {
    let folder = Folder::empty();
    let job = |name: &str| folder.path(name);
    fs::write(
        job("sparse.py"),
        "from paddle.trainer_config_helpers import *\n\
        define_native_data_sources(['train.svm'], None, format='libsvm',\n\
        \x20   slots=[native_features(4, layer='features'), native_label(2, layer='label')])\n\
        settings(batch_size=2, learning_rate=0.5)\n\
        output = fc_layer(input=data_layer(name='features', size=4), size=2, act=SoftmaxActivation())\n\
        outputs(classification_cost(input=output, label=data_layer(name='label', size=2)))\n",
    )
    .unwrap();
    fs::write(job("train.svm"), "1 1:1 2:0.5\n-1 4:1\n").unwrap();
    let args = [
        "train",
        "--config=sparse.py",
        "--save_dir=out",
        "--num_passes=3",
    ];
    succeeded(&folder.canoe(&args));
    let predicted = |args: &[&str]| {
        let out = folder.canoe(&[&["predict", "out"][..], args].concat());
        succeeded(&out);
        String::from_utf8(out.stdout).unwrap()
    };
    let by_reader = predicted(&["train.svm", "--input-format", "provider"]);
    fs::write(job("features.txt"), "1:1 2:0.5\n4:1\n").unwrap();
    assert_eq!(predicted(&["features.txt"]), by_reader);
    let json = "{\"features\": [[1, 1], [2, 0.5]]}\n{\"features\": {\"4\": 1}}\n";
    fs::write(job("features.jsonl"), json).unwrap();
    assert_eq!(predicted(&["features.jsonl", "--format", "csv"]), by_reader);
    fs::write(job("features.txt"), "0:1\n").unwrap();
    let text = failed(&folder.canoe(&["predict", "out", "features.txt"]));
    assert!(
        text.contains("id 0 is out of range, ids are 1 to 4"),
        "{text}"
    );
}
